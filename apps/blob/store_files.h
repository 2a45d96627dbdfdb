// What the two halves of Store (blobs, uploads) do with files.
#ifndef RPCRDMA_BLOB_STORE_FILES_H_
#define RPCRDMA_BLOB_STORE_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "blob.h"
#include "files/file.h"

namespace blob {

// The SHA-256 of all of the file; nullopt: errno.
std::optional<blob_sum> sum_of(const files::File& file);
// Of everything in a directory below the other one, in no order; empty also when it is not there.
std::vector<std::string> names_in(int directory, const char* path);

}  // namespace blob

#endif  // RPCRDMA_BLOB_STORE_FILES_H_
