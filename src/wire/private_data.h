// RFC 8797: eight bytes in the connection set-up by which version 1 peers tell their inline sizes
// and whether they take remote invalidation.
#ifndef RPCRDMA_WIRE_PRIVATE_DATA_H_
#define RPCRDMA_WIRE_PRIVATE_DATA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "rpcrdma/types.h"

namespace rpcrdma::wire {

inline constexpr std::size_t kPrivateDataSize = 8;  // bytes
inline constexpr std::uint32_t kInlineSizeDefault =
    1024;  // RFC 8166 §3.3.3: unless learned otherwise
inline constexpr std::uint32_t kInlineSizeMax = 256 * 1024;  // what a size code can say

struct PrivateData {
  bool takes_invalidation;     // flag R
  std::uint32_t send_size;     // largest Send of its sender, bytes, 1024 … 262144
  std::uint32_t receive_size;  // Receive buffer of its sender, bytes, 1024 … 262144
  bool operator==(const PrivateData&) const = default;
};

// Sizes are rounded down to what a code can say, at least 1024, at most 262144.
std::array<std::byte, kPrivateDataSize> encode(const PrivateData& data) noexcept;

// Searches for the identifier at every byte offset, since its alignment is not promised. nullopt:
// none found, cut off, or a version other than 1; the peer then gets the defaults of RFC 8166.
std::optional<PrivateData> find_private_data(Bytes private_data) noexcept;

}  // namespace rpcrdma::wire

#endif  // RPCRDMA_WIRE_PRIVATE_DATA_H_
