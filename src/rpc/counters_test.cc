#include "rpc/counters.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>

namespace rpcrdma::rpc {
namespace {

TEST(TransferCounters, AreAddedEachToItsOwn) {
  using Values = std::array<std::uint64_t, sizeof(TransferCounters) / sizeof(std::uint64_t)>;
  Values one, other, both;
  for (std::size_t i = 0; i < one.size(); ++i) {
    one[i] = i + 1;
    other[i] = 100 * (i + 1);
    both[i] = one[i] + other[i];
  }
  auto sum = std::bit_cast<TransferCounters>(one);
  add(sum, std::bit_cast<TransferCounters>(other));
  EXPECT_EQ(std::bit_cast<Values>(sum), both);
}

// Each once, and in the order of the struct.
TEST(TransferCounters, AreAllInTheTable) {
  std::array<std::uint64_t, kTransferCounters.size()> values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i;
  const auto counters = std::bit_cast<TransferCounters>(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(counters.*kTransferCounters[i].value, i) << kTransferCounters[i].name;
  }
}

}  // namespace
}  // namespace rpcrdma::rpc
