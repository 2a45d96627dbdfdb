// One mount of a CephFS, and all that is lost with it when the cluster shuts this client out.
#ifndef RPCRDMA_NFS_CEPH_SESSION_H_
#define RPCRDMA_NFS_CEPH_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "nfs/ceph/api.h"
#include "nfs/ceph/open_files.h"
#include "nfs3.h"
#include "rpcrdma/error.h"

namespace nfs::ceph {

struct SessionSettings {
  std::string path = "/";       // the directory that is exported
  std::string configuration{};  // a file; empty: Ceph's own choice, /etc/ceph/ceph.conf
  std::string user{};           // without "client."; empty: "admin"
  std::string file_system{};    // of several; empty: the cluster's only one
  // The name by which a successor of this process first ends all that this one held, so that nobody
  // waits for it. Empty: the cluster has to find out that this one is dead.
  std::string gateway{};
  std::size_t open_files_max = 1024;  // that nobody uses
};

class Session {
 public:
  // Waits for the cluster, but not for ever. The text says what went wrong.
  static rpcrdma::Expected<std::unique_ptr<Session>, std::string> open(
      const SessionSettings& settings);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  ceph_mount_info* mount() const noexcept { return mount_; }
  Inode* root() const noexcept { return root_; }
  const Handle& root_handle() const noexcept { return root_handle_; }
  std::uint64_t file_system() const noexcept { return root_handle_.file_system; }
  OpenFiles& open_files() noexcept { return *open_; }
  // The verifier of WRITE and COMMIT. It changes with the session, so that clients write again what
  // a lost session had not committed.
  const nfs3::writeverf3& verifier() const noexcept { return verifier_; }

  // A lost session can do nothing more: the cluster refuses it.
  bool is_lost() const noexcept { return is_lost_; }
  void set_lost() noexcept { is_lost_ = true; }

 private:
  Session() = default;
  int start(const SessionSettings& settings, const char*& step);

  ceph_mount_info* mount_ = nullptr;
  bool is_mounted_ = false;
  Inode* root_ = nullptr;
  Handle root_handle_;
  nfs3::writeverf3 verifier_{};
  std::atomic<bool> is_lost_ = false;
  std::unique_ptr<OpenFiles> open_;
};

}  // namespace nfs::ceph

#endif  // RPCRDMA_NFS_CEPH_SESSION_H_
