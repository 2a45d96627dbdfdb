// Explains a status of RFC 1813 to a person.
#ifndef RPCRDMA_NFS_STATUS_TEXT_H_
#define RPCRDMA_NFS_STATUS_TEXT_H_

#include <span>
#include <string_view>

#include "nfs3.h"

namespace nfs {

// A status with its name without the prefix, "NOENT", and a sentence about it. All static.
struct StatusText {
  nfs3::nfsstat3 status;
  std::string_view name, text;
};

// Returns all that RFC 1813 has; NFS3_OK is the first.
std::span<const StatusText> status_texts() noexcept;
std::string_view to_text(nfs3::nfsstat3 status) noexcept;

}  // namespace nfs

#endif  // RPCRDMA_NFS_STATUS_TEXT_H_
