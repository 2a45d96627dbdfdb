// The vocabulary of the library: bytes, results, time.
//
// Nothing here knows what RPC or RDMA is.
#ifndef RPCRDMA_TYPES_H_
#define RPCRDMA_TYPES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rpcrdma/expected.h"

namespace rpcrdma {

// Borrowed bytes. Never owning; functions that take or return them name the owner.
using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// A monotonic clock that deliberately has no now(): the protocol code receives the time.
struct LogicalClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<LogicalClock>;
  static constexpr bool is_steady = true;
};
// Nanoseconds since an arbitrary start; comparable only within one provider.
using Instant = LogicalClock::time_point;

}  // namespace rpcrdma

#endif  // RPCRDMA_TYPES_H_
