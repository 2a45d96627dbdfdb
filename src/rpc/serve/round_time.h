// The time of a server's round.
#ifndef RPCRDMA_RPC_SERVE_ROUND_TIME_H_
#define RPCRDMA_RPC_SERVE_ROUND_TIME_H_

#include "posix/reactor.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// Reads the time; no std::function, whose call would cost each call of the server ten instructions.
struct Clock {
  Instant (*now)(const void* of);
  const void* of;
};
// Returns the clock of an object that has now() and outlives it.
template <class T>
Clock clock_of(const T& object) noexcept {
  return {[](const void* of) { return static_cast<const T*>(of)->now(); }, &object};
}

// Most of a round takes no time worth reading the clock again. A service that answers in its turn
// may take any: what its connection, and those behind it, begin then has its time from there, and
// not from the beginning of the round. Times that are over are judged by that, however: what has
// come since is not read.
class RoundTime {
 public:
  explicit RoundTime(Clock clock) noexcept : clock_(clock) {}

  void begin() { begun_ = now_ = clock_.now(clock_.of); }
  // Called behind services that may have run.
  void refresh() {
    if (!posix::Reactor::is_about_now(now_)) now_ = clock_.now(clock_.of);
  }
  Instant now() const noexcept { return now_; }
  Instant begun() const noexcept { return begun_; }

 private:
  const Clock clock_;
  Instant now_{}, begun_{};
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_ROUND_TIME_H_
