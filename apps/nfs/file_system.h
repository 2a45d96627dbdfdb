// The storage of an export: the seam between the NFS service and its back ends.
//
// Requests have the arguments and results of RFC 1813. The service has made the checks of
// procedures.h before: the handle is one of the export, the caller may use the export, names have
// one component, attributes can be set, and nothing changes in an export that is read-only. The
// back end checks what the caller may do with the file. LOOKUP alone takes "." and "..": the parent
// of the export's directory is that directory. `count` and `maxcount` of a listing are what the
// answer has room for, bytes of XDR.
//
// Threads: start() may be called on any thread and does not block. A request ends when the back end
// calls `done`, exactly once, on any thread, perhaps before start() has returned. Views in the
// arguments, and the memory of the results, stay valid until then.
//
// This header knows neither file descriptors nor RDMA, so that the storage may be elsewhere.
#ifndef RPCRDMA_NFS_FILE_SYSTEM_H_
#define RPCRDMA_NFS_FILE_SYSTEM_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nfs/procedures.h"
#include "nfs3.h"
#include "rpcrdma/callback.h"
#include "rpcrdma/types.h"

namespace nfs {

// The identity of a caller after the export's rules have been applied (root_squash and so on).
struct Caller {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // further ones
  bool operator==(const Caller&) const = default;
};

// Turns a back end's own handle, at most kInnerHandleMax bytes that name a file for as long as it
// exists, into the handle that clients see (handle_seal.h).
class HandleMaker {
 public:
  static constexpr std::size_t kInnerHandleMax = 42;
  virtual ~HandleMaker() = default;
  virtual nfs3::nfs_fh3 seal(std::span<const std::byte> inner) const = 0;
};

template <class Results>
using Done = rpcrdma::Callback<void(Results)>;

// One call on its way through a back end.
template <class ProcedureType>
struct Request {
  using Procedure = ProcedureType;
  using Results = typename Procedure::Results;

  Caller caller{};
  typename Procedure::Args args{};  // handles are the back end's own; those in results are sealed
  rpcrdma::MutableBytes into{};     // Procedure::memory_size() bytes; the results view them
  Done<Results> done{};
  std::uint64_t host = 0;  // number_of_host() of the caller: hosts wait for threads in turns
};
template <std::uint32_t kNumber>
using RequestOf = Request<Procedure<kNumber>>;

// One virtual function start() for each procedure from 1 to `kLast`.
template <std::uint32_t kLast>
class Operations : public Operations<kLast - 1> {
 public:
  using Operations<kLast - 1>::start;
  virtual void start(RequestOf<kLast> request) = 0;
};
template <>
class Operations<1> {
 public:
  virtual ~Operations() = default;
  virtual void start(RequestOf<1> request) = 0;
};

// A back end derives from FileSystemOf (back_end/dispatch.h). The destructor ends, or waits for,
// the calls that are under way.
class FileSystem : public Operations<kLastProcedure> {
 public:
  // Waits until `until` for the calls that are on threads of the back end; calls that come later
  // are answered with JUKEBOX. False: some calls still wait for something that may never come, and
  // the back end cannot be destroyed; the process can leave by _exit(2), and loses nothing that was
  // answered.
  virtual bool stop(std::chrono::steady_clock::time_point /*until*/) noexcept { return true; }
  // Returns how long stop() is worth waiting for. A cluster that is gone is not.
  virtual std::chrono::seconds patience_at_end() const noexcept { return std::chrono::seconds(5); }

  // Asks the storage itself, so that an answer proves that it is reachable at this moment, by the
  // attributes of the export's directory.
  virtual void check(Done<nfs3::GETATTR3res> done) {
    RequestOf<nfs3::NFSPROC3_GETATTR> request{.done = std::move(done)};
    request.args.object.data = root();
    start(std::move(request));
  }

  // Called about once a second, on a thread that is not the back end's: begins what has to be done
  // though no call comes, and ends calls that have waited too long for storage that hangs.
  virtual void do_chores() {}

  // Changes how many files stay open beyond the calls that use them. From any thread; closes
  // nothing itself that one would have to wait for.
  virtual void set_open_files_max(std::size_t /*count*/) {}

  // Returns whether the export's name leads to another directory than the one that is served, since
  // a file system was mounted there, say. May wait for storage.
  virtual bool has_been_replaced() const { return false; }

  // Returns the inner handle of the export's directory.
  virtual std::vector<std::byte> root() const = 0;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_FILE_SYSTEM_H_
