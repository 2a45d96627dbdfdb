// Decides which Calls may have memory for their Read chunks, and limits their time.
#ifndef RPCRDMA_ENGINE_PULL_WINDOW_H_
#define RPCRDMA_ENGINE_PULL_WINDOW_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/deadline.h"
#include "base/ring.h"
#include "engine/offered_chunks.h"
#include "engine/types.h"

namespace rpcrdma::engine {

// A Call asks for memory when its Reads can go out soon: behind those that keep the connection's
// Reads busy, it would hold memory and wait. So a peer that serves Reads slowly holds the memory of
// few Calls, however many credits it uses.
//
// Small ones do not wait: the pool keeps memory for them that no others get.
//
// Each Call has its own time, which runs while its Reads are under way: Options::pull_timeout, and
// its bytes at Options::pull_rate_min.
class PullWindow {
 public:
  // Holds a Call's part of the window; all zero: it has none.
  struct Claim {
    bool is_held = false;
    bool has_turn = false;    // for all of its chunks; else only for the start of the first
    std::uint64_t bytes = 0;  // that are not here
    std::uint16_t reads = 0;  // not complete
    std::chrono::nanoseconds left{};
    Deadline deadline;  // while its Reads are under way
    bool had_grace = false;
  };

  // `calls_max`: how many may have to wait.
  PullWindow(const Options& options, std::size_t calls_max)
      : timeout_(options.pull_timeout),
        rate_min_(options.pull_rate_min),
        bytes_max_(options.pull_window),
        waiting_(calls_max) {}

  // Returns whether the chunks of a Call need not wait.
  static bool is_small(const OfferedChunks& offered) noexcept {
    constexpr std::uint64_t kSmall = 8192;  // bytes, as transport::BufferPool has it
    std::uint64_t bytes = 0;
    for (const ReadChunk& chunk : offered.chunks()) bytes += chunk.size;
    return bytes <= kSmall;
  }
  // Returns whether one more Call may ask for memory, with `reads_max` Reads at a time on the
  // connection. Those that wait come first.
  bool has_room(std::uint32_t reads_max) const noexcept {
    return calls_ == 0 || (reads_ < reads_max && bytes_ < bytes_max_);
  }
  bool anybody_waits() const noexcept { return !waiting_.empty(); }
  void wait(std::uint16_t slot) { waiting_.push(slot); }
  // Precondition: anybody_waits().
  std::uint16_t next() { return waiting_.pop(); }
  void forget_waiting() { waiting_.clear(); }

  // The Call has none yet, or loses what it has done: its chunks will be read from the start.
  void claim(Claim& claim, const OfferedChunks& offered) noexcept {
    release(claim);
    for (const ReadChunk& chunk : offered.chunks()) count(claim, offered, chunk, chunk.size);
    hold(claim);
    claim.has_turn = true;
  }
  // Claims the first `size` bytes of its first chunk, which need no turn, and keeps the turn that
  // the Call may have.
  void claim_head(Claim& claim, const OfferedChunks& offered, std::uint32_t size) noexcept {
    const bool has_turn = claim.has_turn;
    release(claim);
    count(claim, offered, offered.chunks()[0], size);
    hold(claim);
    claim.has_turn = has_turn;
  }
  // One of its Reads is complete; segments count as if they had the same size.
  void read_done(Claim& claim) noexcept {
    const std::uint64_t bytes = claim.bytes / claim.reads;
    claim.bytes -= bytes;
    bytes_ -= bytes;
    --claim.reads;
    --reads_;
  }
  // Releases a claim: its chunks have arrived, or never will.
  void release(Claim& claim) noexcept {
    if (!claim.is_held) return;
    --calls_;
    bytes_ -= claim.bytes;
    reads_ -= claim.reads;
    if (claim.deadline) --under_way_;
    claim = {};
    forget_deadline_if_idle();
  }

  // Starts the time of a claim, which runs until stop().
  void start(Claim& claim, Instant now) noexcept {
    if (rate_min_ == 0) return;
    claim.deadline = now + claim.left;
    ++under_way_;
    note(*claim.deadline);
  }
  // A chunk that is taken behind the end of the time came while this side was away, and the rest
  // has a little time of its own, once.
  void stop(Claim& claim, Instant now) noexcept {
    constexpr std::chrono::seconds kGrace{1};
    if (!claim.deadline) return;
    claim.left = *claim.deadline - now;
    if (claim.left <= kGrace.zero() && !std::exchange(claim.had_grace, true)) claim.left = kGrace;
    claim.deadline.reset();
    --under_way_;
    forget_deadline_if_idle();
  }
  // Returns a time no later than the first end of a Call's time. The owner looks at all of them
  // then, which it does once in that time, and tells those that have time left with note().
  Deadline deadline() const noexcept { return earliest_; }
  bool is_due(Instant now) const noexcept { return earliest_.is_over(now); }
  void forget_deadline() noexcept { earliest_.reset(); }
  void note(Instant deadline) noexcept { earliest_ = earlier(earliest_, deadline); }

 private:
  // Adds the first `size` bytes of the chunk.
  static void count(Claim& claim, const OfferedChunks& offered, const ReadChunk& chunk,
                    std::uint32_t size) noexcept {
    claim.bytes += size;
    for (std::size_t i = chunk.first; size > 0 && i < std::size_t{chunk.first} + chunk.count; ++i) {
      const std::uint32_t read = std::min(size, offered.read(i).length);
      if (read > 0) ++claim.reads;
      size -= read;
    }
  }
  void hold(Claim& claim) noexcept {
    claim.is_held = true;
    if (rate_min_ > 0) claim.left = timeout_ + time_of(claim.bytes);
    ++calls_;
    bytes_ += claim.bytes;
    reads_ += claim.reads;
  }
  std::chrono::nanoseconds time_of(std::uint64_t bytes) const noexcept {
    return std::chrono::milliseconds(bytes * 1000 / rate_min_);
  }
  void forget_deadline_if_idle() noexcept {
    if (under_way_ == 0) earliest_.reset();
  }

  const std::chrono::nanoseconds timeout_;
  const std::uint32_t rate_min_;
  const std::uint64_t bytes_max_;
  Ring<std::uint16_t> waiting_;
  std::uint32_t calls_ = 0;  // that have a Claim
  std::uint32_t under_way_ = 0;
  std::uint32_t reads_ = 0;
  std::uint64_t bytes_ = 0;
  Deadline earliest_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_PULL_WINDOW_H_
