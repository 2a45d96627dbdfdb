// The RPC headers inside the vectors: what the Linux NFS client and server say, and our own
// example.
#include <gtest/gtest.h>

#include <string>

#include "oncrpc/message.h"
#include "support/hex.h"
#include "wire/v1/header.h"

namespace rpcrdma::oncrpc {
namespace {

// A vector and what follows its Transport header.
struct Message {
  std::vector<std::byte> bytes;
  Bytes payload;
};

Message message_named(const std::string& name) {
  Message message;
  message.bytes = test::load_hex(std::string(RPCRDMA_GOLDEN_DIR) + "/" + name + ".hex");
  wire::ChunkLists lists;
  const auto decoded = wire::v1::decode(message.bytes, wire::Limits{}, lists);
  EXPECT_TRUE(decoded.has_value());
  if (decoded) message.payload = decoded->payload;
  return message;
}

void expect_same_bytes(Bytes payload, std::size_t header_size, auto encode) {
  std::vector<std::byte> out(header_size);
  xdr::Writer writer(out);
  encode(writer);
  ASSERT_TRUE(writer.finish().has_value());
  EXPECT_EQ(test::to_hex(out), test::to_hex(payload.first(header_size)));
}

void expect_call(const std::string& name, Xid xid, std::uint32_t number) {
  const Message message = message_named(name);
  xdr::Reader reader(message.payload);
  const auto call = decode_call(reader);
  ASSERT_TRUE(call.has_value()) << name;
  EXPECT_EQ(call->xid, xid);
  EXPECT_EQ(call->procedure, (Procedure{100003, 3, number}));
  EXPECT_EQ(call->verifier, Credential{});
  expect_same_bytes(message.payload, reader.position(),
                    [&](xdr::Writer& writer) { encode_call(*call, writer); });
  for (std::size_t cut = 0; cut < reader.position(); ++cut) {
    xdr::Reader prefix(message.payload.first(cut));
    EXPECT_FALSE(decode_call(prefix).has_value());
  }
}

TEST(GoldenRpc, CallsDecodeAndEncodeToTheSameBytes) {
  expect_call("msg-short-call", Xid{0x11223344}, 0);
  expect_call("msg-read-chunk", Xid{0x11223344}, 7);
  expect_call("linux-null-call", Xid{0xa73e86fe}, 0);
  expect_call("linux-read-call", Xid{0xbb3e86fe}, 6);
  expect_call("linux-read-odd-call", Xid{0xe33e86fe}, 6);
  expect_call("linux-write-call", Xid{0xc83e86fe}, 7);
  expect_call("linux-readdirplus-call", Xid{0xed3e86fe}, 17);
}

TEST(GoldenRpc, CredentialOfTheLinuxClientIsRootOfItsMachine) {
  const Message message = message_named("linux-read-call");
  xdr::Reader reader(message.payload);
  const auto call = decode_call(reader);
  ASSERT_TRUE(call.has_value());
  ASSERT_EQ(call->credential.flavor, AuthFlavor::kSys);
  AuthSys root;
  root.machine_name = "rpcrdma-lab";
  EXPECT_EQ(parse_auth_sys(call->credential.body), root);
}

TEST(GoldenRpc, RepliesDecodeAndEncodeToTheSameBytes) {
  for (const std::string name :
       {"linux-null-reply", "linux-read-reply", "linux-read-odd-reply", "linux-write-reply"}) {
    const Message message = message_named(name);
    xdr::Reader reader(message.payload);
    const auto reply = decode_reply(reader);
    ASSERT_TRUE(reply.has_value()) << name;
    EXPECT_EQ(reply->body, decltype(reply->body){Accepted{}});
    EXPECT_EQ(reader.position(), kReplyHeaderSizeMin);
    expect_same_bytes(message.payload, reader.position(),
                      [&](xdr::Writer& writer) { encode_reply(*reply, writer); });
  }
}

}  // namespace
}  // namespace rpcrdma::oncrpc
