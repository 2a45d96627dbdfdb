#include "tools/bench/histogram.h"

#include <algorithm>
#include <bit>

namespace rpcrdma::tools::bench {

// With a single writer a load and a store are enough, and cost what a plain increment does.
void Histogram::count(std::size_t bucket, std::uint32_t more) noexcept {
  auto& counter = buckets_[bucket];
  counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

void Histogram::add(std::chrono::nanoseconds latency) noexcept {
  const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(latency.count(), 1));
  const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - kSubBits - 1);
  // Values below 2^(kSubBits+1) have a bucket each; above, the upper bits choose it.
  const std::size_t bucket =
      (static_cast<std::size_t>(shift) << kSubBits) + static_cast<std::size_t>(value >> shift);
  count(std::min(bucket, buckets_.size() - 1), 1);
}

void Histogram::add(const Histogram& other) noexcept {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    count(i, other.buckets_[i].load(std::memory_order_relaxed));
  }
}

std::uint64_t Histogram::size() const noexcept {
  std::uint64_t all = 0;
  for (const auto& bucket : buckets_) all += bucket.load(std::memory_order_relaxed);
  return all;
}

double Histogram::quantile_us(double quantile) const noexcept {
  const std::uint64_t all = size();
  if (all == 0) return 0;
  auto left = static_cast<std::uint64_t>(quantile * static_cast<double>(all - 1));
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    const std::uint32_t here = buckets_[bucket].load(std::memory_order_relaxed);
    if (left >= here) {
      left -= here;
      continue;
    }
    const std::size_t group = bucket >> kSubBits;
    const std::size_t shift = group == 0 ? 0 : group - 1;
    const std::size_t mantissa = bucket - (shift << kSubBits);
    return (static_cast<double>(mantissa) + 0.5) * static_cast<double>(1ULL << shift) / 1e3;
  }
  return 0;
}

}  // namespace rpcrdma::tools::bench
