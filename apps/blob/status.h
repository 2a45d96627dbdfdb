// Explains the statuses of idl/blob.x to a person.
#ifndef RPCRDMA_BLOB_STATUS_H_
#define RPCRDMA_BLOB_STATUS_H_

#include <string_view>

#include "blob.h"

namespace blob {

constexpr std::string_view explain(blob_status status) {
  switch (status) {
    case blob_status::BLOB_OK:
      return "ok";
    case blob_status::BLOB_NO_SUCH_BLOB:
      return "no such file on the server";
    case blob_status::BLOB_NO_SUCH_UPLOAD:
      return "the server knows no such upload";
    case blob_status::BLOB_BAD_NAME:
      return "the name is empty, too long, reserved, or has a '/' in it";
    case blob_status::BLOB_CONFLICT:
      return "the upload id is in use for another file";
    case blob_status::BLOB_BAD_RANGE:
      return "data beyond the announced size";
    case blob_status::BLOB_INCOMPLETE:
      return "not all data has arrived";
    case blob_status::BLOB_SUM_MISMATCH:
      return "the SHA-256 of what arrived is not that of what was sent";
    case blob_status::BLOB_NO_SPACE:
      return "no space left on the server's disk";
    case blob_status::BLOB_IO_ERROR:
      return "the server's disk failed; its log says more";
    case blob_status::BLOB_NOT_A_FILE:
      return "on the server a directory or a device has this name; choose another";
    case blob_status::BLOB_READ_ONLY:
      return "the server is read-only (serve --read-only)";
  }
  return "unknown status";
}

}  // namespace blob

#endif  // RPCRDMA_BLOB_STATUS_H_
