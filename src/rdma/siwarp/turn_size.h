// Chooses how much of a long message one turn to send has.
#ifndef RPCRDMA_RDMA_SIWARP_TURN_SIZE_H_
#define RPCRDMA_RDMA_SIWARP_TURN_SIZE_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "rpcrdma/types.h"

namespace rpcrdma::rdma::siwarp {

// With short turns the peer reads each while it is in the second-level cache, and other connections
// wait less long. With long ones processes change less often. Which moves more bytes depends on the
// machine: on one with 2 MiB of that cache short turns win by a sixth, on one where a change costs
// 5 us long ones do (docs/performance.md). So a connection that is the only one for a while tries
// both, by turns, and goes on with the faster one. As soon as another connection moves, turns are
// short.
class TurnSize {
 public:
  static constexpr std::size_t kShort = std::size_t{256} * 1024;
  static constexpr std::size_t kLong = std::size_t{1024} * 1024;
  // The time that so many bytes took is compared.
  static constexpr std::size_t kWindow = 8 * kLong;
  // Windows of one trial, half of them with long turns, and of the time until the next trial.
  static constexpr unsigned kTried = 8, kKept = 256;
  // Time with one connection only, before turns may be long.
  static constexpr std::chrono::milliseconds kAlone{100};
  // A window that took longer had a pause in it, and says nothing.
  static constexpr std::chrono::milliseconds kPause{50};

  std::size_t bytes() const noexcept { return is_long_ ? kLong : kShort; }

  // Notes that bytes came by a connection.
  void moved(const void* connection) noexcept {
    others_moved_ = others_moved_ || connection != last_;
    last_ = connection;
  }

  // Notes that `size` bytes of long messages were sent.
  void sent(std::size_t size, Instant now) noexcept {
    if (others_moved_) {
      others_moved_ = false;
      alone_from_ = now + kAlone;
      is_long_ = false;
      begin_trial();
    }
    if (now < alone_from_) return;
    if (window_ == 0) {  // begins behind these bytes
      window_ = 1;
      return begin_window(now);
    }
    sent_ += size;
    if (sent_ >= kWindow) end_window(now);
  }

 private:
  void begin_trial() noexcept {
    window_ = 0;
    took_ = {};
  }

  void begin_window(Instant now) noexcept {
    sent_ = 0;
    began_ = now;
    // Short, long, long, short: what grows or falls all the while says nothing.
    if (window_ <= kTried) is_long_ = window_ % 4 == 2 || window_ % 4 == 3;
  }

  void end_window(Instant now) noexcept {
    const Instant::duration took = now - began_;
    if (took < kPause) {
      if (window_ <= kTried) took_[is_long_ ? 1 : 0] += took;
      ++window_;
      if (window_ == kTried + 1) is_long_ = took_[1] < took_[0];
      if (window_ > kTried + kKept) {
        begin_trial();
        window_ = 1;
      }
    }
    begin_window(now);
  }

  const void* last_ = nullptr;  // compared only
  bool others_moved_ = false;
  Instant alone_from_{};
  unsigned window_ = 0;  // 0: none yet; of the trial up to kTried
  std::size_t sent_ = 0;
  Instant began_{};
  std::array<Instant::duration, 2> took_{};
  bool is_long_ = false;
};

}  // namespace rpcrdma::rdma::siwarp

#endif  // RPCRDMA_RDMA_SIWARP_TURN_SIZE_H_
