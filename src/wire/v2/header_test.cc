#include "wire/v2/header.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "support/hex.h"

namespace rpcrdma::wire::v2 {
namespace {

using test::hex;
using xdr::DecodeError;
using xdr::Errc;

const std::string kMsg = "11223344 00000002 00000020 00000000 ";
const std::string kError = "11223344 00000002 00000020 00000004 ";
const std::string kOption = "11223344 00000002 00000020 00000005 ";
const std::string kNoLists = "00000000 00000000 00000000 ";
constexpr Xid kXid{0x11223344};

DecodeError refusal(const std::string& text) {
  ChunkLists lists;
  const auto decoded = decode(hex(text), {}, lists);
  EXPECT_FALSE(decoded.has_value()) << text;
  EXPECT_TRUE(lists.empty()) << "lists of a refused message";
  return decoded ? DecodeError{} : decoded.error();
}

Header decoded_header(const std::vector<std::byte>& message) {
  ChunkLists lists;
  const auto decoded = decode(message, {}, lists);
  EXPECT_TRUE(decoded.has_value());
  return decoded ? decoded->header : Header{};
}

TEST(HeaderV2, PayloadOfAMsgIsWhatFollowsTheLists) {
  const auto message = hex(kMsg + "00000001 " + kNoLists + "aabbccdd");
  ChunkLists lists;
  const auto decoded = decode(message, Limits{}, lists);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->header, (Header{kXid, 2, 32, Msg{Direction::kReply}}));
  EXPECT_EQ(decoded->payload.data(), message.data() + kHeaderSizeMin);
  EXPECT_EQ(decoded->payload.size(), 4U);
}

TEST(HeaderV2, OtherVersionsAreRefusedExceptInAnErrVers) {
  EXPECT_EQ(refusal("11223344 00000001 00000020 00000000 00000000 " + kNoLists),
            (DecodeError{Errc::kBadEnum, 4, "rdma_vers"}));
  EXPECT_EQ(refusal("11223344 00000001 00000020 00000004 00000002").code, Errc::kBadEnum);
  for (const std::string version : {"00000001", "00000002", "00000007"}) {
    const auto message =
        hex("11223344 " + version + " 00000020 00000004 00000001 00000001 00000002");
    EXPECT_EQ(decoded_header(message).body, Body(ErrVers{1, 2})) << version;
  }
}

// 2 and 3 were RDMA_MSGP and RDMA_DONE.
TEST(HeaderV2, UnknownTypesAreRefused) {
  for (const std::string type : {"00000002", "00000003", "00000006", "ffffffff"}) {
    EXPECT_EQ(refusal("11223344 00000002 00000020 " + type + " 00000000 " + kNoLists),
              (DecodeError{Errc::kBadEnum, 12, "rdma_proc"}));
  }
}

TEST(HeaderV2, DirectionIsCallOrReply) {
  EXPECT_EQ(refusal(kMsg + "00000002 " + kNoLists),
            (DecodeError{Errc::kBadEnum, 16, "rdma_direction"}));
  EXPECT_EQ(refusal(kOption + "00000002 00000001 00000000"),
            (DecodeError{Errc::kBadEnum, 16, "rdma_optdir"}));
}

TEST(HeaderV2, UnknownErrorCodesAreRefused) {
  EXPECT_EQ(refusal(kError + "00000000"), (DecodeError{Errc::kBadEnum, 16, "rdma_err"}));
  EXPECT_EQ(refusal(kError + "00000004"), (DecodeError{Errc::kBadEnum, 16, "rdma_err"}));
}

TEST(HeaderV2, OptionsCarryTheirInformation) {
  const auto message = hex(kOption + "00000001 00000063 00000005 0102030405000000 ff");
  ChunkLists lists;
  const auto decoded = decode(message, {}, lists);
  ASSERT_TRUE(decoded.has_value());
  const auto info = hex("0102030405");
  EXPECT_EQ(decoded->header.body, Body(Optional{Direction::kReply, 0x63, info}));
  EXPECT_EQ(decoded->payload.size(), 1U);
}

TEST(HeaderV2, InformationBehindTheEndIsRefused) {
  EXPECT_EQ(refusal(kOption + "00000000 00000001 00000009 0102030405060708").code,
            Errc::kTruncated);
  EXPECT_EQ(refusal(kOption + "00000000 00000001 ffffffff").code, Errc::kTruncated);
}

TEST(HeaderV2, ShortWaySaysTheSame) {
  for (const Direction direction : {Direction::kCall, Direction::kReply}) {
    std::vector<std::byte> message(kHeaderSizeMin);
    encode_short(kXid, 32, direction, message);
    EXPECT_TRUE(is_short(message));
    EXPECT_EQ(decoded_header(message), (Header{kXid, 2, 32, Msg{direction}}));
    for (std::size_t word = 1; word < kHeaderSizeMin / 4; ++word) {
      if (word == 2) continue;  // credits may be anything
      auto other = message;
      other[4 * word] ^= std::byte{0x80};
      EXPECT_FALSE(is_short(other)) << "word " << word;
    }
    EXPECT_FALSE(is_short(Bytes(message).first(kHeaderSizeMin - 1)));
  }
}

Body random_body(SeededRandom& random, Bytes info) {
  const auto a = static_cast<std::uint32_t>(random.next());
  const auto direction = random.one_in(2) ? Direction::kCall : Direction::kReply;
  switch (random.below(6)) {
    case 0:
      return Msg{direction};
    case 1:
      return NoMsg{direction};
    case 2:
      return ErrVers{a, a + 1};
    case 3:
      return ErrBadHeader{};
    case 4:
      return ErrInvalOption{};
    default:
      return Optional{direction, a, info.first(random.below(info.size()))};
  }
}

TEST(HeaderV2, GeneratedHeadersComeBackAndNoStrictPrefixDoes) {
  SeededRandom random(24);
  const auto info = hex("000102030405060708090a0b0c0d0e0f");
  for (int round = 0; round < 400; ++round) {
    const Header header{Xid{static_cast<std::uint32_t>(random.next())}, kVersion,
                        static_cast<std::uint32_t>(random.next()), random_body(random, info)};
    ChunkLists lists;
    const bool has_lists =
        std::holds_alternative<Msg>(header.body) || std::holds_alternative<NoMsg>(header.body);
    if (has_lists) {
      for (std::uint64_t n = random.below(4); n > 0; --n) {
        ASSERT_TRUE(lists.reads.push_back({4, {SteeringTag{7}, 100, random.next()}}));
      }
      const Segment segment{SteeringTag{9}, 5, random.next()};
      if (random.one_in(2)) {
        ASSERT_TRUE(lists.writes.push_back({&segment, 1}));
      }
      lists.has_reply = random.one_in(2);
      if (lists.has_reply) {
        ASSERT_TRUE(lists.reply.push_back(segment));
      }
    }
    std::vector<std::byte> message(encoded_size(header, lists));
    ASSERT_EQ(encode(header, lists, message).value(), message.size());
    ChunkLists decoded_lists;
    const auto decoded = decode(message, {}, decoded_lists);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().field;
    ASSERT_EQ(decoded->header, header);
    ASSERT_EQ(decoded_lists, lists);
    ASSERT_TRUE(decoded->payload.empty());
    for (std::size_t cut = 0; cut < message.size(); ++cut) {
      const auto refused = decode(Bytes(message).first(cut), {}, decoded_lists);
      ASSERT_FALSE(refused.has_value()) << cut << " of " << message.size();
      ASSERT_EQ(refused.error().code, Errc::kTruncated);
    }
    ASSERT_EQ(encode(header, lists, MutableBytes(message).first(message.size() - 1)).error(),
              Errc::kTruncated);
  }
}

}  // namespace
}  // namespace rpcrdma::wire::v2
