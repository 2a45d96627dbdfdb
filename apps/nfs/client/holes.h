// Finds the data and the holes of a file: holes are neither sent nor written.
#ifndef RPCRDMA_NFS_CLIENT_HOLES_H_
#define RPCRDMA_NFS_CLIENT_HOLES_H_

#include <cstdint>

#include "files/file.h"
#include "nfs/client/mounted.h"
#include "rpcrdma/types.h"

namespace nfs {

struct Extent {
  std::uint64_t begin = 0, end = 0;  // of bytes; the one at `end` is not in it

  bool operator==(const Extent&) const = default;
  std::uint64_t size() const noexcept { return end - begin; }
};

// Returns the first extent of data at or after `from`, as the file system says. It is all that is
// left where the file system says nothing, and empty, at `size`, where only a hole is left. Fails
// when the file has less than `size` bytes.
Result<Extent> next_data(const files::File& file, std::uint64_t from, std::uint64_t size);

// Returns the first extent of memory at or after `from` that is no run of zeros; it is empty, at
// the end of the memory, where only zeros are left. The memory is of `offset` in a file, whose
// blocks of 4 KiB are either in the extent or not.
Extent next_that_is_not_zero(rpcrdma::Bytes memory, std::uint64_t offset, std::uint64_t from);

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_HOLES_H_
