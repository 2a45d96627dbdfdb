// The identity under which libcephfs, or the metadata server, executes a call.
#ifndef RPCRDMA_NFS_CEPH_IDENTITY_H_
#define RPCRDMA_NFS_CEPH_IDENTITY_H_

#include <sys/types.h>

#include <vector>

#include "nfs/ceph/api.h"
#include "nfs/file_system.h"

namespace nfs::ceph {

class Identity {
 public:
  explicit Identity(const Caller& caller)
      : groups_(caller.groups.begin(), caller.groups.end()),
        made_(ceph_userperm_new(caller.uid, caller.gid, static_cast<int>(groups_.size()),
                                groups_.data())) {}
  ~Identity() { ceph_userperm_destroy(made_); }
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;
  operator const UserPerm*() const noexcept { return made_; }  // NOLINT: as the library takes it

 private:
  std::vector<gid_t> groups_;  // the library does not copy them
  UserPerm* const made_;
};

inline const Identity& superuser() {
  static const Identity root(Caller{});
  return root;
}

}  // namespace nfs::ceph

#endif  // RPCRDMA_NFS_CEPH_IDENTITY_H_
