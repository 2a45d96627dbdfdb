// RPCSEC_GSS and how messages move, on real connections: contexts are good on all of them, and what
// is protected is put together before it is looked at, whatever chunks it came in.
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "iwarp/headers.h"
#include "rpcrdma/xdr.h"
#include "system/hostile_gss_for_test.h"

namespace rpcrdma::test {
namespace {

class GssTransports : public HostileGss {
 protected:
  // One that has a context, and says where its chunks are itself.
  static constexpr std::uint32_t kTag = 0x4711;

  struct Piece {
    std::uint32_t position = 0;
    Message data;
  };
  // A Call whose Read list is of these pieces, each a segment; what is left of it goes along. The
  // server reads them one after the other, unless it refuses the Call. Its reply behind the XID.
  static std::optional<Message> exchange(RawCaller& peer, const Message& inline_part,
                                         std::uint32_t xid, const std::vector<Piece>& pieces,
                                         bool is_refused = false) {
    Message reads;
    std::uint32_t offset = 0x1001;  // odd ones are as good
    for (const Piece& piece : pieces) {
      const auto size = static_cast<std::uint32_t>(piece.data.size());
      reads = join({reads, words({1, piece.position, kTag, size, 0, offset})});
      offset += size;
    }
    const std::uint32_t type = inline_part.empty() ? 1 : 0;  // NOMSG, MSG
    RawTalk& talk = peer.talk();
    EXPECT_TRUE(talk.send(join({raw_header(xid, type), reads, words({0, 0, 0}), inline_part})));
    Message all;
    if (is_refused) return peer.receive();
    for (const Piece& piece : pieces) all = join({all, piece.data});
    for (std::size_t sent = 0; sent < all.size();) {
      const auto asked = talk.next();
      if (!asked || asked->header.opcode != iwarp::Opcode::kReadRequest) return std::nullopt;
      const iwarp::ReadRequest request = iwarp::decode_read_request(asked->payload);
      const Bytes data = Bytes(all).subspan(request.source_address - 0x1001, request.size);
      EXPECT_TRUE(talk.read_response(static_cast<std::uint32_t>(request.sink_tag),
                                     request.sink_address, data));
      sent += request.size;
    }
    return peer.receive();
  }
  // Answers a Read Request for a part of what is at 0x1001.
  static void serve(RawCaller& peer, const iwarp::ReadRequest& request, const Message& all) {
    const Bytes data = Bytes(all).subspan(request.source_address - 0x1001, request.size);
    constexpr std::size_t kSegment = 16'000;
    for (std::size_t at = 0; at < data.size(); at += kSegment) {
      const Bytes part = data.subspan(at, std::min(kSegment, data.size() - at));
      EXPECT_TRUE(peer.talk().read_response(static_cast<std::uint32_t>(request.sink_tag),
                                            request.sink_address + at, part,
                                            at + part.size() == data.size()));
    }
  }
  static std::uint32_t xid_of(const Message& call) { return xdr::load_word(call.data()); }
  static void expect_echoed(RawCaller& peer, const std::optional<Message>& reply, const Said& said,
                            const Message& data) {
    ASSERT_TRUE(reply) << "the connection has ended";
    peer.expect_echoed(*reply, said, data);
  }
};

INSTANTIATE_TEST_SUITE_P(Wire, GssTransports, ::testing::Values("rdma", "tcp"), kTransportName);

// As Linux has it: its daemon makes contexts over TCP, and its kernel uses them over RDMA (gss.md
// G-1).
TEST_P(GssTransports, ContextIsGoodOverTheOtherTransport) {
  start();
  RawCaller alice = user();
  alice.expect_echo({.sequence = 1, .handle = alice.handle}, pattern(8, 1));
  RawCaller other(!is_tcp(), other_address_, kWindow);
  other.ours = alice.ours;
  other.handle = alice.handle;
  std::uint32_t sequence = 1;
  for (const gss::Service service : kServices) {
    other.expect_echo({.sequence = ++sequence, .service = service, .handle = alice.handle},
                      pattern(8, 1));
    alice.expect_echo({.sequence = ++sequence, .service = service, .handle = alice.handle},
                      pattern(8, 1));
  }
  // The numbers are those of one context as well.
  expect_replayed(other, other.sealed({.sequence = 2, .handle = alice.handle}, opaque({})));
  EXPECT_EQ(gss_->contexts().size(), 1U);
}

class GssOverTcp : public GssTransports {};
INSTANTIATE_TEST_SUITE_P(Wire, GssOverTcp, ::testing::Values("tcp"), kTransportName);

// Its header is judged as that of any other, and the refusal has its verifier.
TEST_P(GssOverTcp, CallOverTheLimitIsRefusedUnderItsContext) {
  start();
  RawCaller alice = user();
  std::uint32_t sequence = 0;
  for (const gss::Service service : kServices) {
    const Said said{.sequence = ++sequence, .service = service, .handle = alice.handle};
    const auto reply = alice.exchange(alice.sealed(said, opaque(Message(2U << 20U))));
    ASSERT_TRUE(reply) << "the connection has ended";
    EXPECT_TRUE(alice.accepted(*reply, sequence, 4).empty());  // GARBAGE_ARGS
  }
  EXPECT_EQ(service_.calls, 0U);
  alice.expect_echo({.sequence = ++sequence, .handle = alice.handle}, pattern(8, 1));
}

// Long bodies are protected elsewhere, several at a time, and short ones where connections are
// served (gss.md G-96).
TEST_P(GssTransports, ContextIsUsedByOneThreadAtATime) {
  start();
  for (const gss::Service service : {gss::Service::kIntegrity, gss::Service::kPrivacy}) {
    Client client = connect(service);
    expect_echo(client);
    const Message large = pattern(60'000, 5), small = pattern(100, 5);
    int good = 0;
    for (int i = 0; i < 60; ++i) {
      ASSERT_TRUE(
          client.start(echo_of(client, i % 3 == 0 ? large : small),
                       [&](const Expected<Reply, Error>& reply) { good += reply ? 1 : 0; }));
    }
    client.drain();
    EXPECT_EQ(good, 60);
    EXPECT_EQ(mechanism_->overlaps, 0);
  }
}

class GssChunks : public GssTransports {};

INSTANTIATE_TEST_SUITE_P(Wire, GssChunks, ::testing::Values("rdma"), kTransportName);

// Credential and verifier are in front of the arguments (gss.md G-60).
TEST_P(GssChunks, PositionOfAReadChunkCountsCredentialAndVerifier) {
  start();
  RawCaller alice = user();
  for (const std::size_t size : {4U, 1000U, 1001U}) {
    const Said said{.sequence = static_cast<std::uint32_t>(size), .handle = alice.handle};
    const Message data = pattern(size, 1);
    const Message call = alice.sealed(said, words({static_cast<std::uint32_t>(size)}));
    const auto position = static_cast<std::uint32_t>(call.size());
    expect_echoed(alice, exchange(alice, call, xid_of(call), {{position, data}}), said, data);
  }
}

// Lengths and addresses are odd: the segments are one stream (gss.md G-63).
TEST_P(GssChunks, SegmentsOfALongCallAreOneStreamUnderItsChecksums) {
  start();
  RawCaller alice = user();
  std::uint32_t sequence = 0;
  for (const gss::Service service : kServices) {
    const Said said{.sequence = ++sequence, .service = service, .handle = alice.handle};
    const Message data = pattern(2001, 1);
    const Message call = alice.sealed(said, opaque(data));
    const std::size_t cuts[] = {0, 1, 50, 157, call.size() - 3, call.size()};
    std::vector<Piece> pieces;
    for (std::size_t i = 1; i < std::size(cuts); ++i) {
      const Bytes part = Bytes(call).subspan(cuts[i - 1], cuts[i] - cuts[i - 1]);
      pieces.push_back({0, Message(part.begin(), part.end())});
    }
    expect_echoed(alice, exchange(alice, {}, xid_of(call), pieces), said, data);
  }
}

// Calls with later numbers than that of a Long Call which waits for memory move the window on, as
// far as they like: its number was judged before (RFC 2203 §5.3.3.1).
TEST_P(GssChunks, LongCallIsJudgedBeforeItWaits) {
  start({.memory_max = 1U << 20U});  // for one Call of the size
  constexpr std::uint32_t kSize = 500'000;
  const auto long_call = [](RawCaller& peer, std::uint32_t sequence) {
    const Said said{.sequence = sequence, .handle = peer.handle, .procedure = TestService::kLength};
    const Message call = peer.sealed(said, opaque(pattern(kSize, 1)));
    const auto size = static_cast<std::uint32_t>(call.size());
    EXPECT_TRUE(peer.talk().send(
        join({raw_header(xid_of(call), 1), words({1, 0, kTag, size, 0, 0x1001, 0, 0, 0})})));
    return call;
  };
  const auto read_request = [](RawCaller& peer) {
    const auto asked = peer.talk().next();
    return asked && asked->header.opcode == iwarp::Opcode::kReadRequest
               ? std::optional(iwarp::decode_read_request(asked->payload))
               : std::nullopt;
  };
  RawCaller alice = user();
  Message call;
  {
    RawCaller bob = user();
    long_call(bob, 1);
    ASSERT_TRUE(read_request(bob)) << "it has all the memory now";
    call = long_call(alice, 1);
    const auto head = read_request(alice);
    ASSERT_TRUE(head);
    EXPECT_LT(head->size, 4096U) << "no memory but the room for its answer";
    serve(alice, *head, call);
    for (std::uint32_t sequence = 2; sequence <= 2 * kWindow; ++sequence) {
      alice.expect_echo({.sequence = sequence, .handle = alice.handle}, pattern(8, 1));
    }
  }
  for (std::size_t read = 0; read < call.size();) {  // in pieces, as there are others
    const auto piece = read_request(alice);
    ASSERT_TRUE(piece) << "the connection has ended, or the Call is taken for a replay";
    EXPECT_EQ(piece->source_address, 0x1001 + read);
    read += piece->size;
    serve(alice, *piece, call);
  }
  const auto reply = alice.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(to_words(alice.accepted(*reply, 1, 0)), (std::vector<std::uint32_t>{kSize}));
}

TEST_P(GssChunks, LongCallWithAnotherHeadThanWasJudgedIsRefused) {
  start({.memory_max = 1U << 20U});
  RawCaller alice = user(), bob = user();
  const Message data = pattern(500'000, 1);
  const Message call = alice.sealed(
      {.sequence = 1, .handle = alice.handle, .procedure = TestService::kLength}, opaque(data));
  const auto size = static_cast<std::uint32_t>(call.size());
  const Message header =
      join({raw_header(xid_of(call), 1), words({1, 0, kTag, size, 0, 0x1001, 0, 0, 0})});
  ASSERT_TRUE(bob.talk().send(header));
  ASSERT_TRUE(bob.talk().next());
  ASSERT_TRUE(alice.talk().send(header));
  const auto serve_next = [&](const Message& said) {
    const auto asked = alice.talk().next();
    if (!asked) return std::size_t{0};
    const auto request = iwarp::decode_read_request(asked->payload);
    serve(alice, request, said);
    return std::size_t{request.size};
  };
  ASSERT_GT(serve_next(call), 0U) << "its head";
  alice.expect_echo({.sequence = 2, .handle = alice.handle}, pattern(8, 1));
  EXPECT_TRUE(bob.talk().terminate(iwarp::Fault::kLlpClosed));
  Message other = call;
  other[20] ^= std::byte{1};                  // the procedure
  for (std::size_t read = 0; read < size;) {  // in pieces, as there are others
    const std::size_t piece = serve_next(other);
    ASSERT_GT(piece, 0U);
    read += piece;
  }
  const auto refusal = alice.talk().next_message();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(to_words(*refusal), (std::vector<std::uint32_t>{xid_of(call), 1, 64, 4, 2}));
  EXPECT_EQ(service_.calls, 1U);
}

// Nothing of it may be (RFC 8166 section 6.1), and it would have no place in what is protected.
TEST_P(GssChunks, ReadChunkBehindAProtectedBodyGetsGarbageArgs) {
  start();
  RawCaller alice = user();
  std::uint32_t sequence = 0;
  // One without a byte takes no memory, and is found only when the call is put together.
  for (const auto& [service, size] :
       {std::pair{gss::Service::kIntegrity, 100U}, std::pair{gss::Service::kPrivacy, 100U},
        std::pair{gss::Service::kIntegrity, 0U}}) {
    const Said said{.sequence = ++sequence, .service = service, .handle = alice.handle};
    const Message call = alice.sealed(said, opaque(pattern(8, 1)));
    const auto end = static_cast<std::uint32_t>(call.size());
    const auto reply = exchange(alice, call, xid_of(call), {{end, pattern(size, 2)}}, true);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(alice.accepted(*reply, sequence, 4).empty());  // GARBAGE_ARGS
  }
  EXPECT_EQ(service_.calls, 0U);
  alice.expect_echo({.sequence = ++sequence, .handle = alice.handle}, pattern(8, 1));
}

}  // namespace
}  // namespace rpcrdma::test
