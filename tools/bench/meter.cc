#include "tools/bench/meter.h"

#include <algorithm>
#include <bit>
#include <ctime>

#include "tools/bench/allocations.h"

namespace rpcrdma::tools::bench {

void Histogram::add(Nanoseconds latency) noexcept {
  const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(latency.count(), 1));
  const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - kSubBits - 1);
  // Values below 2^(kSubBits+1) have a bucket each; above, the upper bits choose it.
  const std::size_t bucket =
      (static_cast<std::size_t>(shift) << kSubBits) + static_cast<std::size_t>(value >> shift);
  ++buckets_[std::min(bucket, buckets_.size() - 1)];
  ++count_;
}

double Histogram::quantile_us(double quantile) const noexcept {
  if (count_ == 0) return 0;
  auto left = static_cast<std::uint64_t>(quantile * static_cast<double>(count_ - 1));
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    if (left >= buckets_[bucket]) {
      left -= buckets_[bucket];
      continue;
    }
    const std::size_t group = bucket >> kSubBits;
    const std::size_t shift = group == 0 ? 0 : group - 1;
    const std::size_t mantissa = bucket - (shift << kSubBits);
    return (static_cast<double>(mantissa) + 0.5) * static_cast<double>(1ULL << shift) / 1e3;
  }
  return 0;
}

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

void Meter::tick() {
  now_ = Clock::now();
  just_started_ = false;
  if (phase_ == Phase::kWarmUp && now_ - began_ >= times_.warm_up &&
      calls_ended_ >= times_.warm_up_calls) {
    before_ = read();
    now_ = began_ = Clock::now();
    phase_ = Phase::kMeasure;
    just_started_ = true;
  } else if (phase_ == Phase::kMeasure && now_ - began_ >= times_.measure) {
    const Reading after = read();
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
  sample.p50_us = histogram_.quantile_us(0.50);
  sample.p99_us = histogram_.quantile_us(0.99);
  return sample;
}

}  // namespace rpcrdma::tools::bench
