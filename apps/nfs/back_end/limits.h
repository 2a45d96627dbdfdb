// What is told of a file system as a whole.
#ifndef RPCRDMA_NFS_BACK_END_LIMITS_H_
#define RPCRDMA_NFS_BACK_END_LIMITS_H_

#include <sys/statvfs.h>

#include "nfs3.h"

namespace nfs {

// `attributes` are those of the file by which it was asked for.
nfs3::FSSTAT3resok space_of(nfs3::post_op_attr attributes, const struct statvfs& space);
// Without the sizes of READ and WRITE, which are the service's.
nfs3::FSINFO3resok limits_of(nfs3::post_op_attr attributes);
nfs3::PATHCONF3resok path_limits_of(nfs3::post_op_attr attributes);

}  // namespace nfs

#endif  // RPCRDMA_NFS_BACK_END_LIMITS_H_
