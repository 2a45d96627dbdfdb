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
  // `requested` goes into each Call; at least 1.
  explicit CreditsV1(std::uint32_t requested) noexcept : requested_(std::max(requested, 1U)) {}

  std::uint32_t requested() const noexcept { return requested_; }
  std::uint32_t limit() const noexcept { return std::min(requested_, granted_); }
  std::uint32_t unanswered() const noexcept { return unanswered_; }
  bool available() const noexcept { return unanswered_ < limit(); }

  void spend() noexcept {
    RPCRDMA_ASSERT(available(), "a Call without a credit");
    ++unanswered_;
  }
  // An answer of any kind came, or the Call was never sent.
  void give_back() noexcept {
    RPCRDMA_ASSERT(unanswered_ > 0, "more answers than Calls");
    --unanswered_;
  }
  // From any valid reply or error header. Zero would block for ever and counts as one.
  void grant(std::uint32_t credits) noexcept { granted_ = std::max(credits, 1U); }

 private:
  std::uint32_t requested_;
  std::uint32_t granted_ = 1;
  std::uint32_t unanswered_ = 0;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_CREDITS_V1_H_
