// The bounds of the file system that a directory is on, as the system says them.
#ifndef RPCRDMA_NFS_POSIX_SYSTEM_LIMITS_H_
#define RPCRDMA_NFS_POSIX_SYSTEM_LIMITS_H_

#include "files/file.h"
#include "nfs/back_end/limits.h"

namespace nfs::posix {

// Asks with a file that has no name, in the directory. Where none can be made (a file system that
// is read-only or has no O_TMPFILE), the largest size is that of all file systems.
FileSystemLimits limits_of(const files::File& directory);

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_SYSTEM_LIMITS_H_
