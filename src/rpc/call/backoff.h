// When to try again: exponential back-off with jitter.
#ifndef RPCRDMA_RPC_CALL_BACKOFF_H_
#define RPCRDMA_RPC_CALL_BACKOFF_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "rpc/time_limit.h"
#include "rpcrdma/options.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// Each delay is twice the one before, up to a limit, and then shortened at random by up to half, so
// that clients that lost a server together do not come back to it together. Without a delay, or
// with no limit to grow to, only the first try comes at once: a server that refuses at once would
// else be asked as fast as this side can.
class Backoff {
 public:
  Backoff(const ReconnectOptions& options, std::uint64_t seed) noexcept
      : first_(limited(options.first_delay)),
        max_(limited(options.delay_max)),
        random_(seed | 1U) {}

  void reset() noexcept { tries_ = 0; }
  std::chrono::nanoseconds next() noexcept {
    const unsigned doublings = std::min(tries_++, 20U);
    const std::chrono::nanoseconds least = doublings == 0 ? std::chrono::nanoseconds(0) : kLeast;
    const std::chrono::nanoseconds first = std::max(first_, least), max = std::max(max_, least);
    const std::chrono::nanoseconds full =
        first > max / (1U << doublings) ? max : first * (1U << doublings);
    // xorshift. Unpredictability is not required.
    random_ ^= random_ << 13U;
    random_ ^= random_ >> 7U;
    random_ ^= random_ << 17U;
    const auto half = static_cast<std::uint64_t>(full.count() / 2);
    return full - std::chrono::nanoseconds(half == 0 ? 0 : random_ % (half + 1));
  }

 private:
  static constexpr std::chrono::nanoseconds kLeast = std::chrono::milliseconds(1);

  const std::chrono::nanoseconds first_, max_;
  std::uint64_t random_;
  unsigned tries_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_BACKOFF_H_
