// Time limits of the application's.
#ifndef RPCRDMA_RPC_TIME_LIMIT_H_
#define RPCRDMA_RPC_TIME_LIMIT_H_

#include <algorithm>
#include <chrono>

namespace rpcrdma::rpc {

// Applications say duration::max() for "for ever", which added to a point in time, or in
// nanoseconds, would overflow. A year is as long. Negative limits are over at once.
template <class Duration>
constexpr Duration limited(Duration limit) noexcept {
  return std::clamp(limit, Duration::zero(),
                    std::chrono::duration_cast<Duration>(std::chrono::hours(24 * 365)));
}

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_TIME_LIMIT_H_
