// The procedures of RFC 1813 over a tree, each from beginning to end on the calling thread. Handles
// in the arguments are inner ones; see ../file_system.h.
#ifndef RPCRDMA_NFS_POSIX_CALLS_H_
#define RPCRDMA_NFS_POSIX_CALLS_H_

#include "nfs/posix/tree.h"

namespace nfs::posix {

// attribute_calls.cc
nfs3::GETATTR3res run(Tree& tree, const Caller& caller, const nfs3::GETATTR3args& args);
nfs3::SETATTR3res run(Tree& tree, const Caller& caller, const nfs3::SETATTR3args& args);
nfs3::ACCESS3res run(Tree& tree, const Caller& caller, const nfs3::ACCESS3args& args);
nfs3::FSSTAT3res run(Tree& tree, const Caller& caller, const nfs3::FSSTAT3args& args);
nfs3::FSINFO3res run(Tree& tree, const Caller& caller, const nfs3::FSINFO3args& args);
nfs3::PATHCONF3res run(Tree& tree, const Caller& caller, const nfs3::PATHCONF3args& args);
// Sets what is given; in the order in which one thing does not undo another.
nfs3::nfsstat3 set_attributes(const Caller& caller, const Tree& tree, const Found& file,
                              const nfs3::sattr3& attributes);

// data_calls.cc
nfs3::READLINK3res run(Tree& tree, const Caller& caller, const nfs3::READLINK3args& args,
                       rpcrdma::MutableBytes into);
nfs3::READ3res run(Tree& tree, const Caller& caller, const nfs3::READ3args& args,
                   rpcrdma::MutableBytes into);
nfs3::WRITE3res run(Tree& tree, const Caller& caller, const nfs3::WRITE3args& args);
nfs3::COMMIT3res run(Tree& tree, const Caller& caller, const nfs3::COMMIT3args& args);

// name_calls.cc
nfs3::LOOKUP3res run(Tree& tree, const Caller& caller, const nfs3::LOOKUP3args& args);
nfs3::CREATE3res run(Tree& tree, const Caller& caller, const nfs3::CREATE3args& args);
nfs3::MKDIR3res run(Tree& tree, const Caller& caller, const nfs3::MKDIR3args& args);
nfs3::SYMLINK3res run(Tree& tree, const Caller& caller, const nfs3::SYMLINK3args& args);
nfs3::MKNOD3res run(Tree& tree, const Caller& caller, const nfs3::MKNOD3args& args);

// removal_calls.cc
nfs3::REMOVE3res run(Tree& tree, const Caller& caller, const nfs3::REMOVE3args& args);
nfs3::RMDIR3res run(Tree& tree, const Caller& caller, const nfs3::RMDIR3args& args);
nfs3::RENAME3res run(Tree& tree, const Caller& caller, const nfs3::RENAME3args& args);
nfs3::LINK3res run(Tree& tree, const Caller& caller, const nfs3::LINK3args& args);

// directory_calls.cc
nfs3::READDIR3res run(Tree& tree, const Caller& caller, const nfs3::READDIR3args& args);
nfs3::READDIRPLUS3res run(Tree& tree, const Caller& caller, const nfs3::READDIRPLUS3args& args);

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_CALLS_H_
