#include "rdma/verbs/read_budget.h"

#include <gtest/gtest.h>

#include <vector>

namespace rpcrdma::rdma::verbs {
namespace {

// 32 for each queue pair, and 64 in all: the third queue pair would be refused.
TEST(ReadBudgetTest, AllConnectionsOfASmallDeviceHaveReads) {
  ReadBudget budget(64);
  std::vector<ReadBudget::Share> shares;
  int sum = 0;
  while (shares.size() < 16) {
    shares.push_back(budget.take(32));
    EXPECT_GE(shares.back().reads(), 1);
    sum += shares.back().reads();
  }
  EXPECT_LE(sum, 64);
  EXPECT_EQ(shares[0].reads(), 8);
}

TEST(ReadBudgetTest, ConnectionsOfALargeDeviceHaveWhatTheyWish) {
  ReadBudget budget(1 << 20);
  std::vector<ReadBudget::Share> shares;
  for (int i = 0; i < 1000; ++i) {
    shares.push_back(budget.take(16));
    EXPECT_EQ(shares.back().reads(), 16);
  }
}

TEST(ReadBudgetTest, ShareIsGivenBackOnce) {
  ReadBudget budget(32);
  for (int i = 0; i < 100; ++i) {
    ReadBudget::Share share = budget.take(2);
    EXPECT_EQ(share.reads(), 2);
    ReadBudget::Share moved = std::move(share);
    EXPECT_EQ(moved.reads(), 2);
  }
  ReadBudget::Share held;
  for (int i = 0; i < 100; ++i) held = budget.take(2);
  EXPECT_EQ(held.reads(), 2) << "the one before went with its share";
}

// Other processes use the device too, so the device may have one more than this side counts.
TEST(ReadBudgetTest, OneIsTriedWhereNothingIsLeft) {
  ReadBudget budget(1);
  const ReadBudget::Share first = budget.take(4), second = budget.take(4);
  EXPECT_EQ(first.reads(), 1);
  EXPECT_EQ(second.reads(), 1);
}

TEST(ReadBudgetTest, NoWishTakesNothing) {
  ReadBudget budget(8);
  EXPECT_EQ(budget.take(0).reads(), 0);
}

TEST(ReadBudgetTest, DeviceThatSaysNothingHasEnough) {
  ReadBudget budget(0);
  EXPECT_EQ(budget.take(255).reads(), 255);
}

}  // namespace
}  // namespace rpcrdma::rdma::verbs
