// Decides which Calls may be sent: keeps the waiting Calls, the credits, and the Receives for their
// replies.
#ifndef RPCRDMA_ENGINE_CALL_GATE_H_
#define RPCRDMA_ENGINE_CALL_GATE_H_

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
  // `profile`: null but in Profile::kRfc5666. `now` is the time of each use.
  CallGate(const Options& options, Shared& shared, rfc5666::ReadReplies* profile,
           const Instant& now)
      : shared_(shared),
        profile_(profile),
        now_(now),
        credits_(options.credits, rfc5666::is_chosen(options)),
        waiting_(options.calls_max) {}

  void wait(std::uint16_t slot) { waiting_.push(slot); }
  void remove(std::uint16_t slot);
  std::size_t waiting() const noexcept { return waiting_.size(); }

  // The next Call that may go, which has spent its credit: while there are credits and, for each, a
  // Receive for its reply (RFC 8166 §3.3.1).
  std::optional<std::uint16_t> pass() {
    if (waiting_.empty() || !shared_.connected) return std::nullopt;
    const std::uint16_t slot = waiting_.front();
    const bool has_credit =
        profile_ == nullptr ? credits_.available(held()) : profile_->may_go(slot, credits_);
    if (!has_credit || !shared_.receives.has_one_for_reply(credits_.unanswered())) {
      note_waits();
      return std::nullopt;
    }
    if (blocked_ > 0) [[unlikely]]
      note_end_of_wait();
    waiting_.drop();
    credits_.spend();
    if (profile_ != nullptr) profile_->admitted(slot);
    return slot;
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
  // None of the Calls that wait finds a credit.
  void note_waits() noexcept;
  // The first one of those that waited has found one.
  void note_end_of_wait() noexcept;
  void add_waited() noexcept;
  std::uint32_t held() const noexcept { return shared_.option_credits.held(credits_.unanswered()); }

  Shared& shared_;
  rfc5666::ReadReplies* const profile_;
  const Instant& now_;
  CreditsV1 credits_;
  Ring<std::uint16_t> waiting_;
  std::uint64_t blocked_ = 0;  // of waiting_, those in front that have found no credit
  Instant blocked_at_{};       // the last look
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_CALL_GATE_H_
