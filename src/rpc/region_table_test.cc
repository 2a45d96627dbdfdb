#include "rpc/region_table.h"

#include <gtest/gtest.h>

#include <array>

namespace rpcrdma::rpc {
namespace {

TEST(RegionTable, FindsTheRegionThatHoldsAllOfTheData) {
  std::array<std::byte, 300> memory{};
  const MutableBytes all(memory);
  RegionTable table;
  EXPECT_FALSE(table.find(all.first(1), false));
  const auto upper = table.add(all.subspan(200, 100), all.data() + 200);
  const auto lower = table.add(all.first(100), nullptr);
  ASSERT_TRUE(upper && lower);
  const auto found = table.find(all.subspan(210, 90), true);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, *upper);
  EXPECT_EQ(found->offset, 10U);
  EXPECT_EQ(table.find(all.first(100), false)->id, *lower);
  EXPECT_FALSE(table.find(all.first(100), true)) << "it is only read";
  EXPECT_FALSE(table.find(all.first(101), false)) << "a byte too long";
  EXPECT_FALSE(table.find(all.subspan(100, 1), false)) << "between the two";
  EXPECT_FALSE(table.find(all.subspan(199, 2), false)) << "a byte too early";
}

TEST(RegionTable, RefusesNothingAndOverlaps) {
  std::array<std::byte, 300> memory{};
  const Bytes all(memory);
  RegionTable table;
  EXPECT_FALSE(table.add({}, nullptr));
  ASSERT_TRUE(table.add(all.subspan(100, 100), nullptr));
  EXPECT_FALSE(table.add(all, nullptr));
  EXPECT_FALSE(table.add(all.subspan(150, 10), nullptr));
  EXPECT_FALSE(table.add(all.first(101), nullptr));
  EXPECT_FALSE(table.add(all.subspan(199), nullptr));
  EXPECT_TRUE(table.add(all.first(100), nullptr)) << "side by side is no overlap";
  EXPECT_TRUE(table.add(all.subspan(200), nullptr));
}

TEST(RegionTable, UsesIdsAgain) {
  std::array<std::byte, 20> memory{};
  RegionTable table;
  const auto first = table.add(memory, nullptr);
  table.remove(*first);
  EXPECT_FALSE(table.find(memory, false));
  EXPECT_EQ(table.add(memory, nullptr), first);
}

TEST(RegionTableDeathTest, MemoryInUseIsNotUnregistered) {
  std::array<std::byte, 20> memory{};
  RegionTable table;
  const auto id = table.add(memory, nullptr);
  table.use(*id);
  EXPECT_DEATH(table.remove(*id), "while a call uses it");
  table.end_use(*id);
  table.remove(*id);
}

}  // namespace
}  // namespace rpcrdma::rpc
