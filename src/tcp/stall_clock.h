// Measures how long nothing has moved between a connection and its peer.
#ifndef RPCRDMA_TCP_STALL_CLOCK_H_
#define RPCRDMA_TCP_STALL_CLOCK_H_

#include <chrono>
#include <cstddef>
#include <utility>

#include "rpcrdma/types.h"

namespace rpcrdma::tcp {

// A record that has come in part must move within a time, and a message of which something is
// unsent within another. That begins with the record, or the message: a connection may have rested
// for hours, and a deadline from before may still be set.
class StallClock {
 public:
  // A record that is not complete must grow by so much within each `timeout`: a few bytes at a time
  // would keep its memory for ever.
  static constexpr std::size_t kProgressMin = 16U << 10U;  // bytes

  explicit StallClock(std::chrono::nanoseconds timeout) noexcept : timeout_(timeout) {}

  // Notes whether a record or a message is under way now. Calls now() if one has begun.
  template <class Clock>
  void note_busy(bool is_busy, Clock now) {
    const bool was_busy = std::exchange(is_busy_, is_busy);
    if (is_busy && !was_busy) restart(now());
  }
  // Returns what was noted last.
  bool is_busy() const noexcept { return is_busy_; }
  // Returns whether enough has come since the last progress to be the next one.
  bool note_received(std::size_t size) noexcept {
    received_ += size;
    return received_ >= kProgressMin;
  }
  void note_progress(Instant now) noexcept { progress_ = now; }
  void restart(Instant now) noexcept {
    progress_ = now;
    received_ = 0;
  }
  Instant deadline() const noexcept { return progress_ + timeout_; }

 private:
  const std::chrono::nanoseconds timeout_;
  Instant progress_{};        // when enough bytes moved last
  std::size_t received_ = 0;  // bytes since then
  bool is_busy_ = false;
};

// Those of a connection.
struct StallClocks {
  // A peer may have to take our replies before there is room for its next record.
  void note_sent(Instant now) noexcept {
    sending.note_progress(now);
    receiving.note_progress(now);
  }

  StallClock receiving;
  StallClock sending;
};

}  // namespace rpcrdma::tcp

#endif  // RPCRDMA_TCP_STALL_CLOCK_H_
