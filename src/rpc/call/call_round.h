// The turn of a client in which it handles events and calls callbacks.
#ifndef RPCRDMA_RPC_CALL_CALL_ROUND_H_
#define RPCRDMA_RPC_CALL_CALL_ROUND_H_

#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// A round has one time, since asking for it costs a clock, unless a callback starts a call when
// that is not about the time any more: it, and those before it, may have taken any, and the call
// has all of its own. Calls that callbacks start inside of a round go out at its end.
class CallRound {
 public:
  void begin(Instant now) noexcept {
    is_open_ = has_clock_ = true;
    time_ = now;
  }
  // At the time of the last round, where there may be no clock any more.
  void begin() noexcept {
    is_open_ = true;
    has_clock_ = false;
  }
  void end() noexcept { is_open_ = false; }
  bool is_open() const noexcept { return is_open_; }
  // Returns whether it is open, and its time is that of a clock.
  bool has_clock() const noexcept { return is_open_ && has_clock_; }
  Instant time() const noexcept { return time_; }  // of the last one, if none is open

 private:
  bool is_open_ = false, has_clock_ = false;
  Instant time_{};
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_CALL_ROUND_H_
