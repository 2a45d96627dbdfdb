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

}  // namespace
}  // namespace rpcrdma::rpc
