#include "base/newest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rpcrdma {
namespace {

TEST(Newest, KeepsTheNewestOfMany) {
  Newest<int> values(3);
  EXPECT_TRUE(values.all().empty());
  for (int value = 1; value <= 7; ++value) values.note(value);
  std::vector<int> kept(values.all().begin(), values.all().end());
  std::ranges::sort(kept);
  EXPECT_EQ(kept, (std::vector<int>{5, 6, 7}));
}

TEST(Newest, FindsTheNewestFirst) {
  Newest<int> values(3);
  const auto is_any = [](int /*value*/) { return true; };
  EXPECT_EQ(values.find(is_any), nullptr);
  for (int value = 1; value <= 5; ++value) {
    values.note(value);
    ASSERT_NE(values.find(is_any), nullptr);
    EXPECT_EQ(*values.find(is_any), value);
  }
  EXPECT_EQ(*values.find([](int value) { return value < 5; }), 4);
  EXPECT_EQ(values.find([](int value) { return value < 3; }), nullptr);
}

}  // namespace
}  // namespace rpcrdma
