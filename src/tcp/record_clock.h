// Measures the time that the peer takes to send one record.
#ifndef RPCRDMA_TCP_RECORD_CLOCK_H_
#define RPCRDMA_TCP_RECORD_CLOCK_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/deadline.h"
#include "rpcrdma/types.h"

namespace rpcrdma::tcp {

// A record holds memory until it is whole. It has a fixed time, and that of its bytes at a lowest
// rate; the time runs while everything that has come of it was read, since what lies in the socket
// waits for this side. Where this side was away, which it sees when it looks again, the bytes may
// have come at once and filled the socket: the record gets a little more time then, once.
class RecordClock {
 public:
  // `rate_min`: bytes per second; 0: any record may take for ever.
  RecordClock(std::chrono::nanoseconds timeout, std::uint32_t rate_min) noexcept
      : timeout_(timeout), rate_min_(rate_min) {}

  bool is_in_use() const noexcept { return rate_min_ > 0; }
  bool runs() const noexcept { return since_.has_value(); }
  void start(Instant now) noexcept { since_ = now; }
  void stop(Instant now) noexcept {
    constexpr std::chrono::seconds kGrace{1};
    const Instant end = deadline();
    const Instant since = *std::exchange(since_, std::nullopt);
    const bool was_away = now - end > kPunctual && !std::exchange(had_grace_, true);
    spent_ += (was_away ? end - kGrace : now) - since;
  }
  void note_bytes(std::size_t size) noexcept { bytes_ += size; }
  // A record is complete: further bytes belong to the next one.
  void note_record() noexcept {
    since_.reset();
    spent_ = {};
    bytes_ = 0;
    had_grace_ = false;
  }
  // Returns the end of the record's time, unless more of it comes. Precondition: runs().
  Instant deadline() const noexcept {
    const auto of_bytes = std::chrono::milliseconds(bytes_ * 1000 / rate_min_);
    return *since_ + (timeout_ + of_bytes - spent_);
  }

 private:
  const std::chrono::nanoseconds timeout_;
  const std::uint32_t rate_min_;
  std::optional<Instant> since_;
  std::chrono::nanoseconds spent_{};
  std::uint64_t bytes_ = 0;
  bool had_grace_ = false;
};

}  // namespace rpcrdma::tcp

#endif  // RPCRDMA_TCP_RECORD_CLOCK_H_
