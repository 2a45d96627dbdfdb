#include "rdma/sim/domain.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace rpcrdma::rdma::sim {
namespace {

constexpr SteeringTag kTag{7};
constexpr std::uint64_t kAddress = 0x1000;

struct DomainTest : testing::Test {
  std::array<std::byte, 100> memory{};
  Domain domain;
  RegionId region = domain.attach(memory, memory);
};

TEST_F(DomainTest, SlicesInsideTheRegionAreFound) {
  EXPECT_EQ(domain.readable({region, 100, 0})->size(), 100U);
  EXPECT_EQ(domain.writable({region, 1, 99})->data(), memory.data() + 99);
  EXPECT_TRUE(domain.readable({region, 0, 100}).has_value());
}

TEST_F(DomainTest, SlicesOutsideTheRegionAreNot) {
  EXPECT_FALSE(domain.readable({region, 1, 100}).has_value());
  EXPECT_FALSE(domain.readable({region, 101, 0}).has_value());
  EXPECT_FALSE(domain.writable({region, 2, std::numeric_limits<std::uint64_t>::max()}));
  EXPECT_FALSE(domain.readable({RegionId{99}, 1, 0}).has_value());
}

TEST_F(DomainTest, ReadOnlyRegionsCannotBeWritten) {
  const RegionId constant = domain.attach(memory, std::nullopt);
  EXPECT_TRUE(domain.readable({constant, 1, 0}).has_value());
  EXPECT_FALSE(domain.writable({constant, 1, 0}).has_value());
}

TEST_F(DomainTest, DetachedRegionsAreUnknownAndTheirNumberDoesNotComeBack) {
  domain.detach(region);
  EXPECT_FALSE(domain.readable({region, 1, 0}).has_value());
  EXPECT_NE(domain.attach(memory, memory), region);
}

TEST_F(DomainTest, ExposesExactlyTheRunWithExactlyTheRight) {
  domain.expose({{region, 10, 50}, RemoteAccess::kWrite}, kTag, kAddress);
  EXPECT_EQ(domain.remote_writable({kTag, 10, kAddress})->data(), memory.data() + 50);
  EXPECT_EQ(domain.remote_writable({kTag, 1, kAddress + 9})->data(), memory.data() + 59);
  EXPECT_FALSE(domain.remote_readable({kTag, 10, kAddress}).has_value());
  EXPECT_FALSE(domain.remote_writable({kTag, 11, kAddress}).has_value());
  EXPECT_FALSE(domain.remote_writable({kTag, 1, kAddress + 10}).has_value());
  EXPECT_FALSE(domain.remote_writable({kTag, 1, kAddress - 1}).has_value());
  EXPECT_FALSE(domain.remote_writable({kTag, 0xffffffff, kAddress + 1}).has_value());
  EXPECT_FALSE(domain.remote_writable({SteeringTag{8}, 1, kAddress}).has_value());
}

TEST_F(DomainTest, ExposureAtTheEndOfTheAddressSpaceDoesNotWrap) {
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max() - 4;
  domain.expose({{region, 10, 0}, RemoteAccess::kRead}, kTag, last);
  EXPECT_TRUE(domain.remote_readable({kTag, 5, last}).has_value());
  EXPECT_FALSE(domain.remote_readable({kTag, 11, last}).has_value());
  EXPECT_FALSE(domain.remote_readable({kTag, 1, last - 1}).has_value());
}

TEST_F(DomainTest, RevokedTagsAreDead) {
  domain.expose({{region, 10, 0}, RemoteAccess::kRead}, kTag, kAddress);
  EXPECT_TRUE(domain.revoke(kTag));
  EXPECT_FALSE(domain.is_live(kTag));
  EXPECT_FALSE(domain.remote_readable({kTag, 1, kAddress}).has_value());
  EXPECT_FALSE(domain.revoke(kTag));
}

using DomainDeathTest = DomainTest;
TEST_F(DomainDeathTest, DetachingExposedMemoryIsOurBug) {
  domain.expose({{region, 10, 0}, RemoteAccess::kRead}, kTag, kAddress);
  EXPECT_DEATH(domain.detach(region), "still exposed");
}

}  // namespace
}  // namespace rpcrdma::rdma::sim
