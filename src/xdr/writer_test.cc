#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "base/random.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::xdr {
namespace {

constexpr std::byte kUntouched{0xee};

TEST(Padding, RoundsUpToWords) {
  static_assert(padded(0) == 0 && padded(1) == 4 && padded(4) == 4 && padded(5) == 8);
  static_assert(padded(0xffffffffU) == 0x100000000U && padded(0xfffffffcU) == 0xfffffffcU);
  static_assert(pad_size(0) == 0 && pad_size(1) == 3 && pad_size(2) == 2 && pad_size(3) == 1);
}

TEST(Writer, WritesIntegersBigEndian) {
  std::array<std::byte, 28> output{};
  Writer writer(output);
  writer.u32(0x01020304);
  writer.i32(-2);
  writer.u64(0x0102030405060708);
  writer.i64(-1);
  writer.boolean(true);
  EXPECT_EQ(writer.finish().value(), 28U);
  EXPECT_EQ(output[0], std::byte{1});
  EXPECT_EQ(output[3], std::byte{4});
  EXPECT_EQ(output[7], std::byte{0xfe});
  EXPECT_EQ(output[8], std::byte{1});
  EXPECT_EQ(output[15], std::byte{8});
  EXPECT_EQ(output[16], std::byte{0xff});
  EXPECT_EQ(output[27], std::byte{1});
}

TEST(Writer, OpaqueZeroesItsFill) {
  std::array<std::byte, 12> output{};
  output.fill(kUntouched);
  const std::array<std::byte, 1> value{std::byte{0x55}};
  Writer writer(output);
  writer.opaque(value);
  EXPECT_EQ(writer.finish().value(), 8U);
  EXPECT_EQ(output[4], std::byte{0x55});
  for (std::size_t i = 5; i < 8; ++i) EXPECT_EQ(output[i], std::byte{0});
  for (std::size_t i = 8; i < 12; ++i) EXPECT_EQ(output[i], kUntouched);
}

TEST(Writer, WritesNoPartOfAnItemThatDoesNotFit) {
  std::array<std::byte, 11> output{};
  output.fill(kUntouched);
  const std::array<std::byte, 5> value{};
  Writer writer(output);
  writer.opaque(value);  // Would need 12.
  EXPECT_FALSE(writer.ok());
  EXPECT_EQ(writer.finish().error(), Errc::kTruncated);
  EXPECT_EQ(writer.position(), 0U);
  writer.u32(1);  // Would fit, but a failure sticks.
  EXPECT_EQ(writer.position(), 0U);
  for (auto byte : output) EXPECT_EQ(byte, kUntouched);
}

TEST(Writer, EmptyOpaqueAndEmptyStringAreOnlyACount) {
  std::array<std::byte, 8> output{};
  output.fill(kUntouched);
  Writer writer(output);
  writer.opaque({});
  writer.string("");
  EXPECT_EQ(writer.finish().value(), 8U);
}

TEST(Writer, HeaderAndPadAroundDataThatTravelsByReferenceGiveTheBytesOfOpaque) {
  for (std::uint32_t size = 0; size < 9; ++size) {
    const std::vector<std::byte> data(size, std::byte{7});
    std::array<std::byte, 16> whole{};
    Writer direct(whole);
    direct.opaque(data);
    std::array<std::byte, 8> around{};
    Writer by_reference(around);
    by_reference.opaque_header(size);
    by_reference.pad_for(size);
    ASSERT_EQ(by_reference.finish().value() + size, direct.finish().value());
    std::vector<std::byte> joined;
    for (std::size_t i = 0; i < 4; ++i) joined.push_back(around[i]);
    for (const std::byte byte : data) joined.push_back(byte);
    for (std::size_t i = 4; i < by_reference.position(); ++i) joined.push_back(around[i]);
    EXPECT_EQ(joined,
              std::vector<std::byte>(
                  whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(direct.position())));
  }
}

struct Values {
  std::uint32_t a;
  std::uint64_t b;
  bool c;
  std::vector<std::byte> d;
  std::string e;
  std::vector<std::byte> f;  // fixed size
  std::int64_t g;
};

std::vector<std::byte> random_bytes(SeededRandom& random, std::size_t size) {
  std::vector<std::byte> out(size);
  for (auto& value : out) value = static_cast<std::byte>(random.next());
  return out;
}

void write(Writer& writer, const Values& v) {
  writer.u32(v.a);
  writer.u64(v.b);
  writer.boolean(v.c);
  writer.opaque(v.d);
  writer.string(v.e);
  writer.opaque_fixed(v.f);
  writer.i64(v.g);
}

bool reads_back(Bytes input, const Values& v) {
  Reader reader(input);
  const bool integers =
      reader.u32("a") == v.a && reader.u64("b") == v.b && reader.boolean("c") == v.c;
  const Bytes d = reader.opaque(64, "d");
  const bool e = reader.string(64, "e") == v.e;
  const Bytes f = reader.opaque_fixed(static_cast<std::uint32_t>(v.f.size()), "f");
  const bool g = reader.i64("g") == v.g;
  return reader.finish_all(0).has_value() && integers && e && g &&
         std::vector<std::byte>(d.begin(), d.end()) == v.d &&
         std::vector<std::byte>(f.begin(), f.end()) == v.f;
}

TEST(XdrProperty, WrittenItemsReadBackAndNoStrictPrefixDoes) {
  SeededRandom random(21);
  for (int round = 0; round < 500; ++round) {
    const Values values{static_cast<std::uint32_t>(random.next()),
                        random.next(),
                        random.one_in(2),
                        random_bytes(random, random.below(20)),
                        std::string(random.below(20), 'x'),
                        random_bytes(random, random.below(20)),
                        static_cast<std::int64_t>(random.next())};
    std::array<std::byte, 128> output{};
    Writer writer(output);
    write(writer, values);
    const std::size_t size = writer.finish().value();
    ASSERT_TRUE(reads_back(Bytes(output).first(size), values));
    for (std::size_t cut = 0; cut < size; ++cut) {
      ASSERT_FALSE(reads_back(Bytes(output).first(cut), values));
      Writer small(MutableBytes(output).first(cut));
      write(small, values);
      ASSERT_FALSE(small.finish().has_value());
    }
  }
}

}  // namespace
}  // namespace rpcrdma::xdr
