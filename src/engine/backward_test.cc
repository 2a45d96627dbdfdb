// Calls from the server to the client on the same connection (RFC 8167).
#include <gtest/gtest.h>

#include "engine/connection.h"
#include "engine/endpoint_for_test.h"

namespace rpcrdma::engine {
namespace {

using wire::ChunkLists;
using wire::v1::Header;

constexpr wire::v1::Body kMsg = wire::v1::Msg{};

Options both_ways(std::uint32_t backward_calls = 2) {
  Options options;
  options.credits = 4;
  options.calls_max = 8;
  options.backward_calls = backward_calls;
  return options;
}

Expected<CallId, StartError> start(Endpoint& endpoint, std::uint32_t xid, std::uint32_t size = 40,
                                   std::uint32_t reply_size_max = 100) {
  const Fragment run{Lease{1}, size, 0, 0};
  Outgoing call;
  call.stream = {&run, 1};
  call.reply_size_max = reply_size_max;
  auto id = endpoint.engine.requester().start_call(endpoint.now, Xid{xid}, call, kTimeout);
  endpoint.drain();
  return id;
}
void reply(Endpoint& endpoint, CallId call, std::uint32_t size = 24) {
  const Fragment run{Lease{50}, size, 0, 0};
  Outgoing outgoing;
  outgoing.stream = {&run, 1};
  endpoint.engine.responder().start_reply(call, outgoing);
  endpoint.drain();
}
// The header of the next message that goes out, which is then done.
std::optional<Header> sent(Endpoint& endpoint) {
  const auto send = endpoint.take_action<PostSend>();
  if (!send) return std::nullopt;
  const Header header = endpoint.header_of(*send).header;
  EXPECT_TRUE(endpoint.lists.empty());
  EXPECT_FALSE(send->invalidate);
  endpoint.done(send->id);
  return header;
}
void receive_call(Endpoint& endpoint, std::uint32_t xid, std::uint32_t credits = 2) {
  endpoint.receive(message({Xid{xid}, 1, credits, kMsg}, {}, 40, RpcType::kCall));
}
void receive_reply(Endpoint& endpoint, std::uint32_t xid, std::uint32_t credits = 4) {
  endpoint.receive(message({Xid{xid}, 1, credits, kMsg}, {}, 24, RpcType::kReply));
}

// --- The client answers

class BackwardClient : public testing::Test {
 protected:
  Endpoint client{Role::kClient, both_ways()};
};

TEST_F(BackwardClient, KeepsReceivesForBothDirections) {
  EXPECT_EQ(client.receives_posted(), 4U + 2U);
}

// The same XID may be in use both ways, and means two calls.
TEST_F(BackwardClient, TellsTheDirectionsApart) {
  ASSERT_TRUE(start(client, 7));
  EXPECT_EQ(sent(client), (Header{Xid{7}, 1, 4, kMsg}));
  receive_call(client, 7);
  const auto call = client.take_event<CallReceived>();
  ASSERT_TRUE(call);
  EXPECT_EQ(call->xid, Xid{7});
  reply(client, call->call);
  EXPECT_EQ(sent(client), (Header{Xid{7}, 1, 2, kMsg})) << "grants what it granted: B-7";
  EXPECT_TRUE(client.take_event<CallDone>());
  receive_reply(client, 7);
  EXPECT_TRUE(client.take_event<ReplyReady>());
  EXPECT_TRUE(client.events.empty());
}

// B-8, B-12: what a backward Call asks for is no grant for forward ones.
TEST_F(BackwardClient, BackwardCreditsAreNoForwardCredits) {
  receive_call(client, 1, 100);
  EXPECT_EQ(client.engine.requester().credits().limit(), 1U);
  ASSERT_TRUE(start(client, 1));
  ASSERT_TRUE(start(client, 2));
  EXPECT_TRUE(sent(client));
  EXPECT_FALSE(sent(client)) << "one Call until the first reply";
}

// The last Receives are for the server's Calls: a forward Call would take one from them.
TEST_F(BackwardClient, ForwardCallsLeaveReceivesForBackwardOnes) {
  ASSERT_TRUE(start(client, 1));
  EXPECT_TRUE(sent(client));
  receive_reply(client, 1);  // grants 4; its Receive is not given back
  for (std::uint32_t xid = 2; xid < 8; ++xid) ASSERT_TRUE(start(client, xid));
  int count = 0;
  while (sent(client)) ++count;
  EXPECT_EQ(count, 3) << "six Receives, one is held and two are the server's";
  receive_call(client, 1);
  receive_call(client, 2);
  EXPECT_EQ(client.receives_posted(), 3U) << "one for each Call under way";
}

// A backward Call in service holds a Receive of its own, so the forward Call that its service makes
// is not held up.
TEST_F(BackwardClient, AServiceMayMakeForwardCalls) {
  Endpoint narrow(Role::kClient, [] {
    Options options = both_ways(1);
    options.credits = 1;
    return options;
  }());
  receive_call(narrow, 1);
  ASSERT_TRUE(narrow.take_event<CallReceived>());
  ASSERT_TRUE(start(narrow, 1));
  EXPECT_TRUE(sent(narrow));
}

// The Receives of both directions are one queue, so that the provider does not notice.
TEST_F(BackwardClient, MoreCallsThanGrantedEndTheConnection) {
  for (std::uint32_t xid = 1; xid < 3; ++xid) receive_call(client, xid);
  EXPECT_FALSE(client.take_action<Disconnect>());
  receive_call(client, 3);
  EXPECT_TRUE(client.take_action<Disconnect>());
  EXPECT_EQ(client.engine.given_up(), GivenUp::kOverrun);
  EXPECT_EQ(client.engine.counters().credit_overruns, 1U);
  EXPECT_EQ(client.engine.responder().calls_in_service(), 2U);
}

// B-4: a backward Call has no chunks.
TEST_F(BackwardClient, RefusesBackwardCallsWithChunks) {
  ChunkLists lists;
  ASSERT_TRUE(lists.reads.push_back({40, {SteeringTag{7}, 100, 0}}));
  client.receive(message({Xid{9}, 1, 2, kMsg}, lists, 40, RpcType::kCall));
  EXPECT_TRUE(client.events.empty());
  EXPECT_EQ(sent(client), (Header{Xid{9}, 1, 2, wire::v1::ErrChunk{}}));
  EXPECT_EQ(client.receives_posted(), 6U);
  EXPECT_EQ(client.engine.counters().read_chunk_count, 0U);
}

// An answer that is larger than a message fits nowhere.
TEST_F(BackwardClient, AnswersTooLargeAreErrors) {
  receive_call(client, 5);
  const auto call = client.take_event<CallReceived>();
  ASSERT_TRUE(call);
  reply(client, call->call, 5000);
  EXPECT_EQ(sent(client), (Header{Xid{5}, 1, 2, wire::v1::ErrChunk{}}));
}

// B-6: an error belongs to the client's own Calls.
TEST_F(BackwardClient, ErrorsAreForForwardCalls) {
  ASSERT_TRUE(start(client, 3));
  EXPECT_TRUE(sent(client));
  receive_call(client, 3);
  client.receive(message({Xid{3}, 1, 4, wire::v1::ErrChunk{}}, {}, 0));
  const auto failed = client.take_event<CallFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error, CallError::kChunk);
}

// B-1: without the upper layer's word a Call is nothing that a client takes, whatever its XID.
TEST(Backward, AClientThatTakesNoCallsDropsThem) {
  Endpoint client(Role::kClient, both_ways(0));
  EXPECT_EQ(client.receives_posted(), 4U);
  ASSERT_TRUE(start(client, 7));
  EXPECT_TRUE(sent(client));
  receive_call(client, 7);
  receive_call(client, 8);
  EXPECT_TRUE(client.events.empty());
  EXPECT_EQ(client.receives_posted(), 4U) << "their Receives are posted again";
  receive_reply(client, 7);
  EXPECT_TRUE(client.take_event<ReplyReady>());
}

// --- The server calls

class BackwardServer : public testing::Test {
 protected:
  Endpoint server{Role::kServer, both_ways()};
};

TEST_F(BackwardServer, AsksForItsCreditsAndBeginsWithOne) {
  EXPECT_EQ(server.receives_posted(), 4U + 2U);
  ASSERT_TRUE(start(server, 1));
  ASSERT_TRUE(start(server, 2));
  EXPECT_EQ(sent(server), (Header{Xid{1}, 1, 2, kMsg}));
  EXPECT_FALSE(sent(server)) << "B-2: one until the first reply";
  receive_reply(server, 1, 16);
  ASSERT_TRUE(server.take_event<ReplyReady>());
  EXPECT_TRUE(sent(server));
  ASSERT_FALSE(start(server, 3) && start(server, 4)) << "both slots are in use";
}

TEST_F(BackwardServer, ServesForwardCallsOfTheSameXidMeanwhile) {
  ASSERT_TRUE(start(server, 7));
  EXPECT_TRUE(sent(server));
  receive_call(server, 7);
  const auto call = server.take_event<CallReceived>();
  ASSERT_TRUE(call);
  receive_reply(server, 7, 1);
  const auto answered = server.take_event<ReplyReady>();
  ASSERT_TRUE(answered);
  server.engine.requester().release(answered->call);
  reply(server, call->call);
  EXPECT_EQ(sent(server), (Header{Xid{7}, 1, 4, kMsg})) << "B-12: the forward grant is as it was";
  EXPECT_TRUE(server.take_event<CallDone>());
  EXPECT_EQ(server.receives_posted(), 6U);
}

TEST_F(BackwardServer, MoreForwardCallsThanGrantedEndTheConnection) {
  for (std::uint32_t xid = 1; xid < 5; ++xid) receive_call(server, xid);
  EXPECT_FALSE(server.take_action<Disconnect>());
  receive_call(server, 5);
  EXPECT_TRUE(server.take_action<Disconnect>());
}

// B-5: an error for a backward Call under way ends it; any other is dropped.
TEST_F(BackwardServer, ErrorsEndTheBackwardCallThatTheyName) {
  ASSERT_TRUE(start(server, 5));
  EXPECT_TRUE(sent(server));
  server.receive(message({Xid{6}, 1, 2, wire::v1::ErrChunk{}}, {}, 0));
  EXPECT_TRUE(server.events.empty());
  EXPECT_EQ(server.engine.counters().stray_error_count, 1U);
  server.receive(message({Xid{5}, 1, 2, wire::v1::ErrChunk{}}, {}, 0));
  const auto failed = server.take_event<CallFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error, CallError::kChunk);
  EXPECT_EQ(server.receives_posted(), 6U);
}

TEST_F(BackwardServer, CallsThatFitNoMessageAreNotStarted) {
  const auto whole = start(server, 1, 4096 - 28);
  EXPECT_TRUE(whole);
  const auto larger = start(server, 2, 4096 - 28 + 4);
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error(), StartError::kTooLarge);
  const auto reply = start(server, 2, 40, 5000);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error(), StartError::kTooLarge) << "its reply could be larger than a message";
}

// A reply with chunks is none that a backward Call could have.
TEST_F(BackwardServer, RepliesWithChunksAreBad) {
  ASSERT_TRUE(start(server, 5));
  EXPECT_TRUE(sent(server));
  ChunkLists lists;
  const wire::Segment segment{SteeringTag{9}, 100, 0};
  ASSERT_TRUE(lists.writes.push_back({&segment, 1}));
  server.receive(message({Xid{5}, 1, 2, kMsg}, lists, 24, RpcType::kReply));
  const auto failed = server.take_event<CallFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error, CallError::kBadReply);
}

TEST_F(BackwardServer, TimeAndTheEndOfTheConnectionEndBackwardCalls) {
  ASSERT_TRUE(start(server, 1));
  ASSERT_TRUE(start(server, 2));
  EXPECT_TRUE(sent(server));
  server.now += kTimeout;
  server.engine.handle_timeout(server.now);
  server.drain();
  for (int i = 0; i < 2; ++i) {
    const auto failed = server.take_event<CallFailed>();
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->error, CallError::kTimedOut);
  }
  Endpoint other(Role::kServer, both_ways());
  ASSERT_TRUE(start(other, 1));
  other.engine.handle_disconnected();
  other.complete_all(Status::kFlushed);
  const auto failed = other.take_event<CallFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error, CallError::kConnectionLost);
}

// B-1 from the other side: a server that makes no Calls takes a reply for a Call that makes no
// sense, which whoever is above refuses.
TEST(Backward, AServerThatMakesNoCallsHasNoRequester) {
  Endpoint server(Role::kServer, both_ways(0));
  EXPECT_EQ(server.receives_posted(), 4U);
  const auto started = start(server, 1);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error(), StartError::kQueueFull);
}

}  // namespace
}  // namespace rpcrdma::engine
