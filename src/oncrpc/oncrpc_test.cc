#include "rpcrdma/oncrpc.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "support/hex.h"

namespace rpcrdma {
namespace {

AuthSys somebody(std::string_view machine, std::uint32_t gid_count) {
  AuthSys value;
  value.stamp = 0x01020304;
  value.machine_name = machine;
  value.uid = 1000;
  value.gid = 100;
  value.gid_count = gid_count;
  for (std::uint32_t i = 0; i < gid_count && i < kGidsMax; ++i) value.gids[i] = 200 + i;
  return value;
}

// A body made by hand, so that it can break every limit.
std::vector<std::byte> body_with(std::size_t name_size, std::uint32_t gid_count) {
  std::vector<std::byte> out(600);
  xdr::Writer writer(out);
  writer.u32(0);
  writer.string(std::string(name_size, 'n'));
  writer.u32(0);
  writer.u32(0);
  writer.u32(gid_count);
  for (std::uint32_t i = 0; i < gid_count && i < 20; ++i) writer.u32(i);
  out.resize(writer.finish().value());
  return out;
}

TEST(AuthSys, EncodesTheLayoutOfTheRfc) {
  std::array<std::byte, 64> out{};
  const auto size = encode_auth_sys(somebody("host1", 2), out);
  ASSERT_TRUE(size.has_value());
  EXPECT_EQ(test::to_hex(Bytes(out).first(*size)),
            "01020304 00000005 686f7374 31000000 000003e8 00000064 00000002 000000c8 000000c9");
}

TEST(AuthSys, EverySizeComesBackAndNoStrictPrefixDoes) {
  for (const std::size_t name_size : {0U, 1U, 4U, 254U, 255U}) {
    for (std::uint32_t gid_count = 0; gid_count <= kGidsMax; ++gid_count) {
      const std::string name(name_size, 'h');
      std::array<std::byte, 340> out{};
      const auto size = encode_auth_sys(somebody(name, gid_count), out);
      ASSERT_TRUE(size.has_value());
      ASSERT_EQ(parse_auth_sys(Bytes(out).first(*size)), somebody(name, gid_count));
      for (std::size_t cut = 0; cut < *size; ++cut) {
        ASSERT_EQ(parse_auth_sys(Bytes(out).first(cut)), std::nullopt);
      }
    }
  }
}

TEST(AuthSys, SeventeenGroupsAreRefused) {
  EXPECT_TRUE(parse_auth_sys(body_with(4, 16)).has_value());
  EXPECT_FALSE(parse_auth_sys(body_with(4, 17)).has_value());
  EXPECT_FALSE(parse_auth_sys(body_with(4, 0xffffffff)).has_value());
}

TEST(AuthSys, MachineNameOf256BytesIsRefused) {
  EXPECT_TRUE(parse_auth_sys(body_with(255, 0)).has_value());
  EXPECT_FALSE(parse_auth_sys(body_with(256, 0)).has_value());
}

TEST(AuthSys, TrailingBytesAndOversizedBodiesAreRefused) {
  auto body = body_with(4, 1);
  body.resize(body.size() + 4);
  EXPECT_FALSE(parse_auth_sys(body).has_value());
  body.resize(kAuthBodySizeMax + 4);
  EXPECT_FALSE(parse_auth_sys(body).has_value());
}

TEST(AuthSys, EncodingOverALimitIsRefused) {
  std::array<std::byte, 400> out{};
  EXPECT_EQ(encode_auth_sys(somebody(std::string(256, 'h'), 0), out).error(),
            xdr::Errc::kOverLimit);
  EXPECT_EQ(encode_auth_sys(somebody("h", 17), out).error(), xdr::Errc::kOverLimit);
  EXPECT_EQ(encode_auth_sys(somebody("h", 1), MutableBytes(out).first(8)).error(),
            xdr::Errc::kTruncated);
}

TEST(Credential, ComparesByContent) {
  const auto a = test::hex("01020304");
  const auto b = test::hex("01020304");
  EXPECT_EQ((Credential{AuthFlavor::kSys, a}), (Credential{AuthFlavor::kSys, b}));
  EXPECT_NE((Credential{AuthFlavor::kSys, a}), (Credential{AuthFlavor::kShort, a}));
  EXPECT_NE((Credential{AuthFlavor::kSys, a}), Credential{AuthFlavor::kSys});
}

TEST(CallStatus, EachHasItsOwnText) {
  std::set<std::string_view> texts;
  for (std::uint32_t i = 0; i <= 5; ++i) texts.insert(to_string(AcceptStatus{i}));
  for (std::uint32_t i = 0; i <= 1; ++i) texts.insert(to_string(RejectStatus{i}));
  for (std::uint32_t i = 0; i <= 14; ++i) texts.insert(to_string(AuthStatus{i}));
  EXPECT_EQ(texts.size(), 6U + 2 + 15);
}

}  // namespace
}  // namespace rpcrdma
