// Decides which Calls may be sent: keeps the waiting Calls, the credits, and the Receives for their
// replies.
#ifndef RPCRDMA_ENGINE_CALL_GATE_H_
#define RPCRDMA_ENGINE_CALL_GATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/ring.h"
#include "engine/credits_v1.h"
#include "engine/rfc5666/profile.h"
#include "engine/rfc5666/read_replies.h"
#include "engine/shared.h"

namespace rpcrdma::engine {

class CallGate {
 public:
  // `profile`: null but in Profile::kRfc5666.
  CallGate(const Options& options, Shared& shared, rfc5666::ReadReplies* profile)
      : shared_(shared),
        profile_(profile),
        credits_(options.credits, rfc5666::is_chosen(options)),
        waiting_(options.calls_max) {}

  void wait(std::uint16_t slot) { waiting_.push(slot); }
  void remove(std::uint16_t slot) {
    waiting_.remove_if([slot](std::uint16_t each) { return each == slot; });
  }
  std::size_t waiting() const noexcept { return waiting_.size(); }

  // The next Call that may go, which has spent its credit: while there are credits and, for each, a
  // Receive for its reply (RFC 8166 §3.3.1).
  std::optional<std::uint16_t> pass() {
    if (waiting_.empty() || !shared_.connected) return std::nullopt;
    const std::uint16_t slot = waiting_.front();
    const bool has_credit =
        profile_ == nullptr ? credits_.available(held()) : profile_->may_go(slot, credits_);
    if (!has_credit || !shared_.receives.has_one_for_reply(credits_.unanswered())) {
      return std::nullopt;
    }
    waiting_.drop();
    credits_.spend();
    if (profile_ != nullptr) profile_->admitted(slot);
    return slot;
  }
  // Behind pass(): counts the Calls that have found no credit, and the time of those that have
  // waited since the last look.
  void measure_waits(Instant now) noexcept {
    if (waiting_.empty() && blocked_ == 0) [[likely]]
      return;
    Counters& counters = shared_.counters;
    const auto passed = std::max(now - blocked_at_, Instant::duration(0));
    counters.credit_wait_ns += blocked_ * static_cast<std::uint64_t>(passed.count());
    // Calls wait in the order in which they were started, so that the last ones of these are new.
    const std::uint64_t started = counters.calls_started - started_before_;
    counters.credit_waits += std::min<std::uint64_t>(waiting_.size(), started);
    blocked_ = waiting_.size();
    blocked_at_ = now;
    started_before_ = counters.calls_started;
  }
  // Takes the credit of an answered Call back.
  void answered(std::uint16_t slot) {
    if (profile_ != nullptr) profile_->credit_returned(slot);
    credits_.give_back();
  }
  // Returns whether no Call can be sent any more, since `given_up` of them hold every credit.
  bool is_stuck(std::uint32_t given_up) const noexcept {
    if (given_up == 0 || given_up < credits_.unanswered()) return false;
    const std::uint32_t held = shared_.option_credits.until_reply();
    return profile_ == nullptr ? !credits_.available(held) : profile_->is_stuck(credits_);
  }

  // Takes the grant of a reply, which may also show that the peer has read our options.
  void grant(std::uint32_t credits) noexcept {
    credits_.grant(credits);
    shared_.option_credits.handle_reply();
  }
  const CreditsV1& credits() const noexcept { return credits_; }

 private:
  std::uint32_t held() const noexcept { return shared_.option_credits.held(credits_.unanswered()); }

  Shared& shared_;
  rfc5666::ReadReplies* const profile_;
  CreditsV1 credits_;
  Ring<std::uint16_t> waiting_;
  // At the last look that found some.
  std::uint64_t blocked_ = 0;  // Calls that waited
  Instant blocked_at_{};
  std::uint64_t started_before_ = 0;  // Calls
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_CALL_GATE_H_
