// The errors of NFS as those of system calls.
#ifndef RPCRDMA_MOUNT_ERRORS_H_
#define RPCRDMA_MOUNT_ERRORS_H_

#include "nfs/client/failure.h"
#include "nfs3.h"
#include "rpcrdma/expected.h"

namespace mounts {

// The result of an operation, or errno's value.
template <class T>
using Outcome = rpcrdma::Expected<T, int>;

inline rpcrdma::Unexpected<int> failed(int error) {
  return rpcrdma::Unexpected<int>(error);
}

// Returns errno's value for a refusal; EIO for a number that RFC 1813 does not have.
int error_of(nfs3::nfsstat3 status) noexcept;
// Returns errno's value for a call without an answer: ETIMEDOUT or EACCES if that is why, or else
// EIO.
int error_of(const nfs::Failure& why) noexcept;

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_ERRORS_H_
