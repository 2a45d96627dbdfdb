// A char of C among the values of every.x.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "every.h"

namespace rpcrdma {
namespace {

// Returns the encoding of numbers whose last but one, a char, is encoded as this; the last one is
// an unsigned char.
std::vector<std::byte> numbers_with(std::int32_t encoded) {
  std::vector<std::byte> bytes = to_bytes(every::numbers{});
  for (unsigned i = 0; i < 4; ++i) {
    bytes[bytes.size() - 8 + i] =
        static_cast<std::byte>(static_cast<std::uint32_t>(encoded) >> (24 - 8 * i));
  }
  return bytes;
}

TEST(Chars, ComeFromMachinesWithASignAndWithoutOne) {
  for (int encoded = -128; encoded <= 255; ++encoded) {
    const auto numbers = from_bytes<every::numbers>(numbers_with(encoded));
    ASSERT_TRUE(numbers) << encoded;
    ASSERT_EQ(numbers->o, static_cast<std::int8_t>(encoded)) << encoded;
  }
}

TEST(Chars, AreRefusedOutsideOfBoth) {
  for (const std::int32_t encoded : {-129, 256, 65'535, -2'147'483'647 - 1, 2'147'483'647}) {
    const auto numbers = from_bytes<every::numbers>(numbers_with(encoded));
    ASSERT_FALSE(numbers) << encoded;
    EXPECT_EQ(numbers.error().code, xdr::Errc::kBadEnum);
  }
}

TEST(Chars, AreSentWithASign) {
  every::numbers numbers;
  numbers.o = -23;
  EXPECT_EQ(to_bytes(numbers), numbers_with(-23));
}

}  // namespace
}  // namespace rpcrdma
