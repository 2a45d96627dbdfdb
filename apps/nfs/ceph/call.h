// The base of all calls of an export: it finds files by handle and by name, and checks rights.
#ifndef RPCRDMA_NFS_CEPH_CALL_H_
#define RPCRDMA_NFS_CEPH_CALL_H_

#include <sys/stat.h>

#include <optional>
#include <string>
#include <utility>

#include "nfs/ceph/handle.h"
#include "nfs/ceph/identity.h"
#include "nfs/ceph/tree.h"
#include "nfs/results.h"
#include "nfs3.h"

namespace nfs::ceph {

// A reference that the library counts.
class InodeUse {
 public:
  InodeUse() = default;
  InodeUse(ceph_mount_info* mount, Inode* inode) noexcept : mount_(mount), inode_(inode) {}
  InodeUse(InodeUse&& other) noexcept
      : mount_(other.mount_), inode_(std::exchange(other.inode_, nullptr)) {}
  InodeUse& operator=(InodeUse&& other) noexcept {
    std::swap(mount_, other.mount_);
    std::swap(inode_, other.inode_);
    return *this;
  }
  ~InodeUse() {
    if (inode_ != nullptr) ceph_ll_put(mount_, inode_);
  }
  Inode* get() const noexcept { return inode_; }

 private:
  ceph_mount_info* mount_ = nullptr;
  Inode* inode_ = nullptr;
};

// A file, and what it was when it was found; the status says why there is none.
struct Found {
  InodeUse inode{};
  Handle handle{};
  struct stat status {};
  nfs3::nfsstat3 error = nfs3::nfsstat3::NFS3_OK;

  explicit operator bool() const noexcept { return error == nfs3::nfsstat3::NFS3_OK; }
};

// One call, on a thread that may wait.
class Call {
 public:
  Call(Tree& tree, Session& session, const Caller& caller)
      : tree_(tree), session_(session), caller_(caller), identity_(caller) {}

  Tree& tree() const noexcept { return tree_; }
  Session& session() const noexcept { return session_; }
  ceph_mount_info* mount() const noexcept { return session_.mount(); }
  const Caller& caller() const noexcept { return caller_; }
  const Identity& identity() const noexcept { return identity_; }

  Found find(const nfs3::nfs_fh3& handle) const;
  Found by_handle(const Handle& wanted) const;
  Found find_directory(const nfs3::nfs_fh3& handle) const;
  // The entry of a directory; also "." and "..".
  Found entry(const Found& directory, const std::string& name) const;
  // Returns the parent of a directory; NFS3ERR_STALE if the export is not above the directory, as
  // when it was moved out.
  Found parent_of(const Found& directory) const;
  // Makes a Found of what a function of the library returned: its result and its output parameters.
  Found found(int result, Inode* inode, const Statx& status) const;

  // Translates a result of the library. Marks the session as lost if the result says so.
  nfs3::nfsstat3 status_of(int result) const;
  nfs3::nfsstat3 may(const Found& file, unsigned rights) const;
  // Waits until attributes, and names in a directory, are on the disk, unless the export is
  // asynchronous.
  nfs3::nfsstat3 settle(const Found& file) const;

  nfs3::post_op_attr attributes_then(const Found& file) const;
  // Returns the file's attributes as they are now; none if they cannot be read.
  nfs3::post_op_attr attributes_now(const Found& file) const;
  // Leaves out the attributes from before: another gateway may have changed the file meanwhile.
  nfs3::wcc_data change_of(const Found& file) const { return {{}, attributes_now(file)}; }

 private:
  Tree& tree_;
  Session& session_;
  const Caller& caller_;
  const Identity identity_;
};

// Returns a name of one component for the library; null if no exported file can have the name.
const char* component(const std::string& name) noexcept;

// Removes set-user-id and set-group-id from a file whose content another caller than root changed.
nfs3::nfsstat3 drop_set_id_bits(const Call& call, const Found& file);
// Sets the attributes of a SETATTR, or those that a new file gets after it was made.
nfs3::nfsstat3 set_attributes(const Call& call, const Found& file, const nfs3::sattr3& attributes);

// attribute_calls.cc
nfs3::GETATTR3res run(const Call& call, const nfs3::GETATTR3args& args);
// FileSystem::check()
struct Check {};
nfs3::GETATTR3res run(const Call& call, const Check& check);
nfs3::SETATTR3res run(const Call& call, const nfs3::SETATTR3args& args);
nfs3::ACCESS3res run(const Call& call, const nfs3::ACCESS3args& args);
nfs3::FSSTAT3res run(const Call& call, const nfs3::FSSTAT3args& args);
nfs3::FSINFO3res run(const Call& call, const nfs3::FSINFO3args& args);
nfs3::PATHCONF3res run(const Call& call, const nfs3::PATHCONF3args& args);

// data_calls.cc
nfs3::READLINK3res run(const Call& call, const nfs3::READLINK3args& args,
                       rpcrdma::MutableBytes into);
nfs3::READ3res run(const Call& call, const nfs3::READ3args& args, rpcrdma::MutableBytes into);
nfs3::WRITE3res run(const Call& call, const nfs3::WRITE3args& args);
nfs3::COMMIT3res run(const Call& call, const nfs3::COMMIT3args& args);

// name_calls.cc
nfs3::LOOKUP3res run(const Call& call, const nfs3::LOOKUP3args& args);
nfs3::CREATE3res run(const Call& call, const nfs3::CREATE3args& args);
nfs3::MKDIR3res run(const Call& call, const nfs3::MKDIR3args& args);
nfs3::SYMLINK3res run(const Call& call, const nfs3::SYMLINK3args& args);
nfs3::MKNOD3res run(const Call& call, const nfs3::MKNOD3args& args);

// removal_calls.cc
nfs3::REMOVE3res run(const Call& call, const nfs3::REMOVE3args& args);
nfs3::RMDIR3res run(const Call& call, const nfs3::RMDIR3args& args);
nfs3::RENAME3res run(const Call& call, const nfs3::RENAME3args& args);
nfs3::LINK3res run(const Call& call, const nfs3::LINK3args& args);

// directory_calls.cc
nfs3::READDIR3res run(const Call& call, const nfs3::READDIR3args& args);
nfs3::READDIRPLUS3res run(const Call& call, const nfs3::READDIRPLUS3args& args);

}  // namespace nfs::ceph

#endif  // RPCRDMA_NFS_CEPH_CALL_H_
