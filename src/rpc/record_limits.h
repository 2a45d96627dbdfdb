// Bounds the records that are received over TCP by the memory that there is for them.
#ifndef RPCRDMA_RPC_RECORD_LIMITS_H_
#define RPCRDMA_RPC_RECORD_LIMITS_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "rpcrdma/options.h"
#include "tcp/record.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {

// Bounds records by what a pool of `memory_max` bytes can hold: while a record grows, its old
// buffer and its new one are in use.
inline tcp::RecordLimits record_limits(const TcpOptions& options, std::size_t memory_max) noexcept {
  const std::size_t large = transport::BufferPool::large_bytes_max(memory_max) / 3 * 2;
  const std::size_t buffer_max =
      std::min(transport::BufferPool::kSizeMax, std::bit_floor(std::max<std::size_t>(large, 1)));
  return {static_cast<std::uint32_t>(std::min<std::size_t>(options.record_size_max, buffer_max)),
          std::max(options.fragments_max, 1U)};
}

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_RECORD_LIMITS_H_
