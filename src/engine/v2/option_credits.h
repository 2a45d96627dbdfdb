// Counts a client's options against the credits that its server grants.
#ifndef RPCRDMA_ENGINE_V2_OPTION_CREDITS_H_
#define RPCRDMA_ENGINE_V2_OPTION_CREDITS_H_

#include <algorithm>
#include <cstdint>

#include "engine/credits_v1.h"

namespace rpcrdma::engine {

// An option takes one of the Receives that the server has posted for Calls, so it counts as a Call
// without an answer (ADR 25). A request counts until its answer comes. Nothing answers an INITXCH
// or UPDXCH: the server has read it when it answers a Call that was sent behind it.
class OptionCredits {
 public:
  enum class Sort : std::uint8_t { kOneWay, kRequest };

  // Returns whether an option may go now. One that nothing answers leaves a credit for the Call
  // whose reply is to end it. If it may not go yet, Calls leave a credit for it from now on.
  bool pass(Sort sort, const CreditsV1& credits) noexcept {
    const std::uint32_t needed = sort == Sort::kOneWay ? 2 : 1;
    const std::uint32_t used = credits.unanswered() + one_way_ + asked_;
    const bool is_free = used + needed <= credits.limit();
    waiting_ = !is_free && may_reserve_ && needed <= credits.limit() ? 1 : 0;
    is_used_ = true;
    if (!is_free) return false;
    if (sort == Sort::kRequest) {
      asked_ = 1;
      behind_request_ = 0;
      return true;
    }
    ++one_way_;
    ++behind_request_;
    // One more reply than there are Calls under way is to a Call that was sent behind the option.
    replies_left_ = credits.unanswered() + 1;
    return true;
  }
  // A Call was given up, and may hold its credit for ever: from now on options go where a credit is
  // free, and Calls leave none for them.
  void stop_reserving() noexcept {
    may_reserve_ = false;
    waiting_ = 0;
  }
  // No option waits for a credit.
  void stop_waiting() noexcept { waiting_ = 0; }
  bool is_waiting() const noexcept { return waiting_ != 0; }

  // The request has its answer, or has none in time; `is_read`: the peer has read what was sent
  // before it.
  void request_ended(bool is_read) noexcept {
    asked_ = 0;
    if (is_read) one_way_ = std::min(one_way_, behind_request_);
  }
  void handle_reply() noexcept {
    if (!is_used_) [[likely]]
      return;
    if (replies_left_ > 0 && --replies_left_ == 0) one_way_ = 0;
  }

  // Returns how many credits come back only when a Call is answered.
  std::uint32_t until_reply() const noexcept { return one_way_; }
  // Returns how many credits Calls leave alone. None where no Call is under way, unless an answer
  // is: options that nothing answers have left one.
  std::uint32_t held(std::uint32_t unanswered) const noexcept {
    if (!is_used_) [[likely]]
      return 0;
    const std::uint32_t all = one_way_ + asked_ + waiting_;
    return unanswered == 0 && asked_ == 0 ? 0 : all;
  }

 private:
  std::uint32_t one_way_ = 0;         // options that the server may not have read
  std::uint32_t behind_request_ = 0;  // of these, sent behind the newest request
  std::uint32_t asked_ = 0;           // 1: a request has no answer
  std::uint32_t waiting_ = 0;         // 1: an option waits for a credit
  bool may_reserve_ = true;
  bool is_used_ = false;  // pass() was called: most connections have version 1, and never do
  std::uint32_t replies_left_ = 0;  // until the server has read all of one_way_
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_V2_OPTION_CREDITS_H_
