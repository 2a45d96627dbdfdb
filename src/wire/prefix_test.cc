#include "wire/prefix.h"

#include <gtest/gtest.h>

#include "support/hex.h"

namespace rpcrdma::wire {
namespace {

TEST(Prefix, ReadsTheFourWordsOfAnyVersionAndTypeWithoutJudgingThem) {
  const auto message = test::hex("11223344 00000002 00000020 00000063 ffff");
  const auto prefix = peek(message);
  ASSERT_TRUE(prefix.has_value());
  EXPECT_EQ(*prefix, (Prefix{Xid{0x11223344}, 2, 32, 99}));
}

TEST(Prefix, NeedsSixteenBytes) {
  const auto message = test::hex("11223344 00000001 00000020 00000000");
  for (std::size_t size = 0; size < kPrefixSize; ++size) {
    EXPECT_EQ(peek(Bytes(message).first(size)).error().code, xdr::Errc::kTruncated) << size;
  }
}

}  // namespace
}  // namespace rpcrdma::wire
