#include "nfs/ceph/session.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "nfs/ceph/identity.h"

namespace nfs::ceph {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 5> kOptions{{
    // With the cache of writes on, an fsync after an eviction says that lost data is safe.
    {"client_oc", "false"},
    // The library checks what callers may do.
    {"client_permissions", "true"},
    {"fuse_default_permissions", "false"},
    // Names that NFS cannot give back: reading a snapshot by handle may wait for ever.
    {"client_snapdir", ""},
    {"client_mount_timeout", "30"},  // s; by default five minutes
}};

const char* c_string(const std::string& text) {
  return text.empty() ? nullptr : text.c_str();
}

}  // namespace

rpcrdma::Expected<std::unique_ptr<Session>, std::string> Session::open(
    const SessionSettings& settings) {
  std::unique_ptr<Session> made(new Session);
  const char* step = "";
  const int error = made->start(settings, step);
  if (error >= 0) return made;
  return rpcrdma::Unexpected<std::string>(std::string(step) + ": " + std::strerror(-error));
}

int Session::start(const SessionSettings& settings, const char*& step) {
  if (::getrandom(verifier_.data(), verifier_.size(), 0) < 0) return -errno;
  step = "beginning with libcephfs";
  int error = ceph_create(&mount_, c_string(settings.user));
  if (error < 0) return error;
  step = "reading the cluster's configuration (conf=FILE)";
  error = ceph_conf_read_file(mount_, c_string(settings.configuration));
  for (const auto& [name, value] : kOptions) {
    if (error >= 0) error = ceph_conf_set(mount_, name, value);
  }
  if (error < 0) return error;
  step = "asking the cluster (id=USER; is its key in the keyring that the configuration names?)";
  error = ceph_init(mount_);
  if (error < 0) return error;
  if (!settings.file_system.empty()) {
    step = "choosing the file system (fs=NAME)";
    error = ceph_select_filesystem(mount_, settings.file_system.c_str());
    if (error < 0) return error;
  }
  if (!settings.gateway.empty()) {
    step = "ending what an earlier process of this gateway held";
    error = ceph_start_reclaim(mount_, settings.gateway.c_str(), CEPH_RECLAIM_RESET);
    // There was none; or the server of metadata cannot do it, and finds out by itself.
    if (error < 0 && error != -ENOENT && error != -EOPNOTSUPP && error != -ENOTRECOVERABLE) {
      return error;
    }
    if (error >= 0) ceph_finish_reclaim(mount_);
    ceph_set_uuid(mount_, settings.gateway.c_str());
  }
  step = "mounting (is the cluster there, and the directory?)";
  error = ceph_mount(mount_, settings.path.c_str());
  if (error < 0) return error;
  is_mounted_ = true;
  step = "looking at the directory";
  error = ceph_ll_lookup_root(mount_, &root_);
  Statx status{};
  if (error >= 0) error = ceph_ll_getattr(mount_, root_, &status, kAll, 0, superuser());
  if (error < 0) return error;
  if (!S_ISDIR(status.stx_mode)) return -ENOTDIR;
  root_handle_ = Handle::of(status, static_cast<std::uint64_t>(ceph_get_fs_cid(mount_)));
  open_ = std::make_unique<OpenFiles>(mount_, settings.open_files_max);
  return 0;
}

Session::~Session() {
  open_.reset();
  if (root_ != nullptr) ceph_ll_put(mount_, root_);
  if (is_mounted_) ceph_unmount(mount_);
  if (mount_ != nullptr) ceph_release(mount_);
}

}  // namespace nfs::ceph
