#include "rdma/siwarp/local_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace rpcrdma::rdma::siwarp {
namespace {

constexpr std::uint32_t kSlices = 3;

struct Attached {
  LocalMemory memory{4, kSlices};
  std::array<std::byte, 64> bytes{};
  RegionId writable = *memory.attach(bytes, bytes.data());
  RegionId constant = *memory.attach(bytes, nullptr);
};

TEST(LocalMemory, TakesSlicesInTheOrderOfTheirLookUp) {
  Attached it;
  const std::vector<Slice> first{{it.constant, 8, 0}, {it.writable, 4, 60}};
  const std::vector<Slice> second{{it.writable, 16, 32}};
  it.memory.begin_batch();
  ASSERT_TRUE(it.memory.look_up_readable(first));
  ASSERT_TRUE(it.memory.look_up_writable(second));
  ASSERT_TRUE(it.memory.look_up_readable(second));
  const auto taken = it.memory.take_readable(2);
  EXPECT_EQ(taken[0].data(), it.bytes.data());
  EXPECT_EQ(taken[1].data(), it.bytes.data() + 60);
  EXPECT_EQ(taken[1].size(), 4U);
  EXPECT_EQ(it.memory.take_readable(1)[0].data(), it.bytes.data() + 32);
  EXPECT_EQ(it.memory.take_writable(1)[0].data(), it.bytes.data() + 32);
}

TEST(LocalMemory, BeginsEachBatchAnew) {
  Attached it;
  const std::vector<Slice> outside{{it.constant, 8, 60}};
  const std::vector<Slice> inside{{it.constant, 8, 8}};
  it.memory.begin_batch();
  EXPECT_FALSE(it.memory.look_up_readable(outside));
  it.memory.begin_batch();
  ASSERT_TRUE(it.memory.look_up_readable(inside));
  EXPECT_EQ(it.memory.take_readable(1)[0].data(), it.bytes.data() + 8);
}

TEST(LocalMemory, RefusesToWriteToConstantMemory) {
  Attached it;
  const std::vector<Slice> slices{{it.constant, 8, 0}};
  EXPECT_TRUE(it.memory.look_up_readable(slices));
  EXPECT_FALSE(it.memory.look_up_writable(slices));
}

TEST(LocalMemory, RefusesMoreSlicesThanARequestMayHave) {
  Attached it;
  const std::vector<Slice> slices(kSlices + 1, {it.writable, 1, 0});
  EXPECT_TRUE(it.memory.look_up_readable(std::span(slices).first(kSlices)));
  EXPECT_FALSE(it.memory.look_up_readable(slices));
  EXPECT_FALSE(it.memory.look_up_writable(slices));
}

TEST(LocalMemory, RefusesRequestsOf4GiB) {
  // No byte of it is touched.
  Attached it;
  const Bytes large(it.bytes.data(), 0xffffffffU);
  const RegionId region = *it.memory.attach(large, nullptr);
  const std::vector<Slice> slices{{region, 0xffffffffU, 0}, {it.constant, 1, 0}};
  EXPECT_TRUE(it.memory.look_up_readable(std::span(slices).first(1)));
  EXPECT_FALSE(it.memory.look_up_readable(slices));
}

TEST(LocalMemory, RefusesMemoryThatIsNotAttachedAnyMore) {
  Attached it;
  const std::vector<Slice> slices{{it.writable, 8, 0}};
  it.memory.detach(it.writable);
  EXPECT_FALSE(it.memory.look_up_readable(slices));
  EXPECT_FALSE(it.memory.look_up_writable(slices));
}

TEST(LocalMemory, CountsRegionsThatWereAttachedAndSaysWhenThereAreTooMany) {
  Attached it;
  EXPECT_EQ(it.memory.attached(), 2U);
  it.memory.detach(it.writable);
  ASSERT_TRUE(it.memory.attach(it.bytes, nullptr));
  ASSERT_TRUE(it.memory.attach(it.bytes, nullptr));
  ASSERT_TRUE(it.memory.attach(it.bytes, nullptr));
  const auto more = it.memory.attach(it.bytes, nullptr);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Errc::kNoResources);
  EXPECT_EQ(it.memory.attached(), 5U);
}

}  // namespace
}  // namespace rpcrdma::rdma::siwarp
