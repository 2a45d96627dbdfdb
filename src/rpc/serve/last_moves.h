// When the Calls of a connection moved last.
#ifndef RPCRDMA_RPC_SERVE_LAST_MOVES_H_
#define RPCRDMA_RPC_SERVE_LAST_MOVES_H_

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
  bool note(RoundTime& time, std::uint64_t came, std::uint64_t answered,
            std::uint64_t gone) noexcept {
    const std::uint64_t moves = came + answered + gone;
    if (std::exchange(moves_, moves) == moves) return false;
    time.refresh();
    last_move_ = time.now();
    if (std::exchange(came_, came) == came) return false;
    last_call_ = last_move_;
    return true;
  }
  Instant last_call() const noexcept { return last_call_; }
  Instant last_move() const noexcept { return last_move_; }

 private:
  std::uint64_t came_ = 0, moves_ = 0;
  Instant last_call_, last_move_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_LAST_MOVES_H_
