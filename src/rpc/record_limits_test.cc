#include "rpc/record_limits.h"

#include <gtest/gtest.h>

namespace rpcrdma::rpc {
namespace {

TEST(RecordLimits, AreTheOptionsWhereThePoolIsLarge) {
  TcpOptions options;
  options.record_size_max = 100'000;
  options.fragments_max = 1;
  const tcp::RecordLimits limits = record_limits(options, std::size_t{1} << 30U);
  EXPECT_EQ(limits.size_max, 100'000U);
  EXPECT_EQ(limits.fragments_max, 1U);
}

TEST(RecordLimits, LeaveEachRecordAFragment) {
  TcpOptions options;
  options.fragments_max = 0;
  EXPECT_EQ(record_limits(options, std::size_t{1} << 30U).fragments_max, 1U);
}

TEST(RecordLimits, AreWhatAPoolHasTwiceOver) {
  TcpOptions options;
  options.record_size_max = 64U << 20U;
  for (const std::size_t pool : {std::size_t{1} << 20U, std::size_t{16} << 20U}) {
    const std::size_t large = transport::BufferPool::large_bytes_max(pool);
    const std::size_t size = record_limits(options, pool).size_max;
    EXPECT_LE(size + size / 2, large) << "while it grows, its old buffer and its new one are there";
    EXPECT_GT(4 * size, large);
  }
}

}  // namespace
}  // namespace rpcrdma::rpc
