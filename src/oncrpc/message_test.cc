#include "oncrpc/message.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "support/hex.h"

namespace rpcrdma::oncrpc {
namespace {

using test::hex;
using xdr::Errc;

constexpr Xid kXid{0x11223344};
constexpr Procedure kNull{100003, 3, 0};

std::vector<std::byte> encoded(const CallHeader& header) {
  std::vector<std::byte> out(kCallHeaderSizeMax);
  xdr::Writer writer(out);
  encode_call(header, writer);
  out.resize(writer.finish().value());
  return out;
}
std::vector<std::byte> encoded(const ReplyHeader& header) {
  std::vector<std::byte> out(kReplyHeaderSizeMax);
  xdr::Writer writer(out);
  encode_reply(header, writer);
  out.resize(writer.finish().value());
  return out;
}

Expected<CallHeader, BadCall> decoded_call(Bytes message) {
  xdr::Reader reader(message);
  return decode_call(reader);
}
Expected<ReplyHeader, xdr::DecodeError> decoded_reply(Bytes message) {
  xdr::Reader reader(message);
  return decode_reply(reader);
}

const std::string kCallStart = "11223344 00000000 00000002 000186a3 00000003 00000000 ";

TEST(CallHeader, SmallestCallIsFortyBytes) {
  const CallHeader header{kXid, kNull, {}, {}};
  EXPECT_EQ(encoded(header), hex(kCallStart + "00000000 00000000 00000000 00000000"));
  EXPECT_EQ(encoded(header).size(), kCallHeaderSizeMin);
}

TEST(CallHeader, DecodingLeavesTheReaderAtTheArguments) {
  const auto message = hex(kCallStart + "00000000 00000000 00000000 00000000 aabbccdd");
  xdr::Reader reader(message);
  const auto header = decode_call(reader);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(*header, (CallHeader{kXid, kNull, {}, {}}));
  EXPECT_EQ(reader.u32("argument"), 0xaabbccddU);
}

TEST(CallHeader, EverySizeOfCredentialAndVerifierComesBackAndNoStrictPrefixDoes) {
  SeededRandom random(30);
  std::array<std::byte, kAuthBodySizeMax> bytes{};
  for (auto& value : bytes) value = static_cast<std::byte>(random.next());
  for (std::uint32_t size = 0; size <= kAuthBodySizeMax; size += 1 + size / 8) {
    const CallHeader header{Xid{static_cast<std::uint32_t>(random.next())},
                            {1, 2, 3},
                            {AuthFlavor::kRpcsecGss, Bytes(bytes).first(size)},
                            {AuthFlavor{77}, Bytes(bytes).last(kAuthBodySizeMax - size)}};
    const auto message = encoded(header);
    ASSERT_EQ(decoded_call(message).value(), header);
    for (std::size_t cut = 0; cut < message.size(); ++cut) {
      const auto refused = decoded_call(Bytes(message).first(cut));
      ASSERT_FALSE(refused.has_value());
      ASSERT_EQ(refused.error().error.code, Errc::kTruncated);
      ASSERT_FALSE(refused.error().answer.has_value()) << "answers a Call that is cut off";
    }
  }
}

TEST(CallHeader, AnotherRpcVersionIsAnsweredWithTheRangeThatIsSpoken) {
  for (const std::string version : {"00000000", "00000001", "00000003", "ffffffff"}) {
    const auto refused = decoded_call(hex("11223344 00000000 " + version));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().error, (xdr::DecodeError{Errc::kBadEnum, 8, "rpcvers"}));
    EXPECT_EQ(refused.error().answer, (ReplyHeader{kXid, RpcMismatch{{2, 2}}}));
  }
}

TEST(CallHeader, MessageThatIsNoCallIsNotAnswered) {
  for (const std::string type : {"00000001", "00000002", "ffffffff"}) {
    const auto refused = decoded_call(hex("11223344 " + type + " 00000002 00000000 00000000"));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().error, (xdr::DecodeError{Errc::kBadEnum, 4, "msg_type"}));
    EXPECT_EQ(refused.error().answer, std::nullopt);
  }
}

TEST(CallHeader, CredentialOver400BytesIsAnsweredAsBadCredential) {
  for (const std::string size : {"00000191", "ffffffff"}) {
    const auto refused = decoded_call(hex(kCallStart + "00000001 " + size + " 00000000"));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().error.code, Errc::kOverLimit);
    EXPECT_EQ(refused.error().answer, (ReplyHeader{kXid, AuthError{AuthStatus::kBadCredential}}));
  }
}

TEST(CallHeader, VerifierOver400BytesIsAnsweredAsBadVerifier) {
  const auto refused = decoded_call(hex(kCallStart + "00000000 00000000 00000001 00000191"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().answer, (ReplyHeader{kXid, AuthError{AuthStatus::kBadVerifier}}));
}

TEST(CallHeader, MayHaveAnythingInTheFillBytesOfItsCredential) {
  const auto message = hex(kCallStart + "00000001 00000001 ff000001 00000000 00000000");
  const auto header = decoded_call(message);
  ASSERT_TRUE(header.has_value());
  ASSERT_EQ(header->credential.body.size(), 1U);
  EXPECT_EQ(header->credential.body[0], std::byte{0xff});
}

TEST(CallHeader, NoRoomIsRememberedByTheWriter) {
  std::array<std::byte, kCallHeaderSizeMin - 1> out{};
  xdr::Writer writer(out);
  encode_call({kXid, kNull, {}, {}}, writer);
  EXPECT_EQ(writer.finish().error(), Errc::kTruncated);
}

TEST(CallHeaderDeathTest, EncodingAnOversizedCredentialIsOurBug) {
  const std::vector<std::byte> body(kAuthBodySizeMax + 1);
  std::vector<std::byte> out(1000);
  xdr::Writer writer(out);
  EXPECT_DEATH(encode_call({kXid, kNull, {AuthFlavor::kSys, body}, {}}, writer), "over its limit");
}

std::vector<ReplyHeader> all_replies(Bytes verifier) {
  std::vector<ReplyHeader> out;
  for (std::uint32_t i = 0; i <= static_cast<std::uint32_t>(AcceptStatus::kSystemErr); ++i) {
    const AcceptStatus status{i};
    const bool mismatch = status == AcceptStatus::kProgMismatch;
    const VersionRange versions = mismatch ? VersionRange{2, 4} : VersionRange{};
    out.push_back({kXid, Accepted{status, versions, {}}});
    out.push_back({kXid, Accepted{status, versions, {AuthFlavor::kRpcsecGss, verifier}}});
  }
  out.push_back({kXid, RpcMismatch{{2, 2}}});
  for (std::uint32_t i = 0; i <= 14; ++i) out.push_back({kXid, AuthError{AuthStatus{i}}});
  return out;
}

TEST(ReplyHeader, EachStateComesBackAndNoStrictPrefixDoes) {
  const std::vector<std::byte> verifier(kAuthBodySizeMax, std::byte{0x5a});
  for (const ReplyHeader& header : all_replies(verifier)) {
    const auto message = encoded(header);
    ASSERT_EQ(decoded_reply(message).value(), header);
    for (std::size_t cut = 0; cut < message.size(); ++cut) {
      const auto refused = decoded_reply(Bytes(message).first(cut));
      ASSERT_FALSE(refused.has_value());
      ASSERT_EQ(refused.error().code, Errc::kTruncated);
    }
  }
}

TEST(ReplyHeader, HasTheBytesOfTheRfc) {
  EXPECT_EQ(encoded(ReplyHeader{kXid, Accepted{}}),
            hex("11223344 00000001 00000000 00000000 00000000 00000000"));
  EXPECT_EQ(encoded(ReplyHeader{kXid, Accepted{AcceptStatus::kProgMismatch, {2, 4}, {}}}),
            hex("11223344 00000001 00000000 00000000 00000000 00000002 00000002 00000004"));
  EXPECT_EQ(encoded(ReplyHeader{kXid, RpcMismatch{{2, 2}}}),
            hex("11223344 00000001 00000001 00000000 00000002 00000002"));
  EXPECT_EQ(encoded(ReplyHeader{kXid, AuthError{AuthStatus::kTooWeak}}),
            hex("11223344 00000001 00000001 00000001 00000005"));
}

TEST(ReplyHeader, DecodingLeavesTheReaderAtTheResults) {
  const auto message = hex("11223344 00000001 00000000 00000000 00000000 00000000 0000002a");
  xdr::Reader reader(message);
  ASSERT_TRUE(decode_reply(reader).has_value());
  EXPECT_EQ(reader.u32("result"), 42U);
}

TEST(ReplyHeader, UndefinedValuesAreRefused) {
  const std::vector<std::pair<std::string, std::string_view>> bad{
      {"11223344 00000000 00000000 00000000 00000000 00000000", "msg_type"},
      {"11223344 00000001 00000002 00000000 00000000 00000000", "reply_stat"},
      {"11223344 00000001 00000000 00000000 00000000 00000006", "accept_stat"},
      {"11223344 00000001 00000001 00000002 00000000 00000000", "reject_stat"},
      {"11223344 00000001 00000001 00000001 0000000f", "auth_stat"},
  };
  for (const auto& [message, field] : bad) {
    const auto refused = decoded_reply(hex(message));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Errc::kBadEnum);
    EXPECT_EQ(refused.error().field, field);
  }
}

TEST(ReplyHeader, VerifierOver400BytesIsRefused) {
  const auto refused = decoded_reply(hex("11223344 00000001 00000000 00000006 00000191"));
  EXPECT_EQ(refused.error().code, Errc::kOverLimit);
}

TEST(MessageProperty, MutatedHeadersDecodeOrAreRefused) {
  const auto call = encoded(CallHeader{kXid, kNull, {AuthFlavor::kSys, hex("0102030405")}, {}});
  const auto reply = encoded(ReplyHeader{kXid, Accepted{AcceptStatus::kProgMismatch, {1, 2}, {}}});
  SeededRandom random(31);
  for (int round = 0; round < 100'000; ++round) {
    auto message = random.one_in(2) ? call : reply;
    message[random.below(message.size())] = static_cast<std::byte>(random.below(4));
    message[random.below(message.size())] ^= static_cast<std::byte>(random.next());
    const auto size = random.below(message.size() + 1);
    (void)decoded_call(Bytes(message).first(size));
    (void)decoded_reply(Bytes(message).first(size));
  }
}

// The short ways are taken for exactly what the decoders would say the same about.
TEST(PlainHeaders, AreThoseWithAuthNone) {
  std::array<std::byte, kCallHeaderSizeMin> call{};
  xdr::Writer writer(call);
  encode_call({Xid{9}, {1, 2, 3}, {}, {}}, writer);
  for (std::size_t bit = 0; bit <= 8 * call.size(); ++bit) {
    auto changed = call;
    if (bit < 8 * call.size()) changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    xdr::Reader reader(changed);
    const auto decoded = decode_call(reader);
    CallHeader header{};
    const bool plain = decoded && decoded->credential == Credential{} &&
                       decoded->verifier == Credential{} && reader.position() == call.size();
    ASSERT_EQ(take_plain_call(changed, header), plain) << "bit " << bit;
    if (plain) {
      EXPECT_EQ(header, *decoded) << "bit " << bit;
    }
  }
  CallHeader header{};
  EXPECT_FALSE(take_plain_call(Bytes(call).first(call.size() - 1), header));
}

TEST(PlainHeaders, AreThoseOfASuccessWithAuthNone) {
  std::array<std::byte, kReplyHeaderSizeMin> reply{};
  xdr::Writer writer(reply);
  encode_reply({Xid{9}, Accepted{}}, writer);
  for (std::size_t bit = 0; bit <= 8 * reply.size(); ++bit) {
    auto changed = reply;
    if (bit < 8 * reply.size()) changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    xdr::Reader reader(changed);
    const auto decoded = decode_reply(reader);
    const bool plain = decoded && *decoded == ReplyHeader{Xid{9}, Accepted{}};
    ASSERT_EQ(is_plain_success(changed, Xid{9}), plain) << "bit " << bit;
  }
  EXPECT_FALSE(is_plain_success(Bytes(reply).first(reply.size() - 1), Xid{9}));
}

}  // namespace
}  // namespace rpcrdma::oncrpc
