#include "rpcrdma/callback.h"

#include <gtest/gtest.h>

#include <memory>

namespace rpcrdma {
namespace {

TEST(Callback, EmptyOneDoesNothing) {
  Callback<void(int)> callback;
  EXPECT_FALSE(callback);
  callback(1);
}

TEST(Callback, CallsWhatItHoldsAlsoAfterMoves) {
  int sum = 0;
  Callback<void(int)> callback([&sum](int value) { sum += value; });
  callback(1);
  Callback<void(int)> moved(std::move(callback));
  moved(2);
  callback = std::move(moved);
  callback(4);
  EXPECT_EQ(sum, 7);
}

TEST(Callback, DestroysWhatItHoldsOnce) {
  const auto count = std::make_shared<int>(0);
  {
    Callback<void()> callback([count] { ++*count; });
    EXPECT_EQ(count.use_count(), 2);
    Callback<void()> moved(std::move(callback));
    moved();
    EXPECT_EQ(count.use_count(), 2);
    moved = {};
    EXPECT_EQ(count.use_count(), 1);
  }
  EXPECT_EQ(*count, 1);
}

TEST(Callback, TakesMoveOnlyArguments) {
  int got = 0;
  Callback<void(std::unique_ptr<int>)> callback(
      [&got](std::unique_ptr<int> value) { got = *value; });
  callback(std::make_unique<int>(9));
  EXPECT_EQ(got, 9);
}

}  // namespace
}  // namespace rpcrdma
