// When the Calls of a connection moved last.
#ifndef RPCRDMA_RPC_SERVE_LAST_MOVES_H_
#define RPCRDMA_RPC_SERVE_LAST_MOVES_H_

#include <chrono>
#include <cstdint>
#include <utility>

#include "rpc/serve/round_time.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// A Call moves when it comes, when it is answered, and when its reply has gone.
class LastMoves {
 public:
  // `now`: when the connection came, which counts as a move.
  explicit LastMoves(Instant now) noexcept : last_call_(now), last_move_(now) {}

  // Takes how many have moved since the connection came, and returns whether one came since the
  // last look. It may have been between two turns that a service answered; and where one has moved,
  // a service may have run.
  // `sent`: bytes of replies that the socket has taken.
  bool note(RoundTime& time, std::uint64_t came, std::uint64_t answered, std::uint64_t gone,
            std::uint64_t sent) noexcept {
    const std::uint64_t moves = came + answered + gone;
    if (std::exchange(moves_, moves) == moves) return false;
    time.refresh();
    last_move_ = time.now();
    sent_before_ = sent;
    if (std::exchange(came_, came) == came) return false;
    last_call_ = last_move_;
    return true;
  }
  Instant last_call() const noexcept { return last_call_; }
  // Returns whether nothing has moved for a second. Bytes that the socket has taken since the last
  // move give more time: as long as they take at `rate_min`, bytes per second; 0: none.
  bool is_left(Instant now, std::uint64_t sent, std::uint32_t rate_min) const noexcept {
    auto allowed = std::chrono::milliseconds(1000);
    if (rate_min > 0) allowed += std::chrono::milliseconds((sent - sent_before_) * 1000 / rate_min);
    return now - last_move_ >= allowed;
  }

 private:
  std::uint64_t came_ = 0, moves_ = 0, sent_before_ = 0;
  Instant last_call_, last_move_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_LAST_MOVES_H_
