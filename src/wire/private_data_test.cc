#include "wire/private_data.h"

#include <gtest/gtest.h>

#include "support/hex.h"

namespace rpcrdma::wire {
namespace {

std::vector<std::byte> encoded(const PrivateData& data) {
  const auto out = encode(data);
  return {out.begin(), out.end()};
}

TEST(PrivateData, EncodesFlagAndSizeCodes) {
  EXPECT_EQ(encoded({true, 4096, 4096}), test::hex("f6ab0e18 01010303"));
  EXPECT_EQ(encoded({false, 4096, 4096}), test::hex("f6ab0e18 01000303"));
  EXPECT_EQ(encoded({true, 262144, 1024}), test::hex("f6ab0e18 0101ff00"));
}

TEST(PrivateData, RoundsSizesDownAndKeepsThemInTheRangeOfTheCode) {
  EXPECT_EQ(encoded({false, 5000, 65536}), test::hex("f6ab0e18 0100033f"));
  EXPECT_EQ(encoded({false, 0, 1023}), test::hex("f6ab0e18 01000000"));
  EXPECT_EQ(encoded({false, 262145, 0xffffffff}), test::hex("f6ab0e18 0100ffff"));
}

TEST(PrivateData, EverySizeCodeComesBack) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    const PrivateData data{code % 2 == 0, (code + 1) * 1024, (256 - code) * 1024};
    EXPECT_EQ(find_private_data(encode(data)), data);
  }
}

TEST(PrivateData, IsFoundAtAnyByteOffsetAndWithOtherBytesBehind) {
  const PrivateData data{true, 4096, 8192};
  const auto structure = encode(data);
  for (std::size_t before = 0; before < 50; ++before) {
    std::vector<std::byte> field(before, std::byte{0xf6});
    field.insert(field.end(), structure.begin(), structure.end());
    field.insert(field.end(), 3, std::byte{0x55});
    EXPECT_EQ(find_private_data(field), data) << before;
  }
}

TEST(PrivateData, CutOffAnywhereIsAbsent) {
  const auto structure = encode({true, 4096, 4096});
  for (std::size_t size = 0; size < structure.size(); ++size) {
    EXPECT_EQ(find_private_data(Bytes(structure).first(size)), std::nullopt);
  }
}

TEST(PrivateData, OtherVersionsAreAbsentEvenWithVersionOneBehind) {
  EXPECT_EQ(find_private_data(test::hex("f6ab0e18 02010303")), std::nullopt);
  EXPECT_EQ(find_private_data(test::hex("f6ab0e18 00010303")), std::nullopt);
  EXPECT_EQ(find_private_data(test::hex("f6ab0e18 02010303 f6ab0e18 01010303")), std::nullopt);
}

TEST(PrivateData, FirstOfTwoStructuresWins) {
  const auto found = find_private_data(test::hex("f6ab0e18 01010303 f6ab0e18 01000000"));
  EXPECT_EQ(found, (PrivateData{true, 4096, 4096}));
}

TEST(PrivateData, ReservedFlagBitsAreIgnored) {
  EXPECT_EQ(find_private_data(test::hex("f6ab0e18 01fe0303")), (PrivateData{false, 4096, 4096}));
  EXPECT_EQ(find_private_data(test::hex("f6ab0e18 01ff0303")), (PrivateData{true, 4096, 4096}));
}

}  // namespace
}  // namespace rpcrdma::wire
