#include "rpc/serve/long_receives.h"

#include <gtest/gtest.h>

namespace rpcrdma::rpc {
namespace {

TEST(LongReceives, AreOfAsManyConnectionsAsTheMemoryIsEnoughFor) {
  LongReceives receives(399, 100);
  EXPECT_TRUE(receives.take("10.0.0.1:1"));
  EXPECT_TRUE(receives.take("10.0.0.2:1"));
  EXPECT_TRUE(receives.take("10.0.0.3:1"));
  EXPECT_FALSE(receives.take("10.0.0.4:1"));
  receives.give_back("10.0.0.2:1");
  EXPECT_TRUE(receives.take("10.0.0.4:1"));
  EXPECT_FALSE(receives.take("10.0.0.5:1"));
}

TEST(LongReceives, AreNotTakenByOneHostAlone) {
  LongReceives receives(1200, 100);
  std::size_t first = 0, second = 0;
  while (first < 12 && receives.take("10.0.0.1:1")) ++first;
  EXPECT_EQ(first, 6U) << "half of them";
  while (second < 12 && receives.take("10.0.0.2:1")) ++second;
  EXPECT_EQ(second, 3U) << "half of what is left";
  EXPECT_FALSE(receives.take("10.0.0.1:2"));
  EXPECT_TRUE(receives.take("10.0.0.3:1"));
  for (std::size_t i = 0; i < first; ++i) receives.give_back("10.0.0.1:1");
  EXPECT_TRUE(receives.take("10.0.0.2:9")) << "the first host has left";
}

TEST(LongReceives, AreNoConnectionsWhereThereIsNoMemoryForThem) {
  EXPECT_FALSE(LongReceives(99, 100).take("10.0.0.1:1"));
  EXPECT_FALSE(LongReceives(1000, 0).take("10.0.0.1:1")) << "none are wanted";
}

}  // namespace
}  // namespace rpcrdma::rpc
