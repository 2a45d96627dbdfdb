// Takes the figures of one run: time, CPU time and allocations of both processes, latencies.
#ifndef RPCRDMA_TOOLS_BENCH_METER_H_
#define RPCRDMA_TOOLS_BENCH_METER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "tools/bench/child.h"
#include "tools/bench/contender.h"
#include "tools/bench/histogram.h"

namespace rpcrdma::tools::bench {

using Clock = std::chrono::steady_clock;

// Drives the phases of a run: tick() once in each round of the load's loop. Latencies are taken to
// the start of a round, since asking the clock for each call would cost more than a NULL call may.
class Meter {
 public:
  // Other processes whose figures count; null: there is none.
  struct Others {
    const Child* server = nullptr;
    std::span<const std::unique_ptr<Child>> load{};
    bool load_is_the_case = false;  // its latencies are the case's, too
  };
  Meter(const Others& others, const Times& times);

  // The time of this round; call before looking for what has ended. Starts to count when the
  // warm-up is over.
  void tick();
  bool over() const noexcept { return phase_ == Phase::kOver; }
  Clock::time_point now() const noexcept { return now_; }

  // A call that began at `start` has ended in this round.
  void ended(Clock::time_point start) noexcept {
    ++calls_ended_;
    if (phase_ != Phase::kMeasure) return;
    ++sample_.calls;
    histogram_.add(now_ - start);
  }
  // Returns whether the measuring began, or ended, in the round that just ticked; to read further
  // counters.
  bool just_started() const noexcept { return just_started_; }

  // Returns the sample after over(). `payload` bytes for each call.
  Sample sample(std::uint64_t payload) const noexcept;

 private:
  enum class Phase : std::uint8_t { kWarmUp, kMeasure, kOver };
  struct Reading {
    double own_cpu_seconds, server_cpu_seconds, load_cpu_seconds;
    std::uint64_t allocations, load_calls;
  };
  Reading read() const;
  void let_load_measure(bool value) const noexcept;

  const Others others_;
  const Times times_;
  Phase phase_ = Phase::kWarmUp;
  bool just_started_ = false;
  std::uint32_t calls_ended_ = 0;
  Clock::time_point now_, began_;
  Reading before_{};
  Sample sample_;
  Histogram histogram_;
};

}  // namespace rpcrdma::tools::bench

#endif  // RPCRDMA_TOOLS_BENCH_METER_H_
