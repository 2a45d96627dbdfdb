#include "tools/bench/meter.h"

#include <ctime>

#include "tools/bench/allocations.h"

namespace rpcrdma::tools::bench {

Meter::Meter(const Others& others, const Times& times)
    : others_(others), times_(times), now_(Clock::now()), began_(now_) {}

Meter::Reading Meter::read() const {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  Reading reading{};
  reading.own_cpu_seconds =
      static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  reading.allocations = allocations();
  if (others_.server != nullptr) {
    reading.server_cpu_seconds = others_.server->cpu_seconds();
    reading.allocations += others_.server->tally().allocations;
  }
  for (const auto& load : others_.load) {
    reading.load_cpu_seconds += load->cpu_seconds();
    reading.load_calls += load->tally().calls;
    reading.allocations += load->tally().allocations;
  }
  return reading;
}

void Meter::let_load_measure(bool value) const noexcept {
  if (!others_.load_is_the_case) return;
  for (const auto& load : others_.load) load->measure(value);
}

void Meter::tick() {
  now_ = Clock::now();
  just_started_ = false;
  if (phase_ == Phase::kWarmUp && now_ - began_ >= times_.warm_up &&
      calls_ended_ >= times_.warm_up_calls) {
    let_load_measure(true);
    before_ = read();
    now_ = began_ = Clock::now();
    phase_ = Phase::kMeasure;
    just_started_ = true;
  } else if (phase_ == Phase::kMeasure && now_ - began_ >= times_.measure) {
    const Reading after = read();
    let_load_measure(false);
    sample_.seconds = std::chrono::duration<double>(now_ - began_).count();
    sample_.server_cpu_seconds = after.server_cpu_seconds - before_.server_cpu_seconds;
    sample_.load_cpu_seconds = after.load_cpu_seconds - before_.load_cpu_seconds;
    sample_.load_calls = after.load_calls - before_.load_calls;
    sample_.cpu_seconds = after.own_cpu_seconds - before_.own_cpu_seconds +
                          sample_.server_cpu_seconds + sample_.load_cpu_seconds;
    sample_.allocations = after.allocations - before_.allocations;
    phase_ = Phase::kOver;
  }
}

Sample Meter::sample(std::uint64_t payload) const noexcept {
  Sample sample = sample_;
  sample.payload_bytes = sample.calls * payload;
  Histogram all;
  all.add(histogram_);
  if (others_.load_is_the_case) {
    for (const auto& load : others_.load) all.add(load->tally().latencies);
  }
  sample.latencies = all.size();
  sample.p50_us = all.quantile_us(0.50);
  sample.p99_us = all.quantile_us(0.99);
  return sample;
}

}  // namespace rpcrdma::tools::bench
