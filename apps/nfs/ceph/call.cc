#include "nfs/ceph/call.h"

#include <cerrno>
#include <string_view>

#include "nfs/back_end/attributes.h"
#include "nfs/back_end/rights.h"

namespace nfs::ceph {

using nfs3::nfsstat3;

const char* component(const std::string& name) noexcept {
  // The service lets no other names through; this is the second wall. Snapshots are not exported.
  const bool is_one = !name.empty() && name != "." && name != ".." && name != ".snap" &&
                      name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  return is_one ? name.c_str() : nullptr;
}

nfsstat3 Call::status_of(int result) const {
  if (result >= 0) return nfsstat3::NFS3_OK;
  switch (-result) {
    case ESHUTDOWN:  // the cluster has shut this client out
    case ENOTCONN:
      session_.set_lost();
      return nfsstat3::NFS3ERR_JUKEBOX;
    case ETIMEDOUT:
      return nfsstat3::NFS3ERR_JUKEBOX;
    default:
      return nfs::status_of(-result);
  }
}

Found Call::found(int result, Inode* inode, const Statx& status) const {
  Found found;
  found.error = status_of(result);
  if (!found) return found;
  found.inode = InodeUse(mount(), inode);
  found.handle = Handle::of(status, session_.file_system());
  found.status = stat_of(status);
  return found;
}

Found Call::find(const nfs3::nfs_fh3& handle) const {
  Found failure;
  const auto wanted = Handle::decode(handle.data);
  if (wanted && wanted->file_system == session_.file_system()) return by_handle(*wanted);
  failure.error = wanted ? nfsstat3::NFS3ERR_STALE : nfsstat3::NFS3ERR_BADHANDLE;
  return failure;
}

Found Call::by_handle(const Handle& wanted) const {
  Found failure;
  Inode* inode = nullptr;
  const int result = ceph_ll_lookup_vino(mount(), {{wanted.inode}, kHead}, &inode);
  failure.error = result == -ENOENT ? nfsstat3::NFS3ERR_STALE : status_of(result);
  if (!failure) return failure;
  InodeUse use(mount(), inode);
  Statx status{};
  failure.error = status_of(ceph_ll_getattr(mount(), inode, &status, kAll, 0, superuser()));
  if (!failure) return failure;
  Found file{std::move(use), Handle::of(status, session_.file_system()), stat_of(status)};
  // The library still finds a removed file while some client has it open.
  if (status.stx_nlink != 0 && file.handle == wanted) return file;
  session_.open_files().forget(wanted);
  failure.error = nfsstat3::NFS3ERR_STALE;
  return failure;
}

Found Call::find_directory(const nfs3::nfs_fh3& handle) const {
  Found directory = find(handle);
  if (directory && !S_ISDIR(directory.status.st_mode)) directory.error = nfsstat3::NFS3ERR_NOTDIR;
  return directory;
}

Found Call::entry(const Found& directory, const std::string& name) const {
  Found failure;
  const bool is_itself = name == "." || (name == ".." && directory.handle == tree_.root());
  if (is_itself) {
    failure.error = may(directory, kExecute);
    return failure ? by_handle(directory.handle) : std::move(failure);
  }
  if (name == "..") {
    failure.error = may(directory, kExecute);  // which the library does not ask for
    return failure ? parent_of(directory) : std::move(failure);
  }
  const char* const one = component(name);
  if (one == nullptr) {
    failure.error = nfsstat3::NFS3ERR_NOENT;
    return failure;
  }
  Inode* inode = nullptr;
  Statx status{};
  const int result =
      ceph_ll_lookup(mount(), directory.inode.get(), one, &inode, &status, kAll, 0, identity_);
  return found(result, inode, status);
}

Found Call::parent_of(const Found& directory) const {
  const auto above = [&](const Found& of, const UserPerm* identity) {
    Inode* inode = nullptr;
    Statx status{};
    const int result =
        ceph_ll_lookup(mount(), of.inode.get(), "..", &inode, &status, kAll, 0, identity);
    return found(result, inode, status);
  };
  Found parent = above(directory, identity_);
  // Directories of a CephFS can be moved by others, also while this goes on.
  constexpr int kDepthMax = 4096;
  Handle at = parent.handle;
  Found step;
  for (int i = 0; parent && at != tree_.root(); ++i) {
    step = above(i == 0 ? parent : step, superuser());
    if (!step || step.handle == at || i == kDepthMax) {
      parent.error = step ? nfsstat3::NFS3ERR_STALE : step.error;
    }
    at = step.handle;
  }
  return parent;
}

nfsstat3 Call::may(const Found& file, unsigned rights) const {
  return permits(file.status, caller_, rights) ? nfsstat3::NFS3_OK : nfsstat3::NFS3ERR_ACCES;
}

nfsstat3 Call::settle(const Found& file) const {
  if (tree_.is_async()) return nfsstat3::NFS3_OK;
  return status_of(ceph_ll_sync_inode(mount(), file.inode.get(), 0));
}

nfs3::post_op_attr Call::attributes_then(const Found& file) const {
  return after(file.status, tree_.fsid());
}

nfs3::post_op_attr Call::attributes_now(const Found& file) const {
  Statx status{};
  if (file.inode.get() == nullptr) return {};
  if (ceph_ll_getattr(mount(), file.inode.get(), &status, kAll, 0, superuser()) < 0) return {};
  return after(stat_of(status), tree_.fsid());
}

}  // namespace nfs::ceph
