// The calls of a client of NFS version 3: coroutines, so that many are under way at a time on one
// thread, over one connection or several (connections.h).
//
// A call whose answer was lost with its connection is made again, over another connection or when
// this one is back, within the time of a call (ClientOptions::call_timeout). For a call that must
// not be executed twice, the client first looks whether it was executed: a removed name does not
// exist, a made one does. If somebody else did that meanwhile, the client cannot tell; a name that
// somebody else has made anew is removed then.
//
//   auto server = nfs::Mounted::open(*nfs::parse_nfs_url("nfs+rdma://192.0.2.1/data/dir"));
//   auto found = server->wait_for(server->look_up_path(server->path()));
#ifndef RPCRDMA_NFS_CLIENT_MOUNTED_H_
#define RPCRDMA_NFS_CLIENT_MOUNTED_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nfs/client/call_maker.h"
#include "nfs/client/connections.h"
#include "nfs/client/failure.h"
#include "nfs/client/turns.h"
#include "nfs/client/url.h"
#include "nfs3.h"
#include "rpcrdma/client.h"
#include "rpcrdma/coroutine.h"
#include "rpcrdma/error.h"

namespace nfs {

struct Node {
  nfs3::nfs_fh3 handle;
  nfs3::fattr3 attributes;
};

struct Listed {
  std::string name;
  std::uint64_t fileid = 0;
  std::optional<Node> node;  // the server may leave it out
};

struct MountOptions {
  rpcrdma::ClientOptions client;  // with `reconnect`, also over TCP
  // For NFS if client.auth says nothing, and for mountd, which has no Kerberos.
  std::optional<rpcrdma::AuthSys> credential{};
  std::uint32_t connections = 1;  // to each server
  // Names of a directory after which the server is taken to list without end.
  std::uint64_t entries_max = 1'000'000;
  // The port of MOUNT over TCP; 0: the connection itself is tried first, then rpcbind at the
  // server.
  std::uint16_t mount_port = 0;
};

class Mounted {
 public:
  // Connects, finds the longest export that the URL's path begins with, and gets its handle.
  // Blocks.
  static Result<std::unique_ptr<Mounted>> open(const NfsUrl& url, MountOptions options = {});
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

  Connections& connections() noexcept { return connections_; }
  // Makes calls that this class does not have (file_calls.h).
  CallMaker& call_maker() noexcept { return call_maker_; }
  const NfsUrl& url() const noexcept { return url_; }
  // The part of the URL's path below the export: "" or "a/b".
  const std::string& path() const noexcept { return path_; }
  const nfs3::nfs_fh3& root() const noexcept { return root_; }
  // Bytes that the server prefers in a READ and a WRITE, at most a mebibyte.
  std::uint32_t read_size() const noexcept { return read_size_; }
  std::uint32_t write_size() const noexcept { return write_size_; }

  // Runs a coroutine to its end; nothing else of this client's runs elsewhere meanwhile. Its calls
  // go again while the server is too busy for them (NFS3ERR_JUKEBOX), for the time of a call.
  template <class T>
  T wait_for(rpcrdma::Task<T> task) {
    const bool was_patient = std::exchange(is_patient_, true);
    task.start();
    for (turns_.resume_ready(); !task.done(); turns_.resume_ready()) {
      connections_.wait(turns_.next_time());
      connections_.progress();
    }
    is_patient_ = was_patient;
    return std::move(task).result();
  }

  // Names below the export, with slashes between them. Symbolic links on the way are followed as
  // long as they are relative; one at the end if `follow`.
  rpcrdma::Task<Result<Node>> look_up_path(std::string path, bool follow = true);
  rpcrdma::Task<Result<Node>> look_up(nfs3::nfs_fh3 directory, std::string name);
  rpcrdma::Task<Result<nfs3::fattr3>> attributes(nfs3::nfs_fh3 file);
  // The whole of it, without "." and "..". Asks for no more once it has `enough` names. Fails when
  // the server lists more than MountOptions::entries_max names, or goes round in a circle.
  rpcrdma::Task<Result<std::vector<Listed>>> list(nfs3::nfs_fh3 directory,
                                                  std::size_t enough = SIZE_MAX);
  rpcrdma::Task<Result<std::string>> read_link(nfs3::nfs_fh3 link);
  // Makes a file, or empties the one that has the name.
  rpcrdma::Task<Result<Node>> create(nfs3::nfs_fh3 directory, std::string name, std::uint32_t mode,
                                     Route route = {});
  // Cuts a file to no bytes, once: a call that comes late changes nothing of what was written
  // since.
  rpcrdma::Task<Result<void>> empty(nfs3::nfs_fh3 file, Route route = {});
  struct MadeDirectory {
    Node node;
    bool is_new;  // false: it was there before, or a call whose answer was lost has made it
  };
  rpcrdma::Task<Result<MadeDirectory>> make_directory(nfs3::nfs_fh3 directory, std::string name,
                                                      std::uint32_t mode);
  rpcrdma::Task<Result<void>> make_symbolic_link(nfs3::nfs_fh3 directory, std::string name,
                                                 std::string target);
  // Gives the file a further name, unless something has that.
  rpcrdma::Task<Result<void>> link(nfs3::nfs_fh3 file, nfs3::nfs_fh3 directory, std::string name);
  rpcrdma::Task<Result<void>> set(nfs3::nfs_fh3 file, nfs3::sattr3 attributes, Route route = {});
  rpcrdma::Task<Result<void>> remove(nfs3::nfs_fh3 directory, std::string name, bool is_directory);
  rpcrdma::Task<Result<void>> rename(nfs3::nfs_fh3 from, std::string name, nfs3::nfs_fh3 to,
                                     std::string new_name);
  rpcrdma::Task<Result<nfs3::FSSTAT3resok>> space();
  struct ReadEnd {
    std::uint32_t count;
    bool is_at_end;
  };
  // Into the memory; a server may read less than that, also before the end.
  rpcrdma::Task<Result<ReadEnd>> read(nfs3::nfs_fh3 file, std::uint64_t offset,
                                      rpcrdma::MutableBytes into, Route route = {});
  struct Written {
    std::uint32_t count;
    bool is_stable;
    nfs3::writeverf3 verifier;
  };
  rpcrdma::Task<Result<Written>> write(nfs3::nfs_fh3 file, std::uint64_t offset,
                                       rpcrdma::Bytes data, Route route = {});
  rpcrdma::Task<Result<nfs3::writeverf3>> commit(nfs3::nfs_fh3 file, Route route = {});

 private:
  using OnLoss = CallMaker::OnLoss;

  Mounted(NfsUrl url, const MountOptions& options);
  std::optional<Failure> mount(const MountOptions& options, Connections::Connection& connection);
  std::optional<Failure> mount_by(rpcrdma::Client& mounts);
  std::optional<std::string> flavor_trouble(const std::vector<int>& flavors) const;
  rpcrdma::Expected<rpcrdma::Client, rpcrdma::Error> connect_to_mount(const MountOptions& options,
                                                                      const std::string& host);
  std::optional<Failure> learn_sizes(Connections::Connection& connection);

  template <class T, class Begin, class Take>
  rpcrdma::Task<Result<T>> call(Route route, Begin begin, Take take,
                                OnLoss on_loss = OnLoss::kRepeat) {
    const CallAs as{.route = route};
    const auto deadline = Turns::Clock::now() + call_maker_.patience();
    for (auto pause = kPauseMin;; pause = std::min(pause * 2, kPauseMax)) {
      auto result = co_await call_maker_.call<T>(as, begin, take, on_loss);
      const bool goes_again = is_patient_ && !result && result.error().is_busy() &&
                              Turns::Clock::now() + pause < deadline;
      if (!goes_again) co_return result;
      co_await turns_.pause(pause);
    }
  }
  static constexpr Turns::Clock::duration kPauseMin = std::chrono::milliseconds(50);
  static constexpr Turns::Clock::duration kPauseMax = std::chrono::seconds(2);
  rpcrdma::Task<Result<void>> cut_to_nothing(Node file, Route route);
  rpcrdma::Task<Result<void>> remove_once(nfs3::diropargs3 what, bool is_directory);

  const NfsUrl url_;
  const std::uint64_t entries_max_;
  const rpcrdma::Protection protection_;  // of our calls
  Turns turns_;                           // of wait_for(); others have their own
  bool is_patient_ = false;               // within wait_for()
  Connections connections_;
  CallMaker call_maker_;
  std::string path_;
  nfs3::nfs_fh3 root_;
  std::uint32_t read_size_ = 0, write_size_ = 0;  // by learn_sizes()
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_MOUNTED_H_
