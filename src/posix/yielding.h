// Lets a peer on the same core run, as long as no third process wants the core.
#ifndef RPCRDMA_POSIX_YIELDING_H_
#define RPCRDMA_POSIX_YIELDING_H_

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "rpcrdma/types.h"

namespace rpcrdma::posix {

// A thread that yields next to a busy third process waits for whole time slices of it, while a
// sleeping thread is woken at once. Measured: 240 calls a second with yielding, where bare TCP had
// 52,000. So a long yield ends yielding for a while, and for longer each time that trying again
// shows the same (ADR 10).
class Yielding {
 public:
  static constexpr std::chrono::milliseconds kLong{1};

  explicit Yielding(std::chrono::nanoseconds shortest_long = kLong) noexcept
      : long_(shortest_long) {}
  bool allowed(Instant now) const noexcept { return now >= not_before_; }
  void yield() noexcept { sched_yield(); }
  // Returns whether a yield took longer than a peer on this core would keep the core.
  bool was_long(Instant before, Instant after) const noexcept { return after - before > long_; }
  // Ends yielding for a while, since a third process got the core.
  void give_up(Instant now) noexcept {
    const bool again = now < not_before_ + 4 * pause_;
    pause_ = again ? std::min(2 * pause_, kPauseMax) : kPauseMin;
    not_before_ = now + pause_;
  }

 private:
  static constexpr std::chrono::milliseconds kPauseMin{10};
  static constexpr std::chrono::milliseconds kPauseMax{500};

  std::chrono::nanoseconds long_;
  Instant not_before_{};
  std::chrono::milliseconds pause_ = kPauseMin;
};

}  // namespace rpcrdma::posix

#endif  // RPCRDMA_POSIX_YIELDING_H_
