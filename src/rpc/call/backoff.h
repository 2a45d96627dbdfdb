// When to try again: exponential back-off with jitter.
#ifndef RPCRDMA_RPC_CALL_BACKOFF_H_
#define RPCRDMA_RPC_CALL_BACKOFF_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "rpcrdma/options.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// Each delay is twice the one before, up to a limit, and then shortened at random by up to half, so
// that clients that lost a server together do not come back to it together.
class Backoff {
 public:
  Backoff(const ReconnectOptions& options, std::uint64_t seed) noexcept
      : options_(options), random_(seed | 1U) {}

  void reset() noexcept { tries_ = 0; }
  std::chrono::nanoseconds next() noexcept {
    const unsigned doublings = std::min(tries_++, 20U);
    const std::chrono::nanoseconds full = std::min<std::chrono::nanoseconds>(
        options_.first_delay * (1U << doublings), options_.delay_max);
    // xorshift. Unpredictability is not required.
    random_ ^= random_ << 13U;
    random_ ^= random_ >> 7U;
    random_ ^= random_ << 17U;
    const auto half = static_cast<std::uint64_t>(full.count() / 2);
    return full - std::chrono::nanoseconds(half == 0 ? 0 : random_ % (half + 1));
  }

 private:
  ReconnectOptions options_;
  std::uint64_t random_;
  unsigned tries_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_BACKOFF_H_
