#include "gss/sequence_numbers.h"

#include <gtest/gtest.h>

namespace rpcrdma::gss {
namespace {

// RFC 2203 §5.3.3.1: the server's window is all that a client may have under way.
TEST(SequenceNumbers, AsManyAreUnderWayAsTheWindowHas) {
  SequenceNumbers numbers(8);
  for (std::uint32_t each = 1; each <= 8; ++each) {
    ASSERT_TRUE(numbers.may_take());
    EXPECT_EQ(numbers.take(), each);
    numbers.sent(each);
  }
  EXPECT_FALSE(numbers.may_take());
  numbers.ended(5);
  ASSERT_TRUE(numbers.may_take());
  EXPECT_EQ(numbers.take(), 9U);
}

// The first one takes long to seal, and all others are sent and answered meanwhile.
TEST(SequenceNumbers, OneThatIsNotSentYetHoldsTheOthersBackAtHalfTheWindow) {
  SequenceNumbers numbers(8);
  const std::uint32_t slow = numbers.take();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(numbers.may_take());
    const std::uint32_t each = numbers.take();
    numbers.sent(each);
    numbers.ended(each);
  }
  EXPECT_FALSE(numbers.may_take());
  numbers.sent(slow);
  EXPECT_TRUE(numbers.may_take());
  EXPECT_EQ(numbers.under_way(), 1U);
}

TEST(SequenceNumbers, OneThatEndsWithoutHavingBeenSentHoldsNobodyBack) {
  SequenceNumbers numbers(2);
  const std::uint32_t first = numbers.take();
  EXPECT_FALSE(numbers.may_take());
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
TEST(SequenceNumbers, OfNoWindowAtAllGoOneByOne) {
  SequenceNumbers numbers(0);
  EXPECT_TRUE(numbers.may_take());
  (void)numbers.take();
  EXPECT_FALSE(numbers.may_take());
}

}  // namespace
}  // namespace rpcrdma::gss
