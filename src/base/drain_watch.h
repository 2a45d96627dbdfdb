// Bounds the time that a peer takes for what is sent to it.
#ifndef RPCRDMA_BASE_DRAIN_WATCH_H_
#define RPCRDMA_BASE_DRAIN_WATCH_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/deadline.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

// Watches messages that a peer takes in their order, and whose memory is held until then. A peer
// that takes a little now and then would hold it for as long as it likes, so all messages that are
// under way at one moment get a fixed time together, and that of their bytes at a lowest rate.
// Messages sent meanwhile are watched when these are taken, so that a message has at most twice its
// time, and the watch costs the same however many there are.
class DrainWatch {
 public:
  // `rate_min`: bytes per second; 0: any message may take for ever.
  DrainWatch(std::chrono::nanoseconds timeout, std::uint32_t rate_min) noexcept
      : timeout_(timeout),
        of_byte_(rate_min > 0 ? std::chrono::nanoseconds(std::chrono::seconds(1)) / rate_min
                              : std::chrono::nanoseconds::zero()),
        bytes_max_(of_byte_.count() > 0 ? std::chrono::hours(24 * 365) / of_byte_ : 0),
        is_in_use_(rate_min > 0) {}

  void begin(std::uint64_t bytes, Instant now) noexcept {
    ++begun_;
    bytes_ += bytes;
    if (begun_ == ended_ + 1) start(now);
  }
  // The oldest one was taken. Precondition: it was begun with the same number of bytes.
  void end(std::uint64_t bytes, Instant now) noexcept {
    ++ended_;
    bytes_ -= bytes;
    if (ended_ == watched_ && deadline_) restart(now);
  }
  // The peer is gone: what is under way is only waited for.
  void stop() noexcept { deadline_.reset(); }
  // Returns once that the time is over.
  bool is_late(Instant now) noexcept {
    if (!has_peer_let_pass(deadline_, had_grace_, now)) return false;
    deadline_.reset();
    return true;
  }
  Deadline deadline() const noexcept { return deadline_; }

 private:
  void start(Instant now) noexcept {
    if (!is_in_use_) return;
    watched_ = begun_;
    had_grace_ = false;
    deadline_ = now + timeout_ + std::min(static_cast<std::int64_t>(bytes_), bytes_max_) * of_byte_;
  }
  // All that the deadline was for were taken.
  void restart(Instant now) noexcept {
    deadline_.reset();
    if (ended_ != begun_) start(now);
  }

  const std::chrono::nanoseconds timeout_;
  const std::chrono::nanoseconds of_byte_;  // rounded down, so that no division is on the way
  const std::int64_t bytes_max_;            // of which the time is a year, so that it fits
  const bool is_in_use_;
  std::uint64_t begun_ = 0, ended_ = 0;  // messages
  std::uint64_t bytes_ = 0;              // under way
  std::uint64_t watched_ = 0;            // begun_, of those that the deadline is for
  Deadline deadline_;
  bool had_grace_ = false;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_DRAIN_WATCH_H_
