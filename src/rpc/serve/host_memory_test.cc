#include "rpc/serve/host_memory.h"

#include <gtest/gtest.h>

namespace rpcrdma::rpc {
namespace {

constexpr std::size_t kMega = 1U << 20U;

// Takes buffers of a mebibyte as long as the host may; returns how many.
std::size_t fill(HostMemory::Share& share) {
  std::size_t count = 0;
  for (; share.may_take(kMega); ++count) share.took(kMega);
  return count;
}

// Large buffers have 448 MiB of it.
TEST(HostMemory, HostLeavesAnEighthOfWhatIsThereOnHoweverManyConnections) {
  HostMemory memory(512 * kMega);
  HostMemory::Share one(&memory, "10.0.0.1:1"), same(&memory, "10.0.0.1:2");
  HostMemory::Share other(&memory, "10.0.0.2:1"), third(&memory, "10.0.0.3:1");
  EXPECT_EQ(fill(one), 392U);
  EXPECT_EQ(fill(same), 0U);
  EXPECT_EQ(fill(other), 49U);
  EXPECT_EQ(fill(third), 6U);
  one.gave_back(kMega);
  EXPECT_EQ(fill(same), 0U) << "others have come";
  for (int i = 0; i < 100; ++i) one.gave_back(kMega);
  EXPECT_GT(fill(same), 30U);
}

TEST(HostMemory, HostHasItsFirstBufferAndSmallOnesWhateverOthersHold) {
  HostMemory memory(2 * kMega);
  HostMemory::Share one(&memory, "10.0.0.1:1"), other(&memory, "10.0.0.2:1");
  EXPECT_TRUE(one.may_take(16 * kMega));
  one.took(16 * kMega);
  EXPECT_FALSE(one.may_take(kMega));
  EXPECT_TRUE(one.may_take(transport::BufferPool::kSmallMax));
  EXPECT_TRUE(other.may_take(kMega));
}

TEST(HostMemory, NothingIsBoundWithoutIt) {
  HostMemory::Share share(nullptr, "10.0.0.1:1");
  EXPECT_TRUE(share.may_take(1000 * kMega));
  share.took(kMega);
  share.gave_back(kMega);
}

}  // namespace
}  // namespace rpcrdma::rpc
