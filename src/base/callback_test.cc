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

TEST(Callback, MovesALambdaOfTheLargestSizeWhole) {
  int sums[8] = {};
  int &a = sums[0], &b = sums[1], &c = sums[2], &d = sums[3], &e = sums[4], &f = sums[5],
      &g = sums[6], &h = sums[7];
  const auto add = [&a, &b, &c, &d, &e, &f, &g, &h](int value) {
    for (int* sum : {&a, &b, &c, &d, &e, &f, &g, &h}) *sum += value++;
  };
  static_assert(sizeof(add) == Callback<void(int)>::kSizeMax);
  Callback<void(int)> callback(add);
  Callback<void(int)> moved(std::move(callback));
  EXPECT_FALSE(callback);
  moved(1);
  const auto count = std::make_shared<int>(0);
  Callback<void(int)> other([count](int) { ++*count; });
  other = std::move(moved);  // ends the one that it held
  EXPECT_EQ(count.use_count(), 1);
  other(10);
  moved = std::move(other);
  moved(100);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(sums[i], 111 + 3 * i);
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
