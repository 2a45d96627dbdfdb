#include "gss/sequence_numbers.h"

#include <gtest/gtest.h>

namespace rpcrdma::gss {
namespace {

// RFC 2203 §5.3.3.1: the server's window is all that a client may have under way.
TEST(SequenceNumbers, AsManyAreUnderWayAsTheWindowHas) {
  SequenceNumbers numbers(8);
  for (std::uint32_t each = 1; each <= 8; ++each) {
    ASSERT_TRUE(numbers.may_take());
    EXPECT_EQ(numbers.take(false), each);
  }
  EXPECT_FALSE(numbers.may_take());
  numbers.ended(5);
  ASSERT_TRUE(numbers.may_take());
  EXPECT_EQ(numbers.take(false), 9U);
}

// It waits at the server, which has not seen its number, while all others are answered.
TEST(SequenceNumbers, LongCallWithoutAReplyHoldsTheOthersBackAtHalfTheWindow) {
  SequenceNumbers numbers(8);
  const std::uint32_t slow = numbers.take(true);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(numbers.may_take());
    numbers.ended(numbers.take(i == 1));
  }
  EXPECT_FALSE(numbers.may_take());
  numbers.ended(slow);
  EXPECT_TRUE(numbers.may_take());
  EXPECT_EQ(numbers.under_way(), 0U);
}

// The server has judged it when it came, and may be executing it for as long as it likes.
TEST(SequenceNumbers, ShortCallWithoutAReplyHoldsNobodyBack) {
  SequenceNumbers numbers(8);
  (void)numbers.take(false);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(numbers.may_take());
    numbers.ended(numbers.take(true));
  }
}

TEST(SequenceNumbers, AreUsedUpAtTheLast) {
  SequenceNumbers numbers(8, kSequenceMax - 1);
  EXPECT_FALSE(numbers.used_up());
  numbers.ended(numbers.take(false));
  EXPECT_TRUE(numbers.used_up());
  EXPECT_FALSE(numbers.may_take());
}

// RFC 2203 leaves its size to the server.
TEST(SequenceNumbers, AreTakenBesideALongCallHoweverLargeTheWindowIs) {
  for (const std::uint32_t window : {0xfffffffeU, 0xffffffffU}) {
    SequenceNumbers numbers(window);
    (void)numbers.take(true);
    EXPECT_TRUE(numbers.may_take()) << window;
  }
}

// A server that says 0 has one at the least.
TEST(SequenceNumbers, AreTakenOneByOneWhereTheServerHasNoWindow) {
  SequenceNumbers numbers(0);
  EXPECT_TRUE(numbers.may_take());
  (void)numbers.take(false);
  EXPECT_FALSE(numbers.may_take());
}

}  // namespace
}  // namespace rpcrdma::gss
