// The header of libfuse, by the version of its interface that this was written for.
#ifndef RPCRDMA_MOUNT_FUSE_LIBRARY_H_
#define RPCRDMA_MOUNT_FUSE_LIBRARY_H_

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#endif  // RPCRDMA_MOUNT_FUSE_LIBRARY_H_
