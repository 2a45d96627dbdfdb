// What keeps the files: the seam between the NFS service and its back ends.
//
// Operations are those of RFC 1813, with its arguments and results. The service has checked before
// that the handle is one of the export, that the caller may use the export, that names are names
// (one component, not "." or ".."), that attributes to set can be set (sizes below 2^63, less than
// a second of nanoseconds, owners that there can be), and that nothing is changed in an export that
// is read-only. The back end checks what the caller may do with the file.
//
// Threads: operations begin on any thread and do not block. Each ends by calling `done` exactly
// once, on any thread, perhaps before the operation has returned. Views in the arguments, and the
// memory given to read(), stay valid until then.
//
// It knows neither file descriptors nor RDMA, so that what keeps the files may be elsewhere.
#ifndef RPCRDMA_NFS_FILE_SYSTEM_H_
#define RPCRDMA_NFS_FILE_SYSTEM_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nfs3.h"
#include "rpcrdma/callback.h"
#include "rpcrdma/types.h"

namespace nfs {

// On whose behalf, after the export's rules have been applied (root_squash and so on).
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

class FileSystem {
 public:
  template <class Results>
  using Done = rpcrdma::Callback<void(Results)>;

  // Ends what is under way, or waits for it.
  virtual ~FileSystem() = default;

  // Ends, or waits for, what is with threads of its own; what comes afterwards is answered with
  // JUKEBOX. False: some still wait at that time, for what may never come, and it cannot be
  // destroyed; the process can leave by _exit(2), and nothing is lost that was answered.
  virtual bool stop(std::chrono::steady_clock::time_point /*until*/) noexcept { return true; }

  // Asks what keeps the files, so that an answer says that it is there at this moment. Where that
  // is this machine, the attributes of the export's directory do.
  virtual void check(Done<nfs3::GETATTR3res> done) {
    nfs3::GETATTR3args args;
    args.object.data = root();
    get_attributes({}, std::move(args), std::move(done));
  }

  // Called about once a second, on any thread: begins what has to be done though no call comes.
  virtual void do_chores() {}

  // Handles in arguments are the back end's own, those in results are sealed.

  // The inner handle of the export's directory.
  virtual std::vector<std::byte> root() const = 0;

  virtual void get_attributes(Caller caller, nfs3::GETATTR3args args,
                              Done<nfs3::GETATTR3res> done) = 0;
  virtual void set_attributes(Caller caller, nfs3::SETATTR3args args,
                              Done<nfs3::SETATTR3res> done) = 0;
  // The name may be ".." here, and "."; the parent of the export's directory is that directory.
  virtual void look_up(Caller caller, nfs3::LOOKUP3args args, Done<nfs3::LOOKUP3res> done) = 0;
  virtual void access(Caller caller, nfs3::ACCESS3args args, Done<nfs3::ACCESS3res> done) = 0;
  // `into` has room for NFS3_PATH_MAX bytes; the result views it.
  virtual void read_link(Caller caller, nfs3::READLINK3args args, rpcrdma::MutableBytes into,
                         Done<nfs3::READLINK3res> done) = 0;
  // As much as `into` takes; the result views it.
  virtual void read(Caller caller, nfs3::READ3args args, rpcrdma::MutableBytes into,
                    Done<nfs3::READ3res> done) = 0;
  virtual void write(Caller caller, nfs3::WRITE3args args, Done<nfs3::WRITE3res> done) = 0;
  virtual void create(Caller caller, nfs3::CREATE3args args, Done<nfs3::CREATE3res> done) = 0;
  virtual void make_directory(Caller caller, nfs3::MKDIR3args args, Done<nfs3::MKDIR3res> done) = 0;
  virtual void make_symbolic_link(Caller caller, nfs3::SYMLINK3args args,
                                  Done<nfs3::SYMLINK3res> done) = 0;
  virtual void make_node(Caller caller, nfs3::MKNOD3args args, Done<nfs3::MKNOD3res> done) = 0;
  virtual void remove(Caller caller, nfs3::REMOVE3args args, Done<nfs3::REMOVE3res> done) = 0;
  virtual void remove_directory(Caller caller, nfs3::RMDIR3args args,
                                Done<nfs3::RMDIR3res> done) = 0;
  virtual void rename(Caller caller, nfs3::RENAME3args args, Done<nfs3::RENAME3res> done) = 0;
  virtual void link(Caller caller, nfs3::LINK3args args, Done<nfs3::LINK3res> done) = 0;
  // `count` and `maxcount` are what the answer has room for, bytes of XDR.
  virtual void read_directory(Caller caller, nfs3::READDIR3args args,
                              Done<nfs3::READDIR3res> done) = 0;
  virtual void read_directory_plus(Caller caller, nfs3::READDIRPLUS3args args,
                                   Done<nfs3::READDIRPLUS3res> done) = 0;
  virtual void space(Caller caller, nfs3::FSSTAT3args args, Done<nfs3::FSSTAT3res> done) = 0;
  // Sizes of READ and WRITE are the service's business.
  virtual void limits(Caller caller, nfs3::FSINFO3args args, Done<nfs3::FSINFO3res> done) = 0;
  virtual void path_limits(Caller caller, nfs3::PATHCONF3args args,
                           Done<nfs3::PATHCONF3res> done) = 0;
  virtual void commit(Caller caller, nfs3::COMMIT3args args, Done<nfs3::COMMIT3res> done) = 0;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_FILE_SYSTEM_H_
