#include "gss/sequence_numbers.h"

#include <gtest/gtest.h>

namespace rpcrdma::gss {
namespace {

// RFC 2203 §5.3.3.1: the server may see the oldest one last, and must still remember it.
TEST(SequenceNumbers, HalfTheWindowIsUnderWay) {
  SequenceNumbers numbers(8);
  for (std::uint32_t each = 1; each <= 4; ++each) {
    ASSERT_TRUE(numbers.may_take());
    EXPECT_EQ(numbers.take(), each);
  }
  EXPECT_FALSE(numbers.may_take());
  numbers.ended(3);
  EXPECT_FALSE(numbers.may_take()) << "the oldest one is as far behind as before";
  numbers.ended(1);
  ASSERT_TRUE(numbers.may_take());
  EXPECT_EQ(numbers.take(), 5U);
  EXPECT_FALSE(numbers.may_take());
}

// The first one waits at the server for memory, while all others are answered.
TEST(SequenceNumbers, OneWithoutAReplyHoldsTheOthersBackAtHalfTheWindow) {
  SequenceNumbers numbers(8);
  const std::uint32_t slow = numbers.take();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(numbers.may_take());
    numbers.ended(numbers.take());
  }
  EXPECT_FALSE(numbers.may_take());
  numbers.ended(slow);
  EXPECT_TRUE(numbers.may_take());
  EXPECT_EQ(numbers.under_way(), 0U);
}

TEST(SequenceNumbers, OneThatEndsTwiceEndsOnce) {
  SequenceNumbers numbers(4);
  const std::uint32_t first = numbers.take(), second = numbers.take();
  numbers.ended(second);
  numbers.ended(second);
  EXPECT_EQ(numbers.under_way(), 1U);
  numbers.ended(first);
  EXPECT_TRUE(numbers.may_take());
}

TEST(SequenceNumbers, AreUsedUpAtTheLast) {
  SequenceNumbers numbers(8, kSequenceMax - 1);
  EXPECT_FALSE(numbers.used_up());
  numbers.ended(numbers.take());
  EXPECT_TRUE(numbers.used_up());
  EXPECT_FALSE(numbers.may_take());
}

// A server that says 0 has one at the least.
TEST(SequenceNumbers, AreTakenOneByOneWhereTheServerHasNoWindow) {
  SequenceNumbers numbers(0);
  EXPECT_TRUE(numbers.may_take());
  (void)numbers.take();
  EXPECT_FALSE(numbers.may_take());
}

}  // namespace
}  // namespace rpcrdma::gss
