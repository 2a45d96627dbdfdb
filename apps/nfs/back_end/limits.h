// Answers the procedures that describe a file system as a whole: FSSTAT, FSINFO and PATHCONF.
#ifndef RPCRDMA_NFS_BACK_END_LIMITS_H_
#define RPCRDMA_NFS_BACK_END_LIMITS_H_

#include <sys/statvfs.h>

#include <cstdint>
#include <limits>

#include "nfs3.h"

namespace nfs {

// The bounds of a file system. The defaults apply where the system reports none.
struct FileSystemLimits {
  std::uint64_t size_max = std::numeric_limits<std::int64_t>::max();  // of a file, bytes
  std::uint32_t links_max = 32000;                                    // names of a file
  std::uint32_t name_max = nfs3::NFS3_NAME_MAX;                       // bytes
};

// `attributes` are those of the file by which it was asked for.
nfs3::FSSTAT3resok space_of(nfs3::post_op_attr attributes, const struct statvfs& space);
// Leaves out the sizes of READ and WRITE, which the service adds.
nfs3::FSINFO3resok limits_of(nfs3::post_op_attr attributes, const FileSystemLimits& limits = {});
nfs3::PATHCONF3resok path_limits_of(nfs3::post_op_attr attributes,
                                    const FileSystemLimits& limits = {});

}  // namespace nfs

#endif  // RPCRDMA_NFS_BACK_END_LIMITS_H_
