// Explains a status of RFC 1813 to a person.
#ifndef RPCRDMA_NFS_STATUS_TEXT_H_
#define RPCRDMA_NFS_STATUS_TEXT_H_

#include <string_view>

#include "nfs3.h"

namespace nfs {

std::string_view to_text(nfs3::nfsstat3 status) noexcept;

}  // namespace nfs

#endif  // RPCRDMA_NFS_STATUS_TEXT_H_
