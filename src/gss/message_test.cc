#include "gss/message.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "support/hex.h"

namespace rpcrdma::gss {
namespace {

using test::hex;
using Message = std::vector<std::byte>;

// As Linux sends it (cred 24 in the captures): DATA, number 22, integrity, a handle of four bytes.
const Message kData = hex("00000001 00000000 00000016 00000002 00000004 07000000");

TEST(GssCredential, IsAsLinuxSendsIt) {
  const auto decoded = decode_credential(kData);
  ASSERT_TRUE(decoded);
  const Message handle = hex("07000000");
  EXPECT_EQ(
      *decoded,
      (CredentialBody{.version = 1, .control = 0, .sequence = 22, .service = 2, .handle = handle}));
  std::array<std::byte, 400> room{};
  const std::size_t size = encode_credential(*decoded, room);
  EXPECT_EQ(Message(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size)), kData);
}

TEST(GssCredential, KeepsWhatOthersHaveToJudge) {
  const auto odd = decode_credential(hex("00000001 00000009 ffffffff 00000000 00000000"));
  ASSERT_TRUE(odd);
  EXPECT_EQ(*odd, (CredentialBody{.control = 9, .sequence = 0xffffffff, .service = 0}));
}

// Nobody knows what follows another version's number.
TEST(GssCredential, ReportsAnotherVersionAlone) {
  for (const Message& body : {hex("00000003"), hex("00000003 1234")}) {
    const auto decoded = decode_credential(body);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, CredentialBody{.version = 3});
  }
}

TEST(GssCredential, IsWholeAndNoLonger) {
  for (std::size_t size = 0; size < kData.size(); ++size) {
    EXPECT_FALSE(decode_credential(Bytes(kData).first(size))) << size;
  }
  Message longer = kData;
  longer.insert(longer.end(), 4, std::byte{0});
  EXPECT_FALSE(decode_credential(longer));
  EXPECT_TRUE(decode_credential(hex("00000001 00000000 00000016 00000002 00000001 07000001")))
      << "what fill bytes hold means nothing";
}

TEST(GssInitResults, GoThereAndBack) {
  const Message handle = hex("0102030405060708"), token = hex("6081");
  const InitResults value{handle, 0, 0, 128, token};
  Message room(init_results_size(value));
  xdr::Writer writer(room);
  encode_init_results(value, writer);
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer.position(), room.size());
  EXPECT_EQ(room, hex("00000008 0102030405060708 00000000 00000000 00000080 00000002 60810000"));
  const auto decoded = decode_init_results(room);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, value);
  for (std::size_t size = 0; size < room.size(); ++size) {
    EXPECT_FALSE(decode_init_results(Bytes(room).first(size))) << size;
  }
}

TEST(GssIntegrity, IsABodyAndItsChecksum) {
  const Message wrapped = hex("00000008 00000016 cafe0000 00000003 abcdef00");
  const auto decoded = decode_integrity(wrapped);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(Message(decoded->body.begin(), decoded->body.end()), hex("00000016 cafe0000"));
  EXPECT_EQ(Message(decoded->checksum.begin(), decoded->checksum.end()), hex("abcdef"));
  for (std::size_t size = 0; size < wrapped.size(); ++size) {
    EXPECT_FALSE(decode_integrity(Bytes(wrapped).first(size))) << size;
  }
}

TEST(GssIntegrity, HasABodyOfXdr) {
  EXPECT_FALSE(decode_integrity(hex("00000005 00000016 ca000000 00000000")));
  EXPECT_FALSE(decode_integrity(hex("00000000 00000000"))) << "no room for the number";
  EXPECT_FALSE(decode_integrity(hex("00000004 00000016 00000000 00000000")))
      << "something is behind it";
  // knfsd of 6.1 answers so if it could not unwrap (gss.md).
  EXPECT_FALSE(decode_integrity(hex("00000000 00000004")));
}

TEST(GssPrivacy, IsOneToken) {
  Message wrapped = hex("00000005 0504030201000000");
  const MutableBytes token = decode_privacy(wrapped);
  EXPECT_EQ(token.data(), wrapped.data() + 4);
  EXPECT_EQ(token.size(), 5U);
  for (std::size_t size = 0; size < wrapped.size(); ++size) {
    EXPECT_TRUE(decode_privacy(MutableBytes(wrapped).first(size)).empty()) << size;
  }
  wrapped.back() = std::byte{1};
  EXPECT_EQ(decode_privacy(wrapped).size(), 5U) << "what fill bytes hold means nothing";
}

}  // namespace
}  // namespace rpcrdma::gss
