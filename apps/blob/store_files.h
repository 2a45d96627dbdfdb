// File operations that both halves of Store (blobs, uploads) use.
#ifndef RPCRDMA_BLOB_STORE_FILES_H_
#define RPCRDMA_BLOB_STORE_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "blob.h"
#include "files/file.h"

namespace blob {

// Computes the SHA-256 of the whole file; nullopt: errno.
std::optional<blob_sum> sum_of(const files::File& file);
// Returns the names in a directory below `directory`, in no order; none if it does not exist.
std::vector<std::string> names_in(int directory, const char* path);

}  // namespace blob

#endif  // RPCRDMA_BLOB_STORE_FILES_H_
