// Copies of bytes.
#ifndef RPCRDMA_BASE_COPY_H_
#define RPCRDMA_BASE_COPY_H_

#include <cstddef>
#include <cstring>

#include "rpcrdma/types.h"

namespace rpcrdma {

// Copies all of `from`; there is room for it, and the two do not overlap. std::ranges::copy over
// spans of bytes is a loop of single bytes with GCC 12, at 4 GB/s.
inline void copy_bytes(Bytes from, std::byte* to) noexcept {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_COPY_H_
