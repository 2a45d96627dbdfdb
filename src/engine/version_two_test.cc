// Tests version two on one connection, by hand: which version is spoken, and what is different in
// it (draft-cel-nfsv4-rpcrdma-version-two-01). The tests of requester_test and responder_test cover
// both versions.
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "engine/connection.h"
#include "engine/counters_for_test.h"
#include "engine/endpoint_for_test.h"
#include "wire/v2/header.h"

namespace rpcrdma::engine {
namespace {

namespace v1 = wire::v1;
namespace v2 = wire::v2;
using wire::ChunkLists;

constexpr v2::Direction kCall = v2::Direction::kCall, kReply = v2::Direction::kReply;

Options of_versions(std::uint32_t low, std::uint32_t high, std::uint32_t backward_calls = 0) {
  Options options;
  options.versions = {low, high};
  options.credits = 4;
  options.calls_max = 8;
  options.backward_calls = backward_calls;
  return options;
}

// --- The offer ---------------------------------------------------------------------------------

class Offer : public testing::Test {
 protected:
  explicit Offer(std::uint32_t low = 1)
      : client(Role::kClient, of_versions(low, 2), LinkParameters{4096, 4096, 16, true}) {}

  Expected<CallId, StartError> start(std::uint32_t xid, std::uint32_t size = 40,
                                     std::byte* header_room = nullptr) {
    const Fragment run{Lease{1}, size, 100, 0};
    Outgoing call;
    call.stream = {&run, 1};
    call.reply_size_max = 100;
    call.header_room = header_room;
    auto id = client.engine.requester().start_call(client.now, Xid{xid}, call, kTimeout);
    client.drain();
    return id;
  }
  // The header of the next message, and its lists in `lists`.
  v2::Header header2_of(const PostSend& send) {
    const auto decoded = v2::decode(
        Bytes(client.arena_).subspan(send.header_offset, send.header_size), {}, client.lists);
    EXPECT_TRUE(decoded);
    return decoded ? decoded->header : v2::Header{};
  }
  // The Call that goes out now, which is in version 2.
  PostSend take_offer(std::uint32_t xid) {
    const auto send = client.take_action<PostSend>();
    EXPECT_TRUE(send);
    if (!send) return {};
    EXPECT_EQ(header2_of(*send), (v2::Header{Xid{xid}, 2, 4, v2::Msg{kCall}}));
    return *send;
  }
  // Delivers a reply. The first reply makes the client announce itself (characteristics_test.cc).
  void reply(std::uint32_t xid) {
    const bool is_first = client.engine.is_offering();
    client.receive(message2({Xid{xid}, 2, 4, v2::Msg{kReply}}, 24, RpcType::kReply));
    if (is_first) {
      const auto option = client.take_action<PostSend>();
      ASSERT_TRUE(option);
      EXPECT_TRUE(std::holds_alternative<v2::Optional>(header2_of(*option).body));
      client.done(option->id);
    }
    const auto ready = client.take_event<ReplyReady>();
    ASSERT_TRUE(ready);
    client.engine.requester().release(ready->call);
    client.drain();
  }
  void refuse(std::uint32_t xid, std::uint32_t version = 2, v1::ErrVers range = {1, 1}) {
    client.receive(message({Xid{xid}, version, 4, range}, {}, 0));
  }
  void reply_v1(std::uint32_t xid) {
    client.receive(message({Xid{xid}, 1, 4, v1::Msg{}}, {}, 24, RpcType::kReply));
  }
  void expect_given_up(GivenUp why) {
    EXPECT_TRUE(client.take_action<Disconnect>());
    EXPECT_EQ(client.engine.given_up(), why);
  }

  Endpoint client;
};

TEST_F(Offer, IsTheFirstCallAndTheOthersWaitForItsAnswer) {
  ASSERT_TRUE(start(1));
  ASSERT_TRUE(start(2));
  client.done(take_offer(1).id);
  EXPECT_FALSE(client.take_action<PostSend>());
  EXPECT_TRUE(client.engine.is_offering());
  reply(1);
  EXPECT_FALSE(client.engine.is_offering());
  client.done(take_offer(2).id);
  reply(2);
}

// Its reader may speak version 1 only, with Receives of 1024 bytes.
TEST_F(Offer, FitsAReceiveOfVersionOne) {
  EXPECT_EQ(client.engine.link().inline_send, 1024U);
  ASSERT_TRUE(start(1, 1024 - 32));
  EXPECT_EQ(take_offer(1).gather.size(), 1U);
  Endpoint other(Role::kClient, of_versions(1, 2));
  const Fragment run{Lease{1}, 1024 - 31, 0, 0};
  Outgoing call;
  call.stream = {&run, 1};
  call.reply_size_max = 100;
  ASSERT_TRUE(other.engine.requester().start_call(other.now, Xid{1}, call, kTimeout));
  other.drain();
  EXPECT_TRUE(other.take_action<Expose>()) << "a byte more goes by a Read chunk";
}

TEST_F(Offer, BringsTheSizesOfVersionTwoWhenTaken) {
  ASSERT_TRUE(start(1));
  client.done(take_offer(1).id);
  reply(1);
  EXPECT_EQ(client.engine.link().dialect, Dialect::kV2);
  EXPECT_EQ(client.engine.link().inline_send, 4096U);
  EXPECT_EQ(client.engine.link().inline_receive, 4096U);
  EXPECT_FALSE(client.engine.link().remote_invalidation) << "private data does not count";
}

TEST_F(Offer, BecomesTheSameCallInVersionOneWhenRefused) {
  for (const std::uint32_t version : {1U, 2U}) {  // RFC 5666 names its own, RFC 8166 echoes ours
    SCOPED_TRACE(version);
    Endpoint fresh(Role::kClient, of_versions(1, 2), LinkParameters{2048, 3072, 16, true});
    const Fragment run{Lease{1}, 40, 0, 0};
    Outgoing call;
    call.stream = {&run, 1};
    call.reply_size_max = 100;
    ASSERT_TRUE(fresh.engine.requester().start_call(fresh.now, Xid{1}, call, kTimeout));
    fresh.drain();
    const auto first = fresh.take_action<PostSend>();
    ASSERT_TRUE(first);
    fresh.receive(message({Xid{1}, version, 4, v1::ErrVers{1, 1}}, {}, 0));
    EXPECT_FALSE(fresh.take_action<PostSend>()) << "its place is still being read";
    fresh.done(first->id);
    const auto second = fresh.take_action<PostSend>();
    ASSERT_TRUE(second);
    EXPECT_EQ(fresh.header_of(*second).header, (v1::Header{Xid{1}, 1, 4, v1::Msg{}}));
    EXPECT_EQ(second->gather, first->gather);
    fresh.done(second->id);
    fresh.receive(message({Xid{1}, 1, 4, v1::Msg{}}, {}, 24, RpcType::kReply));
    EXPECT_TRUE(fresh.take_event<ReplyReady>());
    EXPECT_FALSE(fresh.take_action<Disconnect>()) << "on the same connection";
    EXPECT_EQ(fresh.engine.link().inline_send, 2048U) << "what the set-up said counts again";
    EXPECT_TRUE(fresh.engine.link().remote_invalidation);
  }
}

TEST_F(Offer, FailsTheCallWhenRefusedAgain) {
  ASSERT_TRUE(start(1));
  client.done(take_offer(1).id);
  refuse(1);
  const auto again = client.take_action<PostSend>();
  ASSERT_TRUE(again);
  client.done(again->id);
  refuse(1, 1, {2, 2});
  const auto failed = client.take_event<CallFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error, CallError::kVersion);
  EXPECT_FALSE(client.take_action<PostSend>()) << "there is no third time";
}

// The header leaves with the stream, as one run, and is written into the room once more.
TEST_F(Offer, InFrontOfTheStreamIsWrittenAnew) {
  std::array<std::byte, kShortHeaderSizeMax + 40> room{};
  ASSERT_TRUE(start(1, 40, room.data()));
  const auto first = client.take_action<PostSend>();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->gather, (std::vector{Fragment{Lease{1}, 72, 68, 0}}));
  EXPECT_EQ(xdr::load_word(&room[4]), 2U);
  client.done(first->id);
  refuse(1);
  const auto second = client.take_action<PostSend>();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->gather, (std::vector{Fragment{Lease{1}, 68, 72, 0}}));
  EXPECT_EQ(xdr::load_word(&room[8]), 1U);
}

TEST_F(Offer, WithChunksAdvertisesTheSameMemoryAgain) {
  const Fragment stream[] = {{Lease{1}, 40, 0, 0}, {Lease{2}, 3000, 0, 1}};
  Outgoing call;
  call.stream = stream;
  call.reply_size_max = 100;
  ASSERT_TRUE(client.engine.requester().start_call(client.now, Xid{1}, call, kTimeout));
  client.drain();
  client.expose_all();
  client.done(take_offer(1).id);
  const ChunkLists offered = client.lists;
  EXPECT_EQ(offered.reads.size(), 1U);
  refuse(1);
  EXPECT_FALSE(client.take_action<Expose>());
  const auto again = client.take_action<PostSend>();
  ASSERT_TRUE(again);
  EXPECT_EQ(client.header_of(*again).header.version, 1U);
  EXPECT_EQ(client.lists, offered);
  client.done(again->id);
  reply_v1(1);
  client.revoke_all();
  EXPECT_TRUE(client.take_event<ReplyReady>());
}

TEST_F(Offer, ToAPeerOfNoCommonVersionEndsTheConnection) {
  ASSERT_TRUE(start(1));
  client.done(take_offer(1).id);
  refuse(1, 2, {3, 5});
  const auto failed = client.take_event<CallFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error, CallError::kVersion);
  expect_given_up(GivenUp::kNoVersion);
}

class OnlyVersionTwo : public Offer {
 protected:
  OnlyVersionTwo() : Offer(2) {}
};

TEST_F(OnlyVersionTwo, NeverFallsBack) {
  ASSERT_TRUE(start(1));
  client.done(take_offer(1).id);
  refuse(1);
  const auto failed = client.take_event<CallFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error, CallError::kVersion);
  EXPECT_FALSE(client.take_action<PostSend>());
  expect_given_up(GivenUp::kNoVersion);
}

TEST_F(Offer, WithoutAnAnswerEndsTheConnectionLongBeforeTheCall) {
  ASSERT_TRUE(start(1));
  client.done(take_offer(1).id);
  const auto limit = client.engine.poll_timeout();
  ASSERT_TRUE(limit);
  EXPECT_EQ(*limit - client.now, Options{}.offer_timeout);
  client.now = *limit;
  client.engine.handle_timeout(client.now);
  client.drain();
  expect_given_up(GivenUp::kNoAnswer);
  client.engine.handle_disconnected();
  client.drain();
  const auto failed = client.take_event<CallFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error, CallError::kConnectionLost) << "it may be made again elsewhere";
  EXPECT_TRUE(client.engine.is_offering());
}

// The connection is about to end: nothing is to be concluded from it any more.
TEST_F(Offer, IsNotTakenBehindItsTime) {
  ASSERT_TRUE(start(1));
  client.done(take_offer(1).id);
  client.now = *client.engine.poll_timeout();
  client.engine.handle_timeout(client.now);
  refuse(1);
  EXPECT_TRUE(client.engine.is_offering());
  EXPECT_FALSE(client.take_action<PostSend>());
  expect_given_up(GivenUp::kNoAnswer);
}

TEST_F(Offer, HasNoTimeLimitOnceTheConnectionEnded) {
  ASSERT_TRUE(start(1));
  client.done(take_offer(1).id);
  client.engine.handle_disconnected();
  client.drain();
  client.now += Options{}.offer_timeout;
  client.engine.handle_timeout(client.now);
  EXPECT_EQ(client.engine.given_up(), GivenUp::kNot) << "the reason is another one";
}

TEST_F(Offer, HasNoTimeLimitOnceAnswered) {
  ASSERT_TRUE(start(1));
  client.done(take_offer(1).id);
  reply(1);
  client.now += 2 * Options{}.offer_timeout;
  client.engine.handle_timeout(client.now);
  client.drain();
  EXPECT_FALSE(client.take_action<Disconnect>());
}

// The draft wants a non-error message; errors that only version 2 has say as much (ADR 23).
TEST_F(Offer, IsTakenByErrorsOfVersionTwo) {
  ASSERT_TRUE(start(1));
  client.done(take_offer(1).id);
  client.receive(message2({Xid{1}, 2, 4, v2::ErrBadHeader{}}));
  const auto failed = client.take_event<CallFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error, CallError::kChunk);
  EXPECT_FALSE(client.engine.is_offering());
}

TEST_F(Offer, IsTakenByInvalOptionAndTheCallDoesNotWait) {
  ASSERT_TRUE(start(1));
  client.done(take_offer(1).id);
  client.receive(message2({Xid{1}, 2, 4, v2::ErrInvalOption{}}));
  EXPECT_FALSE(client.engine.is_offering());
  const auto failed = client.take_event<CallFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error, CallError::kChunk);
}

TEST_F(Offer, IsNotTakenByAnAnswerInVersionOne) {
  ASSERT_TRUE(start(1));
  client.done(take_offer(1).id);
  reply_v1(1);
  EXPECT_FALSE(client.take_event<ReplyReady>());
  EXPECT_TRUE(client.engine.is_offering());
  reply(1);
}

// Its answer comes late, and tells all the same.
TEST_F(Offer, IsNotSentAgainIfItsCallWasCanceled) {
  const auto id = start(1);
  ASSERT_TRUE(id);
  client.done(take_offer(1).id);
  client.engine.requester().cancel(client.now, *id);
  client.drain();
  ASSERT_TRUE(client.take_event<CallFailed>());
  ASSERT_TRUE(start(2));
  EXPECT_FALSE(client.take_action<PostSend>()) << "the credit is with the first one";
  refuse(1);
  const auto send = client.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_EQ(client.header_of(*send).header, (v1::Header{Xid{2}, 1, 4, v1::Msg{}}));
  client.done(send->id);
  EXPECT_FALSE(client.take_action<PostSend>());
}

// --- The server --------------------------------------------------------------------------------

constexpr std::array<std::byte, 8> kNoCharacteristics{};

// The client has made a Call of version 2 already, and both have said what they are.
class ServerOfBoth : public testing::Test {
 protected:
  ServerOfBoth() {
    const CallId call = receive_call(6, 2);
    const auto send = reply(call);
    EXPECT_TRUE(send);
    server.done(send->id);
    EXPECT_TRUE(server.take_event<CallDone>());
    EXPECT_FALSE(sent()) << "the client may have no Receive but for its reply";
    server.receive(message2({Xid{60}, 2, 8, v2::Optional{kCall, 1, kNoCharacteristics}}));
    const auto option = sent();
    EXPECT_TRUE(option && std::holds_alternative<v2::Optional>(option->body));
    EXPECT_EQ(option->credits, 1U) << "it requests; a grant would be 4";
  }
  CallId receive_call(std::uint32_t xid, std::uint32_t version) {
    server.receive(version == 2 ? message2({Xid{xid}, 2, 8, v2::Msg{kCall}}, 40)
                                : message({Xid{xid}, 1, 8, v1::Msg{}}, {}, 40));
    const auto call = server.take_event<CallReceived>();
    EXPECT_TRUE(call);
    return call ? call->call : CallId{};
  }
  std::optional<PostSend> reply(CallId call, std::uint32_t size = 24) {
    const Fragment run{Lease{50}, size, 0, 0};
    Outgoing outgoing;
    outgoing.stream = {&run, 1};
    server.engine.responder().start_reply(call, outgoing);
    server.drain();
    return server.take_action<PostSend>();
  }
  v2::Header header2_of(const PostSend& send) {
    const auto decoded = v2::decode(
        Bytes(server.arena_).subspan(send.header_offset, send.header_size), {}, server.lists);
    EXPECT_TRUE(decoded);
    return decoded ? decoded->header : v2::Header{};
  }
  // Takes the next Send and completes it.
  std::optional<v2::Header> sent() {
    const auto send = server.take_action<PostSend>();
    if (!send) return std::nullopt;
    const v2::Header header = header2_of(*send);
    server.done(send->id);
    return header;
  }

  Endpoint server{Role::kServer, of_versions(1, 2), LinkParameters{1024, 1024, 16, true}};
};

TEST_F(ServerOfBoth, AnswersEachCallInItsVersion) {
  for (const std::uint32_t version : {1U, 2U, 2U, 1U}) {
    const auto send = reply(receive_call(7, version));
    ASSERT_TRUE(send);
    if (version == 2) {
      EXPECT_EQ(header2_of(*send), (v2::Header{Xid{7}, 2, 4, v2::Msg{kReply}}));
    } else {
      EXPECT_EQ(server.header_of(*send).header, (v1::Header{Xid{7}, 1, 4, v1::Msg{}}));
    }
    server.done(send->id);
    EXPECT_TRUE(server.take_event<CallDone>());
  }
}

// Also where the set-up has agreed on less, or on more.
TEST_F(ServerOfBoth, SendsRepliesOf4096BytesInVersionTwo) {
  const auto send = reply(receive_call(7, 2), 4096 - 32);
  ASSERT_TRUE(send);
  EXPECT_EQ(send->gather.size(), 1U);
  server.done(send->id);
  const auto error = reply(receive_call(8, 2), 4096 - 31);
  ASSERT_TRUE(error);
  EXPECT_EQ(header2_of(*error).body, v2::Body(v2::ErrBadHeader{}));
  server.done(error->id);
  const auto old = reply(receive_call(9, 1), 1024);
  ASSERT_TRUE(old);
  EXPECT_EQ(server.header_of(*old).header.body, v1::Body(v1::ErrChunk{}));
}

TEST_F(ServerOfBoth, SendsNoInvalidateInVersionTwo) {
  for (const std::uint32_t version : {1U, 2U}) {
    ChunkLists lists;
    lists.has_reply = true;
    ASSERT_TRUE(lists.reply.push_back({SteeringTag{9}, 5000, 0}));
    server.receive(version == 2
                       ? message2({Xid{7}, 2, 8, v2::Msg{kCall}}, 40, RpcType::kCall, lists)
                       : message({Xid{7}, 1, 8, v1::Msg{}}, lists, 40));
    const auto call = server.take_event<CallReceived>();
    ASSERT_TRUE(call);
    const auto send = reply(call->call);
    ASSERT_TRUE(send);
    EXPECT_EQ(send->invalidate.has_value(), version == 1);
    server.done(send->id);
  }
}

TEST_F(ServerOfBoth, NamesBothToOtherVersions) {
  server.receive(message2({Xid{7}, 3, 8, v2::ErrVers{3, 3}}));
  EXPECT_FALSE(server.take_action<PostSend>()) << "an error is not answered";
  auto third = message2({Xid{7}, 2, 8, v2::Msg{kCall}}, 40);
  third[7] = std::byte{3};
  server.receive(third);
  const auto send = server.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_EQ(server.header_of(*send).header, (v1::Header{Xid{7}, 3, 4, v1::ErrVers{1, 2}}));
}

TEST_F(ServerOfBoth, AnswersBadHeaderWhereTheDirectionsDiffer) {
  server.receive(message2({Xid{7}, 2, 8, v2::Msg{kCall}}, 40, RpcType::kReply));
  EXPECT_FALSE(server.take_event<CallReceived>());
  EXPECT_EQ(sent(), (v2::Header{Xid{7}, 2, 4, v2::ErrBadHeader{}}));
  ChunkLists lists;
  ASSERT_TRUE(lists.reads.push_back({40, {SteeringTag{7}, 100, 0}}));
  server.receive(message2({Xid{8}, 2, 8, v2::Msg{kCall}}, 40, RpcType::kReply, lists));
  EXPECT_FALSE(server.take_event<MemoryWanted>());
  EXPECT_EQ(sent(), (v2::Header{Xid{8}, 2, 4, v2::ErrBadHeader{}}));
}

TEST_F(ServerOfBoth, AnswersBadHeaderToWhatVersionTwoHasNoMore) {
  for (const std::uint32_t type : {2U, 3U, 6U}) {  // RDMA_MSGP, RDMA_DONE
    SCOPED_TRACE(type);
    auto bytes = message2({Xid{7}, 2, 8, v2::Msg{kCall}}, 40);
    bytes[15] = static_cast<std::byte>(type);
    server.receive(bytes);
    EXPECT_EQ(sent(), (v2::Header{Xid{7}, 2, 4, v2::ErrBadHeader{}}));
  }
  auto nowhere = message2({Xid{7}, 2, 8, v2::Msg{kCall}}, 40);
  nowhere[19] = std::byte{2};
  server.receive(nowhere);
  EXPECT_EQ(sent(), (v2::Header{Xid{7}, 2, 4, v2::ErrBadHeader{}})) << "no such direction";
}

TEST_F(ServerOfBoth, DropsRepliesToNoCall) {
  server.receive(message2({Xid{7}, 2, 8, v2::Msg{kReply}}, 40, RpcType::kReply));
  EXPECT_FALSE(server.take_action<PostSend>());
  EXPECT_EQ(server.receives_posted(), 8U);
}

TEST_F(ServerOfBoth, AnswersOptionsThatItDoesNotKnow) {
  server.receive(message2({Xid{9}, 2, 8, v2::Optional{kCall, 77, {}}}));
  EXPECT_EQ(sent(), (v2::Header{Xid{9}, 2, 4, v2::ErrInvalOption{}}));
  EXPECT_FALSE(server.take_event<CallReceived>());
  EXPECT_EQ(server.engine.responder().calls_in_service(), 0U);
  EXPECT_EQ(server.receives_posted(), 8U);
  // Behind the offer, and the characteristics that came with it.
  EXPECT_EQ(counts(server), (Counts{{"calls_started", 1},
                                    {"calls_ended", 1},
                                    {"short_calls", 1},
                                    {"short_replies", 1},
                                    {"messages_received", 3},
                                    {"options_received", 2},
                                    {"err_option_sent", 1}}));
}

// A peer that sends many uses up Receives, and nothing else.
// No credit counts it, so it is no Call too many.
TEST_F(ServerOfBoth, AnswersABadOptionWithoutACredit) {
  for (std::uint32_t xid = 1; xid <= 4; ++xid) receive_call(xid, 2);
  auto bad = message2({Xid{60}, 2, 8, v2::Optional{kCall, 1, kNoCharacteristics}});
  bad.resize(bad.size() - 4);  // its information is said to be longer
  server.receive(std::move(bad));
  EXPECT_EQ(sent(), (v2::Header{Xid{60}, 2, 4, v2::ErrBadHeader{}}));
  EXPECT_FALSE(server.take_action<Disconnect>());
  EXPECT_EQ(server.engine.responder().calls_in_service(), 4U);
}

TEST_F(ServerOfBoth, KeepsTheReceiveOfAnOptionUntilItIsAnswered) {
  Endpoint other(Role::kServer, of_versions(1, 2));
  EXPECT_EQ(other.receives_posted(), 4U) << "a peer of version 1 sends none";
  EXPECT_EQ(server.receives_posted(), 8U);
  for (std::uint32_t xid = 1; xid <= 8; ++xid) {
    server.receive(message2({Xid{xid}, 2, 8, v2::Optional{kCall, 77, {}}}));
  }
  EXPECT_EQ(server.receives_posted(), 4U) << "four answers are under way";
  for (std::uint32_t xid = 1; xid <= 8; ++xid) {
    EXPECT_EQ(sent(), (v2::Header{Xid{xid}, 2, 4, v2::ErrInvalOption{}}));
  }
  EXPECT_EQ(server.receives_posted(), 8U);
  for (std::uint32_t xid = 11; xid <= 15; ++xid) {
    server.receive(message2({Xid{xid}, 2, 8, v2::Optional{kCall, 77, {}}}));
  }
  server.engine.handle_disconnected();
  server.drain();
  std::array<ReceiveId, 4> unused;
  EXPECT_EQ(server.engine.poll_unused_receives(unused).size(), 1U) << "of the one not answered";
}

// P21: else a peer could keep Receives for ever without a Call.
TEST_F(ServerOfBoth, EndsAConnectionThatTakesNoAnswers) {
  server.receive(message2({Xid{9}, 2, 8, v2::Optional{kCall, 77, {}}}));
  const auto limit = server.engine.poll_timeout();
  ASSERT_TRUE(limit);
  EXPECT_EQ(*limit - server.now, Options{}.peer_timeout);
  server.now = *limit;
  server.engine.handle_timeout(server.now);
  server.drain();
  EXPECT_TRUE(server.take_action<Disconnect>());
  EXPECT_EQ(server.engine.given_up(), GivenUp::kUnserved);
}

TEST_F(ServerOfBoth, RefusesVersionOneIfItSpeaksVersionTwoOnly) {
  Endpoint strict(Role::kServer, of_versions(2, 2));
  strict.receive(message({Xid{7}, 1, 8, v1::Msg{}}, {}, 40));
  const auto send = strict.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_EQ(strict.header_of(*send).header, (v1::Header{Xid{7}, 1, 4, v1::ErrVers{2, 2}}));
}

// --- Both directions ---------------------------------------------------------------------------

Expected<CallId, StartError> start_backward(Endpoint& server, std::uint32_t xid) {
  const Fragment run{Lease{1}, 40, 0, 0};
  Outgoing call;
  call.stream = {&run, 1};
  call.reply_size_max = 100;
  auto id = server.engine.requester().start_call(server.now, Xid{xid}, call, kTimeout);
  server.drain();
  return id;
}

TEST(BackwardCalls, AreInTheVersionOfTheClientsNewestCall) {
  Endpoint server(Role::kServer, of_versions(1, 2, 2));
  ASSERT_TRUE(start_backward(server, 1));
  auto send = server.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_EQ(server.header_of(*send).header.version, 1U) << "the client has sent nothing yet";
  server.done(send->id);
  server.receive(message2({Xid{50}, 2, 8, v2::Msg{kCall}}, 40));
  ASSERT_TRUE(server.take_event<CallReceived>());
  server.receive(message({Xid{1}, 1, 2, v1::Msg{}}, {}, 24, RpcType::kReply));
  ASSERT_TRUE(server.take_event<ReplyReady>()) << "in the version of its Call";
  server.receive(message2({Xid{51}, 2, 8, v2::Msg{kCall}}, 40));
  ASSERT_TRUE(server.take_event<CallReceived>());
  ASSERT_TRUE(start_backward(server, 2));
  send = server.take_action<PostSend>();
  ASSERT_TRUE(send);
  const auto decoded = v2::decode(
      Bytes(server.arena_).subspan(send->header_offset, send->header_size), {}, server.lists);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->header, (v2::Header{Xid{2}, 2, 2, v2::Msg{kCall}}));
}

// Those that are under way were planned for the other version.
TEST(BackwardCalls, KeepTheirVersionWhileTheyAreUnderWay) {
  Endpoint server(Role::kServer, of_versions(1, 2, 2));
  ASSERT_TRUE(start_backward(server, 1));
  ASSERT_TRUE(start_backward(server, 2));
  const auto first = server.take_action<PostSend>();
  ASSERT_TRUE(first);
  server.done(first->id);
  server.receive(message2({Xid{50}, 2, 8, v2::Msg{kCall}}, 40));
  server.receive(message({Xid{1}, 1, 2, v1::Msg{}}, {}, 24, RpcType::kReply));
  const auto second = server.take_action<PostSend>();
  ASSERT_TRUE(second);
  EXPECT_EQ(server.header_of(*second).header, (v1::Header{Xid{2}, 1, 2, v1::Msg{}}));
}

// A Long Call, whose stream the client reads; and a Reply chunk, which it writes.
Expected<CallId, StartError> start_long_backward(Endpoint& server) {
  const Fragment run{Lease{1}, 9000, 0, 0};
  Outgoing call;
  call.stream = {&run, 1};
  call.reply_size_max = 9000;
  call.reply_room = ResultRoom{Lease{5}, 9000, 0, 0};
  auto id = server.engine.requester().start_call(server.now, Xid{2}, call, kTimeout);
  server.drain();
  return id;
}
std::vector<std::byte> init_of_level(std::uint32_t level) {
  std::array<std::byte, 24> info{};
  xdr::Writer(info).words({1, 3, 4, level, 0});
  return message2({Xid{60}, 2, 8, v2::Optional{kCall, 1, Bytes(info).first(20)}});
}

TEST(BackwardCalls, HaveChunksWhereTheClientTakesThem) {
  for (const std::uint32_t level : {0U, 1U, 2U}) {
    SCOPED_TRACE(level);
    Endpoint server(Role::kServer, of_versions(1, 2, 2));
    server.receive(message2({Xid{50}, 2, 8, v2::Msg{kCall}}, 40));
    server.receive(init_of_level(level));
    const auto id = start_long_backward(server);
    EXPECT_EQ(id.has_value(), level == 2);
    if (!id) {
      EXPECT_EQ(id.error(), level == 0 ? StartError::kNotTaken : StartError::kTooLarge);
      continue;
    }
    server.expose_all();
    ASSERT_TRUE(server.take_action<PostSend>()) << "what it says of itself";
    const auto send = server.take_action<PostSend>();
    ASSERT_TRUE(send);
    const auto decoded = v2::decode(
        Bytes(server.arena_).subspan(send->header_offset, send->header_size), {}, server.lists);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->header.body, v2::Body(v2::NoMsg{kCall}));
    EXPECT_EQ(server.lists.reads.size(), 1U);
    EXPECT_TRUE(server.lists.has_reply);
  }
  Endpoint server(Role::kServer, of_versions(1, 2, 2));
  server.receive(message({Xid{50}, 1, 8, v1::Msg{}}, {}, 40));
  EXPECT_FALSE(start_long_backward(server)) << "RFC 8167 has none";
}

TEST(BackwardCalls, WithChunksAreTakenInVersionTwoOnly) {
  ChunkLists lists;
  ASSERT_TRUE(lists.reads.push_back({0, {SteeringTag{3}, 5000, 0}}));
  for (const bool takes : {true, false}) {
    SCOPED_TRACE(takes);
    Options options = of_versions(1, 2, 2);
    if (!takes) options.backward_support = BackwardSupport::kInline;
    Endpoint client(Role::kClient, options);
    ASSERT_TRUE(start_backward(client, 7));
    client.receive(message2({Xid{8}, 2, 2, v2::NoMsg{kCall}}, 0, RpcType::kCall, lists));
    EXPECT_EQ(client.take_event<MemoryWanted>().has_value(), takes);
    client.receive(message({Xid{9}, 1, 2, v1::NoMsg{}}, lists, 0));
    EXPECT_FALSE(client.take_event<MemoryWanted>());
  }
}

// A client that can make no RDMA Read takes no chunks, whatever it was set to.
TEST(BackwardCalls, AreInlineForAClientWithoutReads) {
  for (const std::uint32_t reads : {0U, 1U}) {
    Endpoint client(Role::kClient, of_versions(1, 2, 2), LinkParameters{4096, 4096, reads, false});
    EXPECT_EQ(client.engine.option_port().characteristics().own().backward,
              reads == 0 ? BackwardSupport::kInline : BackwardSupport::kGeneral);
  }
}

TEST(BackwardCalls, DoNotFollowWhatIsNoCall) {
  Endpoint server(Role::kServer, of_versions(2, 2, 2));
  server.receive(message2({Xid{50}, 2, 8, v2::Msg{kCall}}, 40));
  server.receive(message({Xid{51}, 1, 8, v1::Msg{}}, {}, 40));
  EXPECT_EQ(server.engine.link().dialect, Dialect::kV2) << "version 1 is refused";
}

// The direction is in the header: also where the message behind it does not say it.
TEST(BackwardCalls, AreDistinguishedFromRepliesByTheHeader) {
  Endpoint client(Role::kClient, of_versions(1, 2, 2));
  ASSERT_TRUE(start_backward(client, 7));
  client.receive(message2({Xid{7}, 2, 2, v2::Msg{kCall}}, 40));
  const auto call = client.take_event<CallReceived>();
  ASSERT_TRUE(call);
  EXPECT_EQ(call->xid, Xid{7});
  EXPECT_TRUE(client.engine.is_offering()) << "a Call answers nothing";
  client.receive(message2({Xid{8}, 2, 2, v2::NoMsg{kCall}}));
  ASSERT_TRUE(client.take_action<PostSend>());  // ours
  const auto send = client.take_action<PostSend>();
  ASSERT_TRUE(send);
  const auto decoded = v2::decode(
      Bytes(client.arena_).subspan(send->header_offset, send->header_size), {}, client.lists);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->header, (v2::Header{Xid{8}, 2, 2, v2::ErrBadHeader{}}));
}

// --- Peers that say anything -------------------------------------------------------------------

// One side, whose peer sends what it likes, in either version, while the side makes and answers
// calls: nothing breaks, every call ends, and every Receive is somewhere.
class Conversation {
 public:
  explicit Conversation(std::uint64_t seed)
      : random_(seed),
        role_(random_.one_in(2) ? Role::kClient : Role::kServer),
        options_(options_of(random_)),
        side_(role_, options_) {}

  void run() {
    for (int left = 300; left > 0; --left) step();
    side_.engine.handle_disconnected();
    side_.drain();
    for (int left = 100; left > 0; --left) {
      side_.complete_all(Status::kFlushed);
      answer();
    }
    EXPECT_EQ(side_.engine.requester().calls_in_flight(), 0U);
    EXPECT_EQ(side_.engine.responder().calls_in_service(), 0U);
    EXPECT_EQ(started_, ended_);
    while (side_.engine.option_port().poll_change()) --changes_;
    EXPECT_EQ(changes_, 0) << "each request ends once";
    std::array<ReceiveId, 64> unused;
    const std::size_t withheld = side_.engine.poll_unused_receives(unused).size();
    EXPECT_LE(side_.engine.receives_posted() + withheld,
              Connection::receive_count(role_, options_));
    EXPECT_GE(side_.engine.receives_posted() + withheld + OptionPort::kReceives,
              Connection::receive_count(role_, options_));
  }

 private:
  void step() {
    switch (random_.below(7)) {
      case 6:
        return change();
      case 0:
      case 1:
        if (side_.receives_posted() > 0) side_.receive(message_of_peer());
        break;
      case 2:
        start();
        break;
      case 3:
        complete_one();
        break;
      case 4:
        answer();
        break;
      default:
        if (!random_.one_in(20)) break;
        side_.now += std::chrono::seconds(random_.below(10));
        side_.engine.handle_timeout(side_.now);
        side_.drain();
    }
  }
  static Options options_of(SeededRandom& random) {
    Options options = of_versions(random.one_in(3) ? 2 : 1, 2, random.one_in(2) ? 2 : 0);
    options.receive_size_max = 16'384;
    return options;
  }
  void change() {
    constexpr std::uint32_t kSizes[] = {1000, 4096, 5000, 8192, 16'384, 70'000};
    const std::uint32_t size = kSizes[random_.below(std::size(kSizes))];
    side_.has_memory = !random_.one_in(4);
    if (random_.one_in(3)) {
      (void)side_.engine.option_port().raise_receive_size(
          std::min(size, options_.receive_size_max));
    } else if (side_.engine.option_port().ask(SmallValue::of(2, size % 2))) {
      ++changes_;
    } else if (side_.engine.option_port().ask(SmallValue::of(1, size))) {
      ++changes_;
    }
    side_.drain();
    if (random_.one_in(2) && side_.engine.option_port().poll_change()) --changes_;
  }
  std::vector<std::byte> message_of_peer() {
    const Xid xid{random_.one_in(4) ? last_option_
                                    : 1 + static_cast<std::uint32_t>(random_.below(6))};
    const auto direction = random_.one_in(2) ? kCall : kReply;
    ChunkLists lists;
    if (random_.one_in(4)) (void)lists.reads.push_back({0, {SteeringTag{3}, 100, 0}});
    if (random_.one_in(6)) {
      lists.has_reply = true;
      (void)lists.reply.push_back({SteeringTag{4}, 2000, 0});
    }
    std::array<std::byte, 40> info{};
    for (std::size_t i = 0; i < info.size(); ++i) {
      if (i % 4 == 3 || random_.one_in(9)) info[i] = static_cast<std::byte>(random_.below(5));
    }
    if (random_.one_in(3)) info[10] = std::byte{32};  // of a receive size
    const v2::Body bodies[] = {v2::Msg{direction},
                               v2::NoMsg{direction},
                               v2::ErrVers{1, 1},
                               v2::ErrVers{3, 4},
                               v2::ErrBadHeader{},
                               v2::ErrInvalOption{},
                               v2::Optional{direction, static_cast<std::uint32_t>(random_.below(6)),
                                            Bytes(info).first(4 * random_.below(11))}};
    const bool is_first_version = random_.one_in(4);
    std::vector<std::byte> bytes =
        is_first_version ? message({xid, 1, 8, v1::Msg{}}, lists, 40,
                                   direction == kCall ? RpcType::kCall : RpcType::kReply)
                         : message2({xid, 2, static_cast<std::uint32_t>(random_.below(9)),
                                     bodies[random_.below(std::size(bodies))]},
                                    random_.one_in(3) ? 0 : 40,
                                    direction == kCall ? RpcType::kCall : RpcType::kReply, lists);
    if (random_.one_in(5)) bytes[random_.below(bytes.size())] ^= std::byte{1};
    if (random_.one_in(10)) bytes.resize(random_.below(bytes.size() + 1));
    return bytes;
  }
  void start() {
    if (role_ == Role::kServer && options_.backward_calls == 0) return;
    const Fragment run{Lease{1}, 40 + static_cast<std::uint32_t>(random_.below(3000)), 0, 0};
    Outgoing call;
    call.stream = {&run, 1};
    call.reply_size_max = 100;
    last_xid_ = last_xid_ % 6 + 1;
    if (xids_[last_xid_]) return;  // one that is under way
    const auto id = side_.engine.requester().start_call(side_.now, Xid{last_xid_}, call, kTimeout);
    if (id) {
      ++started_;
      xids_[last_xid_] = id.value();
    }
    side_.drain();
  }
  void complete_one() {
    if (side_.actions.empty()) return;
    const Action action = side_.actions.front();
    side_.actions.erase(side_.actions.begin());
    if (const auto* send = std::get_if<PostSend>(&action); send && send->header_size > 16) {
      const std::byte* header = side_.arena_.data() + send->header_offset;
      if (xdr::load_word(header + 12) == 5) last_option_ = xdr::load_word(header);
    }
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (requires { value.id; } && !std::is_same_v<T, RdmaWrite>) {
            side_.engine.handle_done(
                completion_of(value.id, Status::kOk, SteeringTag{++last_tag_}, 1));
          }
        },
        action);
    side_.drain();
  }
  void ended(CallId call) {
    ++ended_;
    for (auto& [xid, id] : xids_) {
      if (id == call) id.reset();
    }
  }
  void answer() {
    while (!side_.events.empty()) {
      const Event event = side_.events.front();
      side_.events.erase(side_.events.begin());
      if (const auto* reply = std::get_if<ReplyReady>(&event)) {
        ended(reply->call);
        side_.engine.requester().release(reply->call);
      } else if (const auto* failed = std::get_if<CallFailed>(&event)) {
        ended(failed->call);
      } else if (const auto* received = std::get_if<CallReceived>(&event)) {
        const Fragment run{Lease{50}, 24 + static_cast<std::uint32_t>(random_.below(5000)), 0, 0};
        Outgoing outgoing;
        outgoing.stream = {&run, 1};
        side_.engine.responder().start_reply(received->call, outgoing);
      } else if (const auto* wanted = std::get_if<MemoryWanted>(&event)) {
        random_.one_in(2) ? side_.engine.responder().reject(wanted->call)
                          : side_.engine.responder().lend(wanted->call, Lease{60}, 0);
      }
      side_.drain();
    }
  }

  SeededRandom random_;
  const Role role_;
  const Options options_;
  Endpoint side_;
  std::map<std::uint32_t, std::optional<CallId>> xids_;
  std::uint32_t last_xid_ = 0, last_tag_ = 0;
  std::uint32_t last_option_ = 0;  // the XID of one of ours
  int started_ = 0, ended_ = 0, changes_ = 0;
};

TEST(AnyPeer, BreaksNothingInEitherVersion) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    Conversation(seed).run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace rpcrdma::engine
