#include "engine/requester.h"

#include <gtest/gtest.h>

#include <functional>

#include "engine/client_for_test.h"
#include "support/hex.h"

namespace rpcrdma::engine {
namespace {

using wire::ChunkLists;
using wire::Segment;
using wire::v1::Header;

TEST_F(Client, HoldsTheSecondCallUntilTheFirstReply) {
  ASSERT_TRUE(start_null(1));
  ASSERT_TRUE(start_null(2));
  EXPECT_EQ(sent(), 1U);
  end(1);
  EXPECT_EQ(sent(), 1U);
}

TEST_F(Client, CountsTheCallsThatWaitForACreditAndTheirTime) {
  const Counters& counters = client.engine.counters();
  ASSERT_TRUE(start_null(1));
  EXPECT_EQ(sent(), 1U);
  client.now += std::chrono::milliseconds(3);
  for (const std::uint32_t xid : {2U, 3U, 4U}) ASSERT_TRUE(start_null(xid));
  EXPECT_EQ(sent(), 0U);
  EXPECT_EQ(counters.credit_waits, 3U);
  EXPECT_EQ(counters.credit_wait_ns, 0U) << "they have just come";
  client.now += std::chrono::milliseconds(5);
  end(1, 2);
  EXPECT_EQ(sent(), 2U);
  EXPECT_EQ(counters.credit_wait_ns, 15'000'000U) << "three times 5 ms";
  client.now += std::chrono::milliseconds(7);
  end(2, 4);
  EXPECT_EQ(sent(), 1U);
  EXPECT_EQ(counters.credit_wait_ns, 22'000'000U) << "the third one alone";
  client.now += std::chrono::seconds(1);
  end(3);
  ASSERT_TRUE(start_null(5));
  EXPECT_EQ(sent(), 1U);
  EXPECT_EQ(counters.credit_waits, 3U);
  EXPECT_EQ(counters.credit_wait_ns, 22'000'000U) << "nobody has waited";
}

TEST_F(Client, CountsNoWaitOfACallThatWasGivenUpBeforeItHadACredit) {
  const Counters& counters = client.engine.counters();
  ASSERT_TRUE(start_null(1));
  EXPECT_EQ(sent(), 1U);
  const auto waiting = start_null(2);
  ASSERT_TRUE(waiting);
  EXPECT_EQ(sent(), 0U);
  client.now += std::chrono::milliseconds(5);
  client.engine.requester().cancel(client.now, *waiting);
  client.drain();
  EXPECT_EQ(counters.credit_wait_ns, 5'000'000U);
  client.now += std::chrono::milliseconds(5);
  end(1);
  EXPECT_EQ(counters.credit_wait_ns, 5'000'000U) << "it waits no more";
}

TEST_F(Client, AsksForItsCreditsInEveryCall) {
  ASSERT_TRUE(start_null(1));
  auto send = client.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_EQ(client.header_of(*send).header.credits, 4U);
  client.done(send->id);
  end(1);
  start_with_chunks(2);
  client.expose_all();
  send = client.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_EQ(client.header_of(*send).header.credits, 4U);
  EXPECT_EQ(CreditsV1(0).requested(), 1U) << "zero would stop the connection for ever";
}

// RFC 8166 §3.3.2: the thresholds of a connection stay, however many messages it has seen.
TEST_F(Client, ThresholdStaysTheSameHoweverManyRepliesCome) {
  for (std::uint32_t xid = 1; xid < 200; ++xid) {
    ASSERT_TRUE(start_null(xid));
    sent();
    end(xid);
  }
  const Fragment run{Lease{1}, 4096 - 28, 0, 0};
  Outgoing call;
  call.stream = {&run, 1};
  call.reply_size_max = 4096 - 28;
  ASSERT_TRUE(client.engine.requester().start_call(client.now, Xid{1000}, call, kTimeout));
  client.drain();
  const auto send = client.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_EQ(send->gather[0].size, 4096U - 28);
}

TEST_F(Client, PutsAShortHeaderInFrontOfTheStreamWhereThereIsRoom) {
  std::array<std::byte, kShortHeaderSizeMax + 40> room{};
  const Fragment run{Lease{1}, 40, 100, 0};
  Outgoing call;
  call.stream = {&run, 1};
  call.reply_size_max = 100;
  call.header_room = room.data();
  ASSERT_TRUE(client.engine.requester().start_call(client.now, Xid{7}, call, kTimeout));
  client.drain();
  const auto send = client.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_EQ(send->header_size, 0U);
  ASSERT_EQ(send->gather.size(), 1U);
  EXPECT_EQ(send->gather[0], (Fragment{Lease{1}, 28 + 40, 72, 0}));
  std::array<std::byte, 28> expected{};
  ASSERT_TRUE(wire::v1::encode({Xid{7}, 1, 4, wire::v1::Msg{}}, {}, expected));
  EXPECT_TRUE(std::ranges::equal(expected, Bytes(room).subspan(kShortHeaderSizeMax - 28, 28)));
  EXPECT_EQ(room[kShortHeaderSizeMax], std::byte{0}) << "the stream is not touched";
}

TEST_F(Client, LeavesTheRoomInFrontOfTheStreamAloneWhenTheHeaderHasChunks) {
  const Fragment stream[] = {{Lease{1}, 40, 100, 0}, {Lease{2}, 3000, 0, 1}};
  std::array<std::byte, kShortHeaderSizeMax> room{};
  Outgoing call;
  call.stream = stream;
  call.reply_size_max = 100;
  call.header_room = room.data();
  ASSERT_TRUE(client.engine.requester().start_call(client.now, Xid{7}, call, kTimeout));
  client.drain();
  client.expose_all();
  const auto send = client.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_GT(send->header_size, 28U);
  EXPECT_EQ(send->gather[0], stream[0]);
  EXPECT_EQ(room, (std::array<std::byte, kShortHeaderSizeMax>{}));
}

TEST_F(Client, SendsAsManyCallsAsTheSmallerOfRequestedAndGranted) {
  ASSERT_TRUE(start_null(1));
  EXPECT_EQ(sent(), 1U);
  end(1, 100);
  for (std::uint32_t xid = 2; xid < 10; ++xid) ASSERT_TRUE(start_null(xid));
  EXPECT_EQ(sent(), 4U) << "requested 4";
  end(2, 2);
  EXPECT_EQ(sent(), 0U) << "a smaller grant holds new Calls back, 3 are out";
  end(3, 2);
  EXPECT_EQ(sent(), 0U);
  end(4, 2);
  EXPECT_EQ(sent(), 1U);
}

// A server that grants fewer takes Receives back as its replies go out; that one of them came too
// late is nothing that it knows. Seed 11926 of the simulation.
TEST_F(Client, ALateReplyGrantsCreditsToo) {
  ASSERT_TRUE(start_null(1));
  EXPECT_EQ(sent(), 1U);
  end(1, 4);
  ASSERT_TRUE(start_null(2));
  ASSERT_TRUE(start_null(3));
  EXPECT_EQ(sent(), 2U);
  client.now += kTimeout;
  client.engine.handle_timeout(client.now);
  client.drain();
  ASSERT_TRUE(start_null(4));
  ASSERT_TRUE(start_null(5));
  EXPECT_EQ(sent(), 2U);
  answer(2, 1);  // nobody waits for it any more
  ASSERT_TRUE(start_null(6));
  EXPECT_EQ(sent(), 0U) << "three are unanswered, with one credit";
}

// RFC 8166 §3.3.1. On a connection the Receives posted for replies hold Calls back as well.
TEST(Credits, LimitIsTheSmallerOfAskedAndGranted) {
  CreditsV1 credits(4);
  EXPECT_EQ(credits.limit(), 1U) << "until the first reply";
  credits.grant(100);
  EXPECT_EQ(credits.limit(), 4U);
  credits.grant(3);
  EXPECT_EQ(credits.limit(), 3U);
  credits.grant(0);
  EXPECT_EQ(credits.limit(), 1U);
}

TEST_F(Client, RepliesWithChunksGrantCreditsToo) {
  start_with_chunks(1);
  client.expose_all();
  sent();
  ChunkLists lists;
  const Segment written[] = {{SteeringTag{3}, 10, 0}};
  ASSERT_TRUE(lists.writes.push_back(written));
  answer(1, 3, lists);
  client.revoke_all();
  const auto reply = client.take_event<ReplyReady>();
  ASSERT_TRUE(reply);
  client.engine.requester().release(reply->call);
  for (std::uint32_t xid = 2; xid < 8; ++xid) ASSERT_TRUE(start_null(xid));
  EXPECT_EQ(sent(), 3U);
}

TEST_F(Client, GrantOfZeroCountsAsOne) {
  ASSERT_TRUE(start_null(1));
  sent();
  end(1, 0);
  ASSERT_TRUE(start_null(2));
  EXPECT_EQ(sent(), 1U);
}

TEST_F(Client, SendsNoCallWithoutAReceiveForItsReply) {
  ASSERT_TRUE(start_null(1));
  sent();
  end(1);
  std::vector<CallId> held;
  for (std::uint32_t xid = 2; xid < 6; ++xid) {
    ASSERT_TRUE(start_null(xid));
    sent();
    answer(xid);
    held.push_back(client.take_event<ReplyReady>()->call);
  }
  ASSERT_TRUE(start_null(6));
  EXPECT_EQ(sent(), 0U) << "every Receive holds a reply that is being read";
  client.engine.requester().release(held[0]);
  client.drain();
  EXPECT_EQ(sent(), 1U);
}

TEST_F(Client, RefusesMoreCallsThanItHasRoomFor) {
  for (std::uint32_t xid = 0; xid < 8; ++xid) ASSERT_TRUE(start_null(xid));
  EXPECT_EQ(start_null(9).error(), StartError::kQueueFull);
}

TEST_F(Client, ExposesExactlyWhatItsHeaderNames) {
  start_with_chunks(1);
  std::vector<Expose> exposures;
  for (const Action& action : client.actions) exposures.push_back(std::get<Expose>(action));
  ASSERT_EQ(exposures.size(), 4U);
  EXPECT_EQ(exposures[0].access, work::RemoteAccess::kRead);
  EXPECT_EQ(exposures[1].size, 2000U);
  EXPECT_EQ(exposures[2].access, work::RemoteAccess::kWrite);
  EXPECT_EQ(exposures[3].memory, Lease{5});
  EXPECT_EQ(exposures[3].access, work::RemoteAccess::kWrite);
  client.expose_all();
  const auto send = client.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_EQ(client.header_of(*send).header, (Header{Xid{1}, 1, 4, wire::v1::Msg{}}));
  ASSERT_EQ(client.lists.reads.size(), 2U);
  EXPECT_EQ(client.lists.reads[1].position, 40U);
  EXPECT_EQ(client.lists.reads[1].target, (Segment{SteeringTag{2}, 2000, 0x2000}));
  EXPECT_EQ(client.lists.writes.chunk(0)[0], (Segment{SteeringTag{3}, 8192, 0x3000}));
  EXPECT_EQ(client.lists.reply[0], (Segment{SteeringTag{4}, 9000, 0x4000}));
}

TEST_F(Client, CountsTheChunksThatItOffers) {
  start_with_chunks(1);
  client.expose_all();
  EXPECT_EQ(sent(), 1U);
  const Counters& counters = client.engine.counters();
  EXPECT_EQ(counters.read_chunk_count, 1U);
  EXPECT_EQ(counters.read_chunk_bytes, 5000U);
  EXPECT_EQ(counters.write_chunk_count, 1U);
  EXPECT_EQ(counters.reply_chunk_count, 1U);
}

TEST_F(Client, RevokesEveryHandleBeforeTheReplyIsReady) {
  start_with_chunks(1);
  client.expose_all();
  sent();
  ChunkLists lists;
  const Segment written{SteeringTag{3}, 5000, 0x3000};
  ASSERT_TRUE(lists.writes.push_back({&written, 1}));
  answer(1, 4, lists);
  std::size_t revoked = 0;
  while (const auto revoke = client.take_action<Revoke>()) {
    EXPECT_FALSE(client.take_event<ReplyReady>()) << "after " << revoked << " of 4";
    client.done(revoke->id);
    ++revoked;
  }
  EXPECT_EQ(revoked, 4U);
  const auto reply = client.take_event<ReplyReady>();
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->results_written.size(), 1U);
  EXPECT_EQ(reply->results_written[0], 5000U);
  EXPECT_EQ(reply->in_reply_chunk, 0U);
}

TEST_F(Client, ReplyMayComeBeforeTheCompletionOfItsOwnSend) {
  ASSERT_TRUE(start_null(1));
  const auto send = client.take_action<PostSend>();
  answer(1);
  EXPECT_FALSE(client.take_event<ReplyReady>()) << "the Send's memory is still lent";
  client.done(send->id);
  EXPECT_TRUE(client.take_event<ReplyReady>());
}

TEST_F(Client, TakesEveryFormOfReturnedWriteLists) {
  const auto run = [&](std::uint32_t xid, const ChunkLists& lists) {
    start_with_chunks(xid);
    client.expose_all();
    sent();
    answer(xid, 4, lists);
    client.revoke_all();
    const auto reply = client.take_event<ReplyReady>();
    EXPECT_TRUE(reply);
    const std::uint32_t written = reply ? reply->results_written[0] : 0;
    if (reply) client.engine.requester().release(reply->call);
    client.drain();
    return written;
  };
  ChunkLists full;
  const Segment segments[] = {{SteeringTag{3}, 70, 0}, {SteeringTag{3}, 0, 0}};
  ASSERT_TRUE(full.writes.push_back(segments));
  full.has_reply = true;
  ASSERT_TRUE(full.reply.push_back({SteeringTag{4}, 0, 0}));
  EXPECT_EQ(run(1, full), 70U);
  ChunkLists shortened;
  ASSERT_TRUE(shortened.writes.push_back({}));
  EXPECT_EQ(run(2, shortened), 0U);
  EXPECT_EQ(run(3, {}), 0U) << "no list at all, as ntirpc does";
}

TEST_F(Client, LongReplyIsTakenFromTheReplyChunk) {
  start_with_chunks(1);
  client.expose_all();
  sent();
  ChunkLists lists;
  lists.has_reply = true;
  ASSERT_TRUE(lists.reply.push_back({SteeringTag{4}, 8800, 0x4000}));
  answer(1, 4, lists, wire::v1::NoMsg{}, 0);
  client.revoke_all();
  EXPECT_EQ(client.take_event<ReplyReady>()->in_reply_chunk, 8800U);
}

TEST_F(Client, HandleInvalidatedByThePeerIsNotRevokedAgain) {
  start_with_chunks(1);
  client.expose_all();
  sent();
  answer(1, 4, {}, wire::v1::Msg{}, 24, SteeringTag{2});
  client.revoke_all();
  EXPECT_EQ(client.revoked, (std::vector{SteeringTag{1}, SteeringTag{3}, SteeringTag{4}}));
  EXPECT_TRUE(client.take_event<ReplyReady>());
}

// The time-out wants to revoke the handle, and before it is asked for the peer has done it.
TEST_F(Client, CallThatGaveUpEndsWhenItsLastHandleIsInvalidatedByThePeer) {
  const Fragment stream[] = {{Lease{1}, 40, 0, 0}, {Lease{2}, 3000, 0, 1}};
  Outgoing call;
  call.stream = stream;
  call.reply_size_max = 100;
  ASSERT_TRUE(client.engine.requester().start_call(client.now, Xid{1}, call, kTimeout));
  client.drain();
  client.expose_all();
  sent();
  client.now += kTimeout;
  client.engine.handle_timeout(client.now);
  answer(1, 4, {}, wire::v1::Msg{}, 24, SteeringTag{1});
  const auto failed = client.take_event<CallFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error, CallError::kTimedOut);
  EXPECT_FALSE(client.take_action<Revoke>());
  EXPECT_EQ(client.receives_posted(), 4U);
}

// The error came just before the time-out: revoking has fence_timeout all the same.
TEST_F(Client, CallThatFailsRightBeforeItsDeadlineDoesNotEndTheConnection) {
  start_with_chunks(1);
  client.expose_all();
  sent();
  client.now += kTimeout - std::chrono::nanoseconds(1);
  answer(1, 4, {}, wire::v1::ErrChunk{}, 0);
  const Instant limit = client.now + Options{}.fence_timeout;
  client.now += std::chrono::nanoseconds(1);
  client.engine.handle_timeout(client.now);
  client.drain();
  EXPECT_FALSE(client.take_action<Disconnect>());
  EXPECT_EQ(client.engine.poll_timeout(), limit);
  client.now = limit;
  client.engine.handle_timeout(client.now);
  client.drain();
  EXPECT_TRUE(client.take_action<Disconnect>()) << "but not longer";
  EXPECT_EQ(client.engine.given_up(), GivenUp::kUnfenced);
  client.revoke_all();
  EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kChunk);
}

TEST_F(Client, HandleOfAnotherCallInvalidatedEndsTheConnection) {
  ASSERT_TRUE(start_null(1));
  sent();
  end(1);
  start_with_chunks(2);
  client.expose_all();
  ASSERT_TRUE(start_null(3));
  sent();
  answer(3, 4, {}, wire::v1::Msg{}, 24, SteeringTag{1});
  EXPECT_TRUE(client.take_action<Disconnect>());
  EXPECT_EQ(client.engine.given_up(), GivenUp::kBadInvalidation);
}

// --- Bad replies: docs/invariants.md, P10 to P13 -----------------------------------------------

TEST_F(Client, ErrorHeadersFailTheCallAndKeepTheConnection) {
  const std::pair<wire::v1::Body, CallError> cases[] = {
      {wire::v1::ErrVers{2, 2}, CallError::kVersion}, {wire::v1::ErrChunk{}, CallError::kChunk}};
  for (const auto& [body, error] : cases) {
    start_with_chunks(1);
    client.expose_all();
    sent();
    answer(1, 4, {}, body, 0);
    EXPECT_FALSE(client.take_event<CallFailed>()) << "before the memory is safe";
    client.revoke_all();
    EXPECT_EQ(client.take_event<CallFailed>()->error, error);
    EXPECT_EQ(client.receives_posted(), 4U);
  }
}

TEST_F(Client, ErrorHeadersGrantCreditsAsRepliesDo) {
  ASSERT_TRUE(start_null(1));
  for (std::uint32_t user = 2; user < 5; ++user) ASSERT_TRUE(start_null(user));
  EXPECT_EQ(sent(), 1U) << "one Call until the first reply";
  answer(1, 3, {}, wire::v1::ErrChunk{}, 0);
  EXPECT_EQ(sent(), 3U);
}

// RFC 5531 §9: a denial with AUTH_ERROR is shorter than any accepted reply.
TEST_F(Client, TakesTheShortestReplyThatRpcHas) {
  ASSERT_TRUE(start_null(1));
  sent();
  answer(1, 4, {}, wire::v1::Msg{}, 20);
  EXPECT_TRUE(client.take_event<ReplyReady>());
}

struct BadReply {
  const char* name;
  std::function<std::vector<std::byte>()> make;
  bool fails_the_call;  // else it is dropped
};
void PrintTo(const BadReply& bad, std::ostream* out) {
  *out << bad.name;
}

std::vector<std::byte> reply_with(const std::function<void(ChunkLists&)>& fill,
                                  wire::v1::Body body = wire::v1::Msg{}, std::size_t payload = 24) {
  ChunkLists lists;
  fill(lists);
  return message(Header{Xid{1}, 1, 4, body}, lists, payload, RpcType::kReply);
}
void add_write(ChunkLists& lists, std::uint32_t length) {
  const Segment segment{SteeringTag{3}, length, 0};
  EXPECT_TRUE(lists.writes.push_back({&segment, 1}));
}
void set_reply(ChunkLists& lists, std::uint32_t length) {
  lists.has_reply = true;
  EXPECT_TRUE(lists.reply.push_back({SteeringTag{4}, length, 0}));
}

const BadReply kBadReplies[] = {
    {"TooShort", [] { return std::vector<std::byte>(12); }, false},
    {"UnknownXid",
     [] {
       return message(Header{Xid{99}, 1, 4, wire::v1::Msg{}}, {}, 24, RpcType::kReply);
     },
     false},
    {"OtherVersion",
     [] { return test::hex("00000001 00000002 00000004 00000000 00000000 00000000 00000000"); },
     false},
    {"CutOff", [] { return test::hex("00000001 00000001 00000004 00000000 00000000"); }, false},
    {"UnknownError", [] { return test::hex("00000001 00000001 00000004 00000004 00000009"); },
     false},
    {"Msgp",
     [] {
       return reply_with([](auto&) {}, wire::v1::Msgp{4, 4});
     },
     false},
    {"Done", [] { return reply_with([](auto&) {}, wire::v1::Done{}, 0); }, false},
    {"ReadList",
     [] {
       return reply_with([](auto& lists) {
         EXPECT_TRUE(lists.reads.push_back({24, {SteeringTag{9}, 100, 0}}));
       });
     },
     true},
    {"MoreWrittenThanOffered",
     [] { return reply_with([](auto& lists) { add_write(lists, 8193); }); }, true},
    {"MoreWriteChunksThanOffered",
     [] {
       return reply_with([](auto& lists) {
         add_write(lists, 1);
         add_write(lists, 1);
       });
     },
     true},
    {"MsgWithAUsedReplyChunk", [] { return reply_with([](auto& lists) { set_reply(lists, 8); }); },
     true},
    {"NoMsgWithoutAReplyChunk", [] { return reply_with([](auto&) {}, wire::v1::NoMsg{}, 0); },
     true},
    {"MoreInTheReplyChunkThanOffered",
     [] { return reply_with([](auto& lists) { set_reply(lists, 9001); }, wire::v1::NoMsg{}, 0); },
     true},
    {"ReplyChunkTooSmallForAReply",
     [] { return reply_with([](auto& lists) { set_reply(lists, 16); }, wire::v1::NoMsg{}, 0); },
     true},
    {"PayloadTooSmallForAReply", [] { return reply_with([](auto&) {}, wire::v1::Msg{}, 16); },
     true},
    {"XidsThatDiffer",
     [] {
       auto bytes = reply_with([](auto&) {});
       bytes[28] = std::byte{0xff};
       return bytes;
     },
     true},
};

class BadReplies : public testing::TestWithParam<BadReply> {};

TEST_P(BadReplies, AreDroppedOrFailTheirCallAndTheConnectionLives) {
  Endpoint client(Role::kClient, small());
  const Fragment stream[] = {{Lease{1}, 40, 0, 0}, {Lease{2}, 3000, 0, 1}};
  const ResultRoom room{Lease{4}, 8192, 0, 1};
  Outgoing call{stream, {&room, 1}, 8192 + 8000, ResultRoom{Lease{5}, 9000, 0, 0}};
  ASSERT_TRUE(client.engine.requester().start_call(client.now, Xid{1}, call, kTimeout));
  client.drain();
  client.expose_all();
  client.done(client.take_action<PostSend>()->id);
  client.receive(GetParam().make());
  client.revoke_all();
  EXPECT_EQ(client.receives_posted(), 4U);
  EXPECT_FALSE(client.take_action<Disconnect>());
  EXPECT_FALSE(client.take_event<ReplyReady>());
  const auto failed = client.take_event<CallFailed>();
  EXPECT_EQ(failed.has_value(), GetParam().fails_the_call);
  if (failed) {
    EXPECT_EQ(failed->error, CallError::kBadReply);
    return;
  }
  // Dropped: a good reply still ends the call.
  client.receive(message(Header{Xid{1}, 1, 4, wire::v1::Msg{}}, {}, 24, RpcType::kReply));
  client.revoke_all();
  EXPECT_TRUE(client.take_event<ReplyReady>());
}

INSTANTIATE_TEST_SUITE_P(Requester, BadReplies, testing::ValuesIn(kBadReplies),
                         [](const auto& test) { return test.param.name; });

// --- Giving up ---------------------------------------------------------------------------------

TEST_F(Client, CallTimesOutOnceItsMemoryIsSafe) {
  start_with_chunks(1);
  client.expose_all();
  sent();
  answer(99);  // the peer is alive
  ASSERT_EQ(client.engine.poll_timeout(), client.now + kTimeout);
  client.now += kTimeout;
  client.engine.handle_timeout(client.now);
  client.drain();
  EXPECT_FALSE(client.take_event<CallFailed>());
  client.revoke_all();
  EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kTimedOut);
  EXPECT_EQ(client.engine.requester().calls_in_flight(), 0U);
}

TEST_F(Client, MemoryThatCannotBeMadeSafeEndsTheConnection) {
  grant(4);
  start_with_chunks(1);
  client.expose_all();
  sent();
  answer(99);
  client.now += kTimeout;
  client.engine.handle_timeout(client.now);
  client.drain();
  ASSERT_TRUE(client.engine.poll_timeout());
  client.now = *client.engine.poll_timeout();
  client.engine.handle_timeout(client.now);
  client.drain();
  EXPECT_TRUE(client.take_action<Disconnect>());
  client.engine.handle_disconnected();
  client.complete_all(Status::kFlushed);
  EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kTimedOut) << "the first cause";
}

TEST_F(Client, ReplyWhoseSendIsStuckEndsTheConnectionAfterOneFenceTimeout) {
  ASSERT_TRUE(start_null(1));
  answer(1);
  ASSERT_TRUE(client.take_action<PostSend>()) << "which does not complete";
  ASSERT_EQ(client.engine.poll_timeout(), client.now + small().fence_timeout);
  time_out();
  EXPECT_TRUE(client.take_action<Disconnect>());
}

TEST_F(Client, CallWhoseSendIsStuckBehindOthersThatLeaveKeepsTheConnection) {
  grant(4);
  ASSERT_TRUE(start_null(1));
  const auto stuck = start_null(2);
  ASSERT_TRUE(stuck);
  const auto first = client.take_action<PostSend>();
  ASSERT_TRUE(first) << "which leaves slowly";
  client.engine.requester().cancel(client.now, *stuck);
  client.drain();
  const Instant canceled = client.now;
  const auto pass = [&](Instant until) {
    client.now = until;
    client.engine.handle_time(until);
    client.engine.handle_timeout(until);
    client.drain();
  };
  pass(canceled + std::chrono::milliseconds(900));
  client.done(first->id);
  pass(canceled + small().fence_timeout);
  EXPECT_FALSE(client.take_action<Disconnect>());
  pass(canceled + std::chrono::milliseconds(899) + small().fence_timeout);
  EXPECT_FALSE(client.take_action<Disconnect>());
  pass(canceled + std::chrono::milliseconds(900) + small().fence_timeout);
  EXPECT_TRUE(client.take_action<Disconnect>()) << "nothing has left since";
}

// The peer has begun a Write into its memory, which holds the handle: a Send that was posted later
// shows that nothing else does.
TEST_F(Client, CallWhoseHandleIsHeldBackEndsTheConnectionThoughLaterCallsLeave) {
  grant(4);
  start_with_chunks(1);
  client.expose_all();
  sent();
  const Instant canceled = client.now;
  client.engine.requester().cancel(canceled, *last_call);
  client.drain();
  const auto send_another = [&](std::uint32_t xid) {
    ASSERT_TRUE(start_null(xid));
    const auto send = client.take_action<PostSend>();
    ASSERT_TRUE(send);
    client.done(send->id);
    answer(xid);
  };
  const auto pass = [&](Instant until) {
    client.now = until;
    client.engine.handle_time(until);
    client.engine.handle_timeout(until);
    client.drain();
  };
  pass(canceled + small().fence_timeout / 2);
  send_another(2);
  pass(canceled + small().fence_timeout - std::chrono::milliseconds(1));
  send_another(3);
  EXPECT_FALSE(client.take_action<Disconnect>());
  pass(canceled + small().fence_timeout);
  EXPECT_TRUE(client.take_action<Disconnect>());
  EXPECT_EQ(client.engine.given_up(), GivenUp::kUnfenced);
}

TEST_F(Client, CanceledCallHasTheFenceTimeoutForItsMemoryNotItsOwn) {
  grant(4);
  start_with_chunks(1);
  client.expose_all();
  sent();
  client.engine.requester().cancel(client.now, *last_call);
  client.drain();
  EXPECT_EQ(client.engine.poll_timeout(), client.now + small().fence_timeout);
}

// --- Connections that are of no use any more (ADR 17) ------------------------------------------

TEST_F(Client, SilenceSinceACallThatTimesOutEndsTheConnection) {
  grant(4);
  ASSERT_TRUE(start_null(1));
  sent();
  time_out();
  EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kTimedOut);
  EXPECT_TRUE(client.take_action<Disconnect>());
  EXPECT_EQ(client.engine.given_up(), GivenUp::kSilent);
}

// Messages that came while this side was away are not all taken when the time is over.
TEST_F(Client, SilenceOfAPeerIsNotJudgedWhenThisSideWasAway) {
  grant(4);
  ASSERT_TRUE(start_null(1));
  sent();
  client.now += kTimeout + std::chrono::seconds(5);
  client.engine.handle_timeout(client.now);
  client.drain();
  EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kTimedOut);
  EXPECT_FALSE(client.take_action<Disconnect>());
}

// Memory that cannot be made safe is the reason, though another call shows silence as well.
TEST_F(Client, ReportsTheFirstReasonToGiveUp) {
  grant(4);
  start_with_chunks(1);
  client.expose_all();
  sent();
  answer(1, 4, {}, wire::v1::ErrChunk{}, 0);
  ASSERT_TRUE(start_null(2, Options{}.fence_timeout));
  sent();
  client.now += Options{}.fence_timeout;
  client.engine.handle_timeout(client.now);
  client.drain();
  EXPECT_TRUE(client.take_action<Disconnect>());
  EXPECT_EQ(client.engine.given_up(), GivenUp::kUnfenced);
}

class PatientClient : public Client {
 protected:
  static Options patient() {
    Options options = small();
    options.ends_silent_connections = false;
    return options;
  }
  PatientClient() : Client(patient()) {}
};

TEST_F(PatientClient, EndsASilentConnectionWhenNoCreditIsLeft) {
  grant(2);
  for (const std::uint32_t xid : {1U, 2U}) {
    EXPECT_FALSE(client.take_action<Disconnect>());
    ASSERT_TRUE(start_null(xid));
    sent();
    time_out();
    EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kTimedOut);
  }
  EXPECT_TRUE(client.take_action<Disconnect>()) << "no call can be sent any more";
  EXPECT_EQ(client.engine.given_up(), GivenUp::kNoCredits);
}

class NarrowClient : public Client {
 protected:
  static Options narrow() {
    Options options = small();
    options.calls_max = 2;
    return options;
  }
  NarrowClient() : Client(narrow()) {}
};

// Replies are lost, and other messages come.
TEST_F(NarrowClient, EndsTheConnectionWhenCallsThatGaveUpHoldEverySlot) {
  grant(4);
  for (const std::uint32_t xid : {1U, 2U}) {
    EXPECT_FALSE(client.take_action<Disconnect>());
    ASSERT_TRUE(start_null(xid)) << "a slot is left";
    sent();
    answer(99);
    time_out();
    EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kTimedOut);
  }
  EXPECT_TRUE(client.take_action<Disconnect>()) << "no call can be started any more";
  EXPECT_EQ(client.engine.given_up(), GivenUp::kNoCredits);
}

TEST_F(Client, SlowCallOnAConnectionThatAnswersOthersEndsAlone) {
  grant(4);
  ASSERT_TRUE(start_null(1));
  client.now += std::chrono::seconds(1);
  ASSERT_TRUE(start_null(2));
  sent();
  end(2);
  ASSERT_TRUE(start_null(3));
  sent();
  client.now += kTimeout - std::chrono::seconds(1);
  client.engine.handle_timeout(client.now);
  client.drain();
  EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kTimedOut);
  EXPECT_FALSE(client.take_action<Disconnect>());
  EXPECT_EQ(client.engine.given_up(), GivenUp::kNot);
  end(3);
}

TEST_F(Client, CallThatTimesOutBeforeItIsSentEndsNothing) {
  ASSERT_TRUE(start_null(1));
  sent();
  answer(99);
  const Fragment run{Lease{1}, 40, 0, 0};
  Outgoing call;
  call.stream = {&run, 1};
  ASSERT_TRUE(client.engine.requester().start_call(client.now, Xid{2}, call, kTimeout / 2));
  client.drain();
  client.now += kTimeout / 2;
  client.engine.handle_timeout(client.now);
  client.drain();
  EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kTimedOut);
  EXPECT_FALSE(client.take_action<Disconnect>()) << "the first call is within its time";
}

TEST_F(Client, CallsThatGaveUpAndHoldEveryCreditEndTheConnection) {
  grant(2);
  const auto canceled = start_null(1);
  ASSERT_TRUE(start_null(2));
  EXPECT_EQ(sent(), 2U);
  answer(99);  // not silent
  client.engine.requester().cancel(client.now, *canceled);
  client.drain();
  EXPECT_TRUE(client.take_event<CallFailed>());
  EXPECT_FALSE(client.take_action<Disconnect>()) << "the other may be answered";
  time_out();
  EXPECT_TRUE(client.take_action<Disconnect>());
  EXPECT_EQ(client.engine.given_up(), GivenUp::kNoCredits);
}

TEST_F(Client, CanceledCallsThatHoldEveryCreditEndTheConnectionWhenACallWaitsInVain) {
  const auto canceled = start_null(1);
  sent();
  client.engine.requester().cancel(client.now, *canceled);
  ASSERT_TRUE(start_null(2));
  EXPECT_TRUE(client.take_event<CallFailed>());
  time_out();
  EXPECT_EQ(client.engine.given_up(), GivenUp::kNoCredits);
}

TEST_F(Client, CallThatGaveUpKeepsItsCreditUntilThePeerAnswers) {
  const auto call = start_null(1);
  sent();
  client.engine.requester().cancel(client.now, *call);
  client.drain();
  EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kCanceled);
  ASSERT_TRUE(start_null(2));
  EXPECT_EQ(sent(), 0U);
  answer(1, 4);
  EXPECT_FALSE(client.take_event<ReplyReady>());
  EXPECT_EQ(sent(), 1U);
}

TEST_F(Client, CallThatNeverWentOutLeavesNothingBehind) {
  ASSERT_TRUE(start_null(1));
  const auto waiting = start_null(2);
  client.engine.requester().cancel(client.now, *waiting);
  client.drain();
  EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kCanceled);
  // Its slot may wait again, many times over.
  for (std::uint32_t xid = 10; xid < 200; ++xid) {
    client.engine.requester().cancel(client.now, *start_null(xid));
    client.drain();
    EXPECT_TRUE(client.take_event<CallFailed>());
  }
  EXPECT_EQ(sent(), 1U);
  EXPECT_EQ(client.engine.requester().calls_in_flight(), 1U);
}

TEST_F(Client, MemoryThatCannotBeExposedFailsTheCallAndRevokesTheRest) {
  start_with_chunks(1);
  const auto first = client.take_action<Expose>();
  client.done(first->id, Status::kLocalError);
  client.expose_all();
  client.revoke_all();
  EXPECT_EQ(client.revoked.size(), 3U);
  EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kNoMemory);
  ASSERT_TRUE(start_null(2));
  EXPECT_EQ(sent(), 1U) << "the Call never went out: its credit is free";
}

TEST_F(Client, ExposureThatIsFlushedTellsThatTheConnectionIsLost) {
  start_with_chunks(1);
  client.complete_all(Status::kFlushed);
  EXPECT_EQ(client.take_event<CallFailed>()->error, CallError::kConnectionLost);
}

// --- Loss of the connection at every step -------------------------------------------------------

TEST_F(Client, CallThatIsLostAtAnyStepEndsOnce) {
  for (int lost_at = 0; lost_at < 5; ++lost_at) {
    SCOPED_TRACE(lost_at);
    Endpoint endpoint(Role::kClient, small());
    int step = 0;
    bool lost = false;
    const auto lose = [&] {
      if (step++ == lost_at) {
        endpoint.engine.handle_disconnected();
        lost = true;
      }
      endpoint.drain();
    };
    const Fragment stream[] = {{Lease{1}, 40, 0, 0}, {Lease{2}, 3000, 0, 1}};
    Outgoing call;
    call.stream = stream;
    call.reply_size_max = 100;
    ASSERT_TRUE(endpoint.engine.requester().start_call(endpoint.now, Xid{1}, call, kTimeout));
    endpoint.drain();
    lose();
    endpoint.complete_all(lost ? Status::kFlushed : Status::kOk);
    lose();
    if (!lost)
      endpoint.receive(message(Header{Xid{1}, 1, 4, wire::v1::Msg{}}, {}, 24, RpcType::kReply));
    lose();
    endpoint.complete_all(lost ? Status::kFlushed : Status::kOk);
    lose();
    const auto failed = endpoint.take_event<CallFailed>();
    const auto ready = endpoint.take_event<ReplyReady>();
    EXPECT_NE(failed.has_value(), ready.has_value()) << "exactly one end";
    EXPECT_EQ(failed.has_value(), lost_at < 2) << "a reply that was here counts";
    if (failed) {
      EXPECT_EQ(failed->error, CallError::kConnectionLost);
    }
    EXPECT_EQ(endpoint.engine.requester().calls_in_flight(), 0U);
    lose();
    EXPECT_TRUE(endpoint.events.empty());
  }
}

TEST_F(Client, CallsAfterTheEndAreRefused) {
  client.engine.handle_disconnected();
  EXPECT_EQ(start_null(1).error(), StartError::kNotConnected);
}

TEST(Negotiate, ThresholdsAreTheSmallerOfBothSides) {
  Options options;
  options.inline_send = 8192;
  options.inline_receive = 2048;
  const auto peer = test::hex("f6ab0e18 01 01 00 03");
  const LinkParameters result = negotiate(options, peer, 5);
  EXPECT_EQ(result.inline_send, 4096U);
  EXPECT_EQ(result.inline_receive, 1024U);
  EXPECT_TRUE(result.remote_invalidation);
  EXPECT_EQ(result.reads_in_flight_max, 5U);
}

// Private data says sizes in KiB: the peer of a side with 2930 bytes believes in 2048.
// RFC 8797 §4.1: both sides have to set flag R.
TEST(Negotiate, RemoteInvalidationTakesTheFlagOfBothSides) {
  for (const bool own : {false, true}) {
    for (const bool peers : {false, true}) {
      Options options, peer;
      options.remote_invalidation = own;
      peer.remote_invalidation = peers;
      EXPECT_EQ(negotiate(options, private_data(peer), 1).remote_invalidation, own && peers)
          << own << peers;
    }
  }
}

TEST(Negotiate, CountsOnNoMoreThanWasAnnounced) {
  Options options;
  options.inline_send = 2930;
  options.inline_receive = 3071;
  const auto peer = test::hex("f6ab0e18 01 01 07 07");
  const LinkParameters result = negotiate(options, peer, 5);
  EXPECT_EQ(result.inline_send, 2048U);
  EXPECT_EQ(result.inline_receive, 2048U);
}

TEST(Negotiate, LongSendsAreForReceivesThatWereMadeForThem) {
  Options options;
  options.inline_send = 8192;
  options.inline_arguments_max = 65'536;
  EXPECT_EQ(send_size_of_peer(private_data(options)), 69'632U);
  const auto send_size_to = [&](std::uint32_t receive_size) {
    Options peer;
    peer.inline_receive = receive_size;
    return negotiate(options, private_data(peer), 5).inline_send;
  };
  EXPECT_EQ(send_size_to(131'072), 69'632U);
  EXPECT_EQ(send_size_to(66'560), 66'560U);
  EXPECT_EQ(send_size_to(65'536), 8192U) << "of a device whose server has --inline 64k";
  EXPECT_EQ(send_size_to(4096), 4096U);
}

TEST(Negotiate, PeerWithoutPrivateDataGetsTheDefaults) {
  const LinkParameters result = negotiate({}, {}, 16);
  EXPECT_EQ(result.inline_send, 1024U);
  EXPECT_EQ(result.inline_receive, 1024U);
  EXPECT_FALSE(result.remote_invalidation);
}

}  // namespace
}  // namespace rpcrdma::engine
