// Counts latencies, in memory that another process may read.
#ifndef RPCRDMA_TOOLS_BENCH_HISTOGRAM_H_
#define RPCRDMA_TOOLS_BENCH_HISTOGRAM_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rpcrdma::tools::bench {

// Keeps buckets 1.6 % wide. Its size is fixed, so that measuring allocates nothing. One thread
// adds; others may read meanwhile.
class Histogram {
 public:
  void add(std::chrono::nanoseconds latency) noexcept;
  void add(const Histogram& other) noexcept;
  std::uint64_t size() const noexcept;
  double quantile_us(double quantile) const noexcept;  // 0 when empty

 private:
  static constexpr int kSubBits = 6;  // 64 buckets for each power of two
  void count(std::size_t bucket, std::uint32_t more) noexcept;

  std::array<std::atomic<std::uint32_t>, 40U << kSubBits> buckets_{};
};

}  // namespace rpcrdma::tools::bench

#endif  // RPCRDMA_TOOLS_BENCH_HISTOGRAM_H_
