#include "wire/v1/header.h"

#include <gtest/gtest.h>

#include <string>

#include "support/hex.h"

namespace rpcrdma::wire::v1 {
namespace {

using test::hex;
using xdr::DecodeError;
using xdr::Errc;

DecodeError refusal(const std::string& text, const Limits& limits = {}) {
  ChunkLists lists;
  const auto decoded = decode(hex(text), limits, lists);
  EXPECT_FALSE(decoded.has_value()) << text;
  EXPECT_TRUE(lists.empty()) << "lists of a refused message";
  return decoded ? DecodeError{} : decoded.error();
}

const std::string kMsg = "11223344 00000001 00000020 00000000 ";
const std::string kError = "11223344 00000001 00000020 00000004 ";
const std::string kSegment = "00000007 00000100 0000000000001000 ";

TEST(HeaderV1, PayloadOfAMsgIsWhatFollowsTheLists) {
  const auto message = hex(kMsg + "00000000 00000000 00000000 aabbccdd");
  ChunkLists lists;
  const auto decoded = decode(message, Limits{}, lists);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->header, (Header{Xid{0x11223344}, 1, 32, Msg{}}));
  EXPECT_EQ(decoded->payload.data(), message.data() + 28);
  EXPECT_EQ(decoded->payload.size(), 4U);
}

TEST(HeaderV1, OtherVersionsAreRefusedExceptInAnError) {
  EXPECT_EQ(refusal("11223344 00000002 00000020 00000000 00000000 00000000 00000000"),
            (DecodeError{Errc::kBadEnum, 4, "rdma_vers"}));
  ChunkLists lists;
  const auto decoded = decode(hex("11223344 00000009 00000020 00000004 00000002"), {}, lists);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->header, (Header{Xid{0x11223344}, 9, 32, ErrChunk{}}));
}

TEST(HeaderV1, UnknownTypesAreRefused) {
  EXPECT_EQ(refusal("11223344 00000001 00000020 00000005 00000000 00000000 00000000"),
            (DecodeError{Errc::kBadEnum, 12, "rdma_proc"}));
  EXPECT_EQ(refusal("11223344 00000001 00000020 ffffffff").code, Errc::kBadEnum);
}

TEST(HeaderV1, UnknownErrorCodesAreRefused) {
  EXPECT_EQ(refusal(kError + "00000000"), (DecodeError{Errc::kBadEnum, 16, "rdma_err"}));
  EXPECT_EQ(refusal(kError + "00000003"), (DecodeError{Errc::kBadEnum, 16, "rdma_err"}));
}

TEST(HeaderV1, BytesBehindAnErrChunkAreLeftInThePayload) {
  ChunkLists lists;
  const auto decoded = decode(hex(kError + "00000002 00000000 00000001"), {}, lists);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->header.body, Body{ErrChunk{}});
  EXPECT_EQ(decoded->payload.size(), 8U);
}

TEST(HeaderV1, ListDiscriminatorsOtherThanZeroAndOneAreRefused) {
  EXPECT_EQ(refusal(kMsg + "00000002 00000000 00000000"),
            (DecodeError{Errc::kBadBool, 16, "read list"}));
  EXPECT_EQ(refusal(kMsg + "00000000 80000001 00000000"),
            (DecodeError{Errc::kBadBool, 20, "write list"}));
  EXPECT_EQ(refusal(kMsg + "00000000 00000000 ffffffff"),
            (DecodeError{Errc::kBadBool, 24, "reply chunk"}));
}

TEST(HeaderV1, OneReadSegmentOverTheLimitIsRefused) {
  const std::string entry = "00000001 00000000 " + kSegment;
  Limits limits;
  limits.read_segments = 2;
  const std::string end = "00000000 00000000 00000000";
  ChunkLists lists;
  EXPECT_TRUE(decode(hex(kMsg + entry + entry + end), limits, lists).has_value());
  EXPECT_EQ(lists.reads.size(), 2U);
  EXPECT_EQ(refusal(kMsg + entry + entry + entry + end, limits).code, Errc::kOverLimit);
}

TEST(HeaderV1, OneWriteChunkOverTheLimitIsRefused) {
  const std::string chunk = "00000001 00000001 " + kSegment;
  Limits limits;
  limits.write_chunks = 1;
  ChunkLists lists;
  EXPECT_TRUE(decode(hex(kMsg + "00000000 " + chunk + "00000000 00000000"), limits, lists));
  EXPECT_EQ(lists.writes.size(), 1U);
  const auto error = refusal(kMsg + "00000000 " + chunk + chunk + "00000000 00000000", limits);
  EXPECT_EQ(error.code, Errc::kOverLimit);
  EXPECT_EQ(error.field, "write list");
}

TEST(HeaderV1, OneSegmentOverTheLimitOfAChunkIsRefused) {
  Limits limits;
  limits.segments_per_chunk = 1;
  const std::string two = "00000002 " + kSegment + kSegment;
  EXPECT_EQ(refusal(kMsg + "00000000 00000001 " + two + "00000000 00000000", limits),
            (DecodeError{Errc::kOverLimit, 24, "segment count"}));
  EXPECT_EQ(refusal(kMsg + "00000000 00000000 00000001 " + two, limits),
            (DecodeError{Errc::kOverLimit, 28, "segment count"}));
}

TEST(HeaderV1, HugeSegmentCountsAreRefusedBeforeAnySegmentIsRead) {
  EXPECT_EQ(refusal(kMsg + "00000000 00000000 00000001 ffffffff"),
            (DecodeError{Errc::kOverLimit, 28, "segment count"}));
}

TEST(HeaderV1, LimitsAboveTheCapacityOfTheListsAreCutToIt) {
  const Limits limits{0xffffffff, 0xffffffff, 0xffffffff};
  std::string reads;
  for (std::size_t i = 0; i < kReadSegmentsMax; ++i) reads += "00000001 00000000 " + kSegment;
  const std::string end = "00000000 00000000 00000000";
  ChunkLists lists;
  EXPECT_TRUE(decode(hex(kMsg + reads + end), limits, lists).has_value());
  EXPECT_EQ(refusal(kMsg + reads + "00000001 00000000 " + kSegment + end, limits).code,
            Errc::kOverLimit);
  std::string chunks;
  for (std::size_t i = 0; i < kWriteChunksMax; ++i) chunks += "00000001 00000000 ";
  EXPECT_TRUE(decode(hex(kMsg + "00000000 " + chunks + "00000000 00000000"), limits, lists));
  EXPECT_EQ(
      refusal(kMsg + "00000000 " + chunks + "00000001 00000000 00000000 00000000", limits).code,
      Errc::kOverLimit);
  std::string segments;
  for (std::size_t i = 0; i <= kSegmentsPerChunkMax; ++i) segments += kSegment;
  EXPECT_EQ(refusal(kMsg + "00000000 00000000 00000001 00000011 " + segments, limits).code,
            Errc::kOverLimit);
}

TEST(HeaderV1, ListsOfTheMessageBeforeAreForgotten) {
  ChunkLists lists;
  lists.has_reply = true;
  ASSERT_TRUE(lists.reads.push_back({}));
  ASSERT_TRUE(decode(hex("11223344 00000001 00000020 00000003"), {}, lists).has_value());
  EXPECT_TRUE(lists.empty());
}

TEST(HeaderV1, EncodingIntoTooLittleRoomIsTruncated) {
  const Header header{Xid{1}, 1, 1, Msg{}};
  std::array<std::byte, kHeaderSizeMin> output{};
  for (std::size_t size = 0; size < output.size(); ++size) {
    const auto encoded = encode(header, {}, MutableBytes(output).first(size));
    EXPECT_EQ(encoded.error(), Errc::kTruncated);
  }
  EXPECT_EQ(encode(header, {}, output).value(), kHeaderSizeMin);
}

TEST(HeaderV1, ListsAreIgnoredForBodiesWithoutThem) {
  ChunkLists lists;
  lists.has_reply = true;
  const Header done{Xid{1}, 1, 1, Done{}};
  const Header refused{Xid{1}, 1, 1, ErrChunk{}};
  const Header version{Xid{1}, 7, 1, ErrVers{1, 1}};
  EXPECT_EQ(encoded_size(done, lists), 16U);
  EXPECT_EQ(encoded_size(refused, lists), 20U);
  EXPECT_EQ(encoded_size(version, lists), 28U);
}

// The way past decode() and encode() is taken for exactly what they would say the same about.
TEST(HeaderV1, ShortMessagesAreThoseThatDecodeToAMsgWithoutChunks) {
  const Header header{Xid{0x01020304}, 1, 77, Msg{}};
  std::array<std::byte, kHeaderSizeMin + 4> message{};
  ASSERT_EQ(encode(header, {}, message).value(), kHeaderSizeMin);
  std::array<std::byte, kHeaderSizeMin + 4> other{};
  encode_short(Xid{0x01020304}, 77, other);
  EXPECT_EQ(other, message);
  ChunkLists lists;
  for (std::size_t size = 0; size <= message.size(); ++size) {
    const Bytes part = Bytes(message).first(size);
    EXPECT_EQ(is_short(part), decode(part, {}, lists).has_value()) << size;
  }
  for (std::size_t bit = 0; bit < 8 * kHeaderSizeMin; ++bit) {
    auto changed = message;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto decoded = decode(changed, {}, lists);
    const bool is_it = decoded && std::holds_alternative<Msg>(decoded->header.body) &&
                       decoded->header.version == kVersion && lists.empty();
    EXPECT_EQ(is_short(changed), is_it) << "bit " << bit;
  }
}

}  // namespace
}  // namespace rpcrdma::wire::v1
