#include "mount/name_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace mounts {
namespace {

constexpr NodeId kDirectory{2}, kOther{3}, kFile{4};

TEST(NameCacheTest, NamesHoldForAVersionOfTheirDirectory) {
  NameCache cache(10);
  cache.note(kDirectory, "a", kFile, 1);
  cache.note(kDirectory, "none", kNoNode, 1);
  EXPECT_EQ(cache.find(kDirectory, "a", 1), kFile);
  EXPECT_EQ(cache.find(kDirectory, "none", 1), kNoNode);
  EXPECT_EQ(cache.find(kOther, "a", 1), std::nullopt);
  EXPECT_EQ(cache.find(kDirectory, "a", 2), std::nullopt);
  EXPECT_EQ(cache.find(kDirectory, "a", 1), std::nullopt);  // it is gone for good
  cache.drop(kDirectory, "none");
  EXPECT_EQ(cache.size(), 0U);
}

TEST(NameCacheTest, NameThatNobodyHasAskedForTheLongestGoesFirst) {
  NameCache cache(3);
  for (const char* const each : {"a", "b", "c"}) cache.note(kDirectory, each, kFile, 1);
  EXPECT_TRUE(cache.find(kDirectory, "a", 1));
  cache.note(kOther, "d", kFile, 1);
  EXPECT_TRUE(cache.find(kDirectory, "a", 1));
  EXPECT_FALSE(cache.find(kDirectory, "b", 1));
}

TEST(NameCacheTest, ManyDirectoriesHaveNoMoreNamesThanOne) {
  NameCache cache(100);
  for (unsigned i = 0; i < 10'000; ++i) {
    cache.note(NodeId{i}, "name" + std::to_string(i % 7), kFile, i);
  }
  EXPECT_EQ(cache.size(), 100U);
}

}  // namespace
}  // namespace mounts
