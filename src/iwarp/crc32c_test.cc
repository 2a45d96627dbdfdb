#include "iwarp/crc32c.h"

#include <gtest/gtest.h>

#include "iwarp/stream_pair_for_test.h"

namespace rpcrdma::iwarp {
namespace {

std::uint32_t sum(Bytes bytes) {
  Crc32c crc;
  crc.add(bytes);
  return crc.value();
}

TEST(Crc32c, HasTheCheckValueOfTheCatalogue) {
  EXPECT_EQ(sum(test::text("123456789")), 0xe3069283U);
  EXPECT_EQ(sum({}), 0U);
}

TEST(Crc32c, IsSentLeastSignificantByteFirst) {
  const test::Buffer zeros(32);
  EXPECT_EQ(sum(zeros), 0x8a9136aaU);
  std::array<std::byte, 4> wire{};
  store_crc(wire.data(), sum(zeros));
  EXPECT_EQ(wire, (std::array{std::byte{0xaa}, std::byte{0x36}, std::byte{0x91}, std::byte{0x8a}}));
  EXPECT_EQ(load_crc(wire.data()), 0x8a9136aaU);
}

TEST(Crc32c, AllWaysAgreeAtAllSizesAndAlignments) {
  SeededRandom random(1);
  const test::Buffer bytes = test::random_bytes(random, 1200);
  for (std::size_t size = 0; size < 1100; size += size < 80 ? 1 : 37) {
    for (std::size_t offset = 0; offset < 9; ++offset) {
      const Bytes part = Bytes(bytes).subspan(offset, size);
      const std::uint32_t expected = crc32c_table(0x12345678U, part);
      ASSERT_EQ(crc32c_sliced(0x12345678U, part), expected) << size << "@" << offset;
      ASSERT_EQ(crc32c_isal(0x12345678U, part), expected) << size << "@" << offset;
      if (has_crc_instruction()) {
        ASSERT_EQ(crc32c_instruction(0x12345678U, part), expected) << size << "@" << offset;
      }
    }
  }
}

TEST(Crc32c, PiecesGiveTheSameAsTheWhole) {
  SeededRandom random(2);
  const test::Buffer bytes = test::random_bytes(random, 5000);
  for (int round = 0; round < 50; ++round) {
    Crc32c crc;
    Bytes left = bytes;
    while (!left.empty()) {
      const std::size_t size = std::min<std::size_t>(left.size(), random.below(900));
      crc.add(left.first(size));
      left = left.subspan(size);
    }
    ASSERT_EQ(crc.value(), sum(bytes));
  }
}

}  // namespace
}  // namespace rpcrdma::iwarp
