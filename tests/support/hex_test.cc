#include "support/hex.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace rpcrdma::test {
namespace {

TEST(Hex, WhiteSpaceAndCommentsMeanNothing) {
  const std::vector<std::byte> expected{std::byte{0x11}, std::byte{0xAb}, std::byte{0}};
  EXPECT_EQ(hex("11aB00"), expected);
  EXPECT_EQ(hex(" 11 # first 99\n\tAB\n00 # end"), expected);
  EXPECT_TRUE(hex("# nothing").empty());
}

TEST(Hex, TypingErrorsAreRefused) {
  EXPECT_THROW(hex("1"), std::invalid_argument);
  EXPECT_THROW(hex("1 1"), std::invalid_argument);
  EXPECT_THROW(hex("zz"), std::invalid_argument);
}

TEST(Hex, MissingFileIsRefused) {
  EXPECT_THROW(load_hex("/nonexistent/vector.hex"), std::runtime_error);
}

TEST(Hex, PrintsWords) {
  EXPECT_EQ(to_hex(hex("11223344 aabb")), "11223344 aabb");
  EXPECT_EQ(to_hex({}), "");
}

}  // namespace
}  // namespace rpcrdma::test
