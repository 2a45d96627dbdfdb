#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/random.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::xdr {
namespace {

std::vector<std::byte> bytes(std::initializer_list<unsigned> values) {
  std::vector<std::byte> out;
  for (unsigned value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

TEST(Reader, ReadsIntegersBigEndian) {
  const auto input = bytes({0x80, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 1,    2,    3,    4,
                            5,    6, 7, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff});
  Reader reader(input);
  EXPECT_EQ(reader.u32("a"), 0x80000001U);
  EXPECT_EQ(reader.i32("b"), -2);
  EXPECT_EQ(reader.u64("c"), 0x0102030405060708U);
  EXPECT_EQ(reader.i64("d"), -1);
  EXPECT_EQ(reader.position(), 24U);
  EXPECT_TRUE(reader.finish_all(0).has_value());
}

TEST(Reader, EmptyInputIsTruncatedAtTheFirstRead) {
  Reader reader(Bytes{});
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.u32("word"), 0U);
  EXPECT_EQ(reader.error(), (DecodeError{Errc::kTruncated, 0, "word"}));
}

TEST(Reader, EmptyOpaqueOfAnEmptyInputIsFine) {
  Reader reader(Bytes{});
  EXPECT_TRUE(reader.opaque_fixed(0, "nothing").empty());
  EXPECT_TRUE(reader.ok());
}

TEST(Reader, FirstFailureSticksAndEveryLaterReadGivesNothing) {
  const auto input = bytes({0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 7});
  Reader reader(input);
  EXPECT_FALSE(reader.boolean("flag"));
  const DecodeError first{Errc::kBadBool, 0, "flag"};
  EXPECT_EQ(reader.error(), first);
  EXPECT_EQ(reader.u32("x"), 0U);
  EXPECT_EQ(reader.u64("x"), 0U);
  EXPECT_FALSE(reader.boolean("x"));
  EXPECT_TRUE(reader.opaque(8, "x").empty());
  EXPECT_TRUE(reader.opaque_fixed(4, "x").empty());
  EXPECT_TRUE(reader.string(8, "x").empty());
  EXPECT_TRUE(reader.rest().empty());
  reader.fail(Errc::kBadEnum, "later");
  EXPECT_EQ(reader.error(), first);
  EXPECT_EQ(reader.finish(1).error(), first);
  EXPECT_EQ(reader.finish_all(1).error(), first);
}

TEST(Reader, CallerCanRefuseAValueAndTheErrorNamesItsPlace) {
  const auto input = bytes({0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0});
  Reader reader(input);
  reader.u32("first");
  reader.u32("kind");
  reader.fail(Errc::kBadEnum, "kind");
  EXPECT_EQ(reader.error(), (DecodeError{Errc::kBadEnum, 4, "kind"}));
}

TEST(Reader, BooleanKnowsOnlyZeroAndOne) {
  const auto input = bytes({0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0});
  Reader reader(input);
  EXPECT_FALSE(reader.boolean("no"));
  EXPECT_TRUE(reader.boolean("yes"));
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(reader.boolean("neither"));
  EXPECT_EQ(reader.error(), (DecodeError{Errc::kBadBool, 8, "neither"}));
}

TEST(Reader, OpaqueIsAViewIntoTheInputWithoutItsFill) {
  const auto input = bytes({0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, 0xaa, 0xbb});
  Reader reader(input);
  const Bytes data = reader.opaque(5, "data");
  EXPECT_EQ(data.data(), input.data() + 4);
  EXPECT_EQ(data.size(), 5U);
  EXPECT_EQ(reader.position(), 12U);
  EXPECT_EQ(reader.rest().size(), 2U);
}

TEST(Reader, OpaqueOverItsLimitIsRefusedBeforeItsBytesAreLookedFor) {
  const auto input = bytes({0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4});
  Reader limited(input);
  EXPECT_TRUE(limited.opaque(400, "body").empty());
  EXPECT_EQ(limited.error(), (DecodeError{Errc::kOverLimit, 0, "body"}));
  Reader unlimited(input);
  EXPECT_TRUE(unlimited.opaque(0xffffffffU, "body").empty());
  EXPECT_EQ(unlimited.error(), (DecodeError{Errc::kTruncated, 0, "body"}));
}

TEST(Reader, IgnoresTheContentOfFillBytes) {
  const auto input = bytes({0, 0, 0, 1, 0x55, 1, 2, 3, 0, 0, 0, 7});
  Reader reader(input);
  const Bytes body = reader.opaque(8, "body");
  ASSERT_EQ(body.size(), 1U);
  EXPECT_EQ(body[0], std::byte{0x55});
  EXPECT_EQ(reader.u32("behind"), 7U);
  EXPECT_TRUE(reader.ok());
}

TEST(Reader, OpaqueWhoseFillIsCutOffIsTruncated) {
  const auto input = bytes({0, 0, 0, 1, 0x55, 0, 0});
  Reader reader(input);
  EXPECT_TRUE(reader.opaque(8, "body").empty());
  EXPECT_EQ(reader.error().code, Errc::kTruncated);
}

TEST(Reader, StringIsTheTextWithoutItsFill) {
  const auto input = bytes({0, 0, 0, 3, 'n', 'f', 's', 0});
  Reader reader(input);
  EXPECT_EQ(reader.string(3, "name"), "nfs");
  EXPECT_TRUE(reader.finish_all(0).has_value());
  Reader short_limit(input);
  EXPECT_EQ(short_limit.string(2, "name"), "");
  EXPECT_EQ(short_limit.error().code, Errc::kOverLimit);
}

TEST(Reader, FinishAllRefusesWhatIsLeftOver) {
  const auto input = bytes({0, 0, 0, 1, 9});
  Reader reader(input);
  reader.u32("word");
  EXPECT_EQ(reader.finish(7).value(), 7);
  const auto refused = reader.finish_all(7);
  EXPECT_EQ(refused.error().code, Errc::kTrailing);
  EXPECT_EQ(refused.error().offset, 4U);
}

TEST(Reader, ErrorsHaveText) {
  EXPECT_EQ(to_string(Errc::kTruncated), "truncated");
  EXPECT_EQ(to_string(Errc::kTrailing), "bytes behind the end");
}

// Any sequence of reads over any bytes stays inside the input and ends in a consistent state.
TEST(ReaderProperty, RandomReadsOverRandomBytesNeverLeaveTheInput) {
  SeededRandom random(20);
  std::array<std::byte, 64> input{};
  for (int round = 0; round < 20000; ++round) {
    for (auto& value : input) {
      value = static_cast<std::byte>(random.one_in(3) ? random.next() : random.below(3));
    }
    const std::size_t size = random.below(input.size() + 1);
    Reader reader(Bytes(input).first(size));
    for (int i = 0; i < 12; ++i) {
      const std::size_t before = reader.position();
      const bool was_ok = reader.ok();
      switch (random.below(5)) {
        case 0:
          reader.u32("f");
          break;
        case 1:
          reader.u64("f");
          break;
        case 2:
          reader.boolean("f");
          break;
        case 3:
          reader.opaque(static_cast<std::uint32_t>(random.below(16)), "f");
          break;
        default:
          reader.opaque_fixed(static_cast<std::uint32_t>(random.below(16)), "f");
          break;
      }
      ASSERT_LE(reader.position(), size);
      ASSERT_GE(reader.position(), before);
      ASSERT_TRUE(was_ok || reader.position() == before);
      ASSERT_TRUE(reader.ok() || reader.error().offset <= reader.position());
    }
  }
}

}  // namespace
}  // namespace rpcrdma::xdr
