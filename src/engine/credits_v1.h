// Flow control of version 1 as the requester sees it (RFC 8166 §3.3.1): unanswered Calls ≤ credits.
#ifndef RPCRDMA_ENGINE_CREDITS_V1_H_
#define RPCRDMA_ENGINE_CREDITS_V1_H_

#include <algorithm>
#include <cstdint>

#include "base/assert.h"

namespace rpcrdma::engine {

// Counts Calls that the peer has not answered against the newest grant. One Call only until the
// first reply (RFC 8166 §3.3.3). A smaller grant revokes nothing: it only holds back new Calls.
class CreditsV1 {
 public:
  // `requested` goes into each Call; at least 1. `newest_counts`: the limit is the newest grant
  // also where it exceeds what was asked for (RFC 5666 §3.3).
  explicit CreditsV1(std::uint32_t requested, bool newest_counts = false) noexcept
      : requested_(std::max(requested, 1U)), limit_max_(newest_counts ? ~0U : requested_) {}

  std::uint32_t requested() const noexcept { return requested_; }
  std::uint32_t limit() const noexcept { return std::min(limit_max_, granted_); }
  std::uint32_t unanswered() const noexcept { return unanswered_; }
  // `held`: credits that are kept for something else.
  bool available(std::uint32_t held = 0) const noexcept { return unanswered_ + held < limit(); }

  void spend() noexcept {
    RPCRDMA_ASSERT(available(), "a Call without a credit");
    ++unanswered_;
  }
  // An answer of any kind came, or the Call was never sent.
  void give_back() noexcept {
    RPCRDMA_ASSERT(unanswered_ > 0, "more answers than Calls");
    --unanswered_;
  }
  // Takes the credits of any valid reply or error header. Zero counts as one: it would block for
  // ever. RFC 5666 lets zero mean "wait for the Calls under way", and so does one.
  void grant(std::uint32_t credits) noexcept { granted_ = std::max(credits, 1U); }

 private:
  std::uint32_t requested_;
  std::uint32_t limit_max_;
  std::uint32_t granted_ = 1;
  std::uint32_t unanswered_ = 0;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_CREDITS_V1_H_
