// Counts the credits of a requester that its RDMA_DONEs hold (RFC 5666 §3.8).
#ifndef RPCRDMA_ENGINE_RFC5666_DONE_CREDITS_H_
#define RPCRDMA_ENGINE_RFC5666_DONE_CREDITS_H_

#include <cstdint>

namespace rpcrdma::engine::rfc5666 {

// A DONE takes one of the responder's Receives and is never answered. Its credit is known to be
// back when a Call is answered that was sent behind it: the responder takes messages in their
// order. The credit of a reply that wants a DONE passes to that DONE, so that there always is one.
//
// So that DONEs never hold all credits, one is kept free of Calls whose replies may want one. And
// when no Call is under way, one may go in any case: nothing else could ever bring credits back,
// and the responder posts the Receive of a DONE at once.
class DoneCredits {
 public:
  // DONEs that are owed, and those sent whose Receive may not be posted again.
  std::uint32_t held() const noexcept { return owed_ + (sent_ - seen_); }
  // Returns how many were sent so far; noted for each Call that is sent.
  std::uint32_t sent() const noexcept { return sent_; }

  // Returns whether a Call may be sent. `limit` and `unanswered` are those of CreditsV1; `by_read`:
  // its reply may require a DONE.
  bool allow(std::uint32_t limit, std::uint32_t unanswered, bool by_read) const noexcept {
    if (unanswered == 0) return true;
    if (unanswered + held() + 1 > limit) return false;
    return !by_read || by_read_ + held() + 2 <= limit;
  }

  void start_call(bool by_read) noexcept { by_read_ += by_read ? 1 : 0; }
  void end_call(bool by_read) noexcept { by_read_ -= by_read ? 1 : 0; }
  // A Call was answered that noted sent() when it went out.
  void answered(std::uint32_t sent_before) noexcept {
    if (static_cast<std::int32_t>(sent_before - seen_) > 0) seen_ = sent_before;
  }
  void owe() noexcept { ++owed_; }
  void send() noexcept {
    --owed_;
    ++sent_;
  }

 private:
  std::uint32_t by_read_ = 0;  // Calls under way whose replies may want a DONE
  std::uint32_t owed_ = 0;
  std::uint32_t sent_ = 0, seen_ = 0;
};

}  // namespace rpcrdma::engine::rfc5666

#endif  // RPCRDMA_ENGINE_RFC5666_DONE_CREDITS_H_
