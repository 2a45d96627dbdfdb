// Knows the place of each Receive of a connection, and for which messages the posted ones are.
#ifndef RPCRDMA_ENGINE_RECEIVE_LEDGER_H_
#define RPCRDMA_ENGINE_RECEIVE_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ring.h"
#include "engine/types.h"

namespace rpcrdma::engine {

// Tracks Receives. A Receive is in one place at a time: withheld, waiting to be posted, posted, or
// with a message that one half of the connection reads, which then gives it back.
//
// The peer's Calls may use one posted Receive for each credit that was granted and that no Call
// holds; the other posted Receives are for replies to our own Calls (RFC 8166 §3.3.1).
class ReceiveLedger {
 public:
  // `granted_max` Calls are granted at most, `granted` to begin with; the Receives of the others
  // are withheld. Both 0: the peer makes no Calls.
  // The last `reserve` of the others are for messages that no credit counts, see post_reserve().
  ReceiveLedger(std::size_t count, std::uint32_t granted_max, std::uint32_t granted,
                std::uint32_t reserve = 0);

  // --- Posting.
  // Those to post now; each counts as posted from then on.
  std::span<ReceiveId> poll_to_post(std::span<ReceiveId> room);
  bool all_posted() const noexcept { return to_post_.empty(); }
  // Returns Receives that are not to be posted now and whose messages are no longer read; each
  // once, until it is posted again. `ended`: nothing is posted any more.
  std::size_t poll_unused(std::span<ReceiveId> room, bool ended);
  std::uint32_t posted() const noexcept { return posted_; }

  // The reserve is to be posted; once, for peers that may send such messages.
  void post_reserve();

  // --- A message came.
  void arrived() noexcept { --posted_; }
  // The half that makes Calls is done with it, or it is dropped: its Receive is to be posted again.
  void repost(ReceiveId receive) { to_post_.push(receive); }
  // It is for the half that answers Calls, and takes one of the Receives that are there for them.
  void arrived_for_call() noexcept { --for_calls_; }
  // The peer has sent more Calls than it was granted.
  bool is_overrun() const noexcept { return for_calls_ < 0; }
  void repost_for_call(ReceiveId receive) {
    ++for_calls_;
    repost(receive);
  }

  // --- Making Calls.
  // Returns whether there is a Receive for one more reply, beside those for `unanswered` Calls.
  bool has_one_for_reply(std::uint32_t unanswered) const noexcept {
    const std::int64_t for_calls = for_calls_ > 0 ? for_calls_ : 0;
    return std::int64_t{posted_} > std::int64_t{unanswered} + for_calls + reserved_;
  }

  // --- Answering Calls.
  std::uint32_t granted() const noexcept { return granted_; }  // in each reply
  // More are to be posted before they are granted. Fewer take nothing back: the peer may have sent
  // as many Calls as it was granted, and each reply takes one from these.
  void grant(std::uint32_t credits);
  // The reply to a Call goes out now: the Receive that the Call came by is free.
  void answered(ReceiveId receive);

 private:
  Ring<ReceiveId> to_post_;
  Ring<ReceiveId> withheld_;
  std::size_t polled_ = 0;      // of withheld_, by poll_unused()
  std::uint32_t posted_ = 0;    // and not completed
  std::int64_t for_calls_ = 0;  // of these; negative: Calls have taken some of the others
  const std::size_t count_;
  std::uint32_t reserve_left_;  // not to be posted yet
  std::uint32_t reserved_ = 0;  // of those that are, for no call
  std::uint32_t granted_;
  std::uint32_t possible_;  // Calls that the peer may have sent and that have no reply: >= granted_
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_RECEIVE_LEDGER_H_
