// Chooses how much of a long message one turn to send has.
#ifndef RPCRDMA_RDMA_SIWARP_TURN_SIZE_H_
#define RPCRDMA_RDMA_SIWARP_TURN_SIZE_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "rpcrdma/types.h"

namespace rpcrdma::rdma::siwarp {

// With short turns the peer reads each while it is in the second-level cache, and other connections
// wait less long. With long ones processes change less often. Which moves more bytes depends on the
// machine: on one with 2 MiB of that cache short turns win by a sixth, on one where a change costs
// 5 us long ones do (docs/performance.md). So a connection that is the only one for a while tries
// both, by turns, and goes on with the faster one. As soon as another connection moves, turns are
// short.
//
// A client does not see who else waits for its server. So a server on its machine, which does, has
// it send less at a time while there are others: it requests long Reads in pieces.
class TurnSize {
 public:
  static constexpr std::size_t kShort = std::size_t{256} * 1024;
  static constexpr std::size_t kLong = std::size_t{1024} * 1024;
  // A window is the time that so many bytes take; what it has above them counts, too.
  static constexpr std::size_t kWindow = 8 * kLong;
  // A trial has kTried windows, half of them with long turns; the next one begins kKept later.
  static constexpr unsigned kTried = 8, kKept = 256;
  // Turns may be long when for so long only one connection has moved. Somebody who calls less often
  // may meet one long turn, which lasts some tenths of a millisecond.
  static constexpr std::chrono::milliseconds kAlone{250};
  // A window that takes longer has a pause in it. A trial with one says nothing, and who is not in
  // a hurry has short turns.
  static constexpr std::chrono::milliseconds kPause{50};
  // Long turns must win by so much, in hundredths: where both are alike, others should not wait.
  static constexpr std::uint64_t kMargin = 3;

  std::size_t bytes() const noexcept { return is_long_ && !others_moved_ ? kLong : kShort; }

  // Notes that bytes came or went by a connection.
  void moved(const void* connection) noexcept {
    others_moved_ = others_moved_ || connection != last_;
    others_moved_since_ = others_moved_since_ || (last_ != nullptr && connection != last_);
    last_ = connection;
  }
  // Returns of how many bytes the pieces of a long Read are; 0: it goes whole. There are pieces
  // when another connection has moved since this was asked last, and for a while behind it.
  std::uint32_t read_piece(Instant now) noexcept {
    if (std::exchange(others_moved_since_, false)) read_whole_from_ = now + kAlone;
    return now < read_whole_from_ ? std::uint32_t{kShort / 2} : 0;
  }
  void forget(const void* connection) noexcept {
    if (last_ == connection) last_ = nullptr;
  }

  // Notes that `size` bytes were sent, some of them of a message that is longer than kShort.
  void sent(std::size_t size, Instant now) noexcept {
    if (others_moved_) {
      others_moved_ = false;
      rest(now);
    }
    if (now < try_from_) return;
    if (window_ == 0) {  // it begins behind these bytes
      window_ = 1;
      return begin_window(now);
    }
    sent_ += size;
    if (sent_ >= kWindow) end_window(now);
  }

 private:
  struct Sum {
    std::uint64_t bytes = 0;
    std::uint64_t ns = 0;
  };

  // Has short turns for a while, and a trial behind it.
  void rest(Instant now) noexcept {
    try_from_ = now + kAlone;
    window_ = 0;
    sums_ = {};
    is_long_ = false;
  }

  void begin_window(Instant now) noexcept {
    sent_ = 0;
    began_ = now;
    // Short, long, long, short: what grows or falls all the while says nothing.
    if (window_ <= kTried) is_long_ = window_ % 4 == 2 || window_ % 4 == 3;
  }

  void end_window(Instant now) noexcept {
    const Instant::duration took = now - began_;
    if (window_ <= kTried) {
      if (took >= kPause) return rest(now);
      Sum& sum = sums_[is_long_ ? 1 : 0];
      sum.bytes += sent_;
      sum.ns += static_cast<std::uint64_t>(took.count());
    }
    if (window_ == kTried) is_long_ = wins(sums_[1], sums_[0]);
    if (window_++ == kTried + kKept) {
      window_ = 1;
      sums_ = {};
    }
    begin_window(now);
  }

  // Bytes and times of four windows are below 2^32 each.
  static bool wins(const Sum& one, const Sum& other) noexcept {
    return one.bytes * other.ns / 100 > other.bytes * one.ns / 100 * (100 + kMargin) / 100;
  }

  const void* last_ = nullptr;  // compared only
  bool others_moved_ = false, others_moved_since_ = false;
  Instant read_whole_from_{};
  Instant try_from_{};
  unsigned window_ = 0;  // 0: none yet; of the trial up to kTried
  std::size_t sent_ = 0;
  Instant began_{};
  std::array<Sum, 2> sums_{};  // with short turns, and with long ones
  bool is_long_ = false;
};

}  // namespace rpcrdma::rdma::siwarp

#endif  // RPCRDMA_RDMA_SIWARP_TURN_SIZE_H_
