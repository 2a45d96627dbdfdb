#include "engine/responder.h"

#include <gtest/gtest.h>

#include <functional>

#include "engine/server_for_test.h"
#include "support/hex.h"

namespace rpcrdma::engine {
namespace {

using wire::ChunkLists;
using wire::ReadSegment;
using wire::Segment;
using wire::v1::Header;

TEST_F(Server, PostsItsReceivesBeforeAnythingElse) {
  EXPECT_EQ(server.receives_posted(), 4U);
}

TEST_F(Server, CountsTheCallsThatTakeTheLastCredit) {
  for (std::uint32_t i = 0; i < 3; ++i) server.receive(message(call_header(), {}, 40));
  EXPECT_EQ(server.engine.counters().credits_exhausted, 0U);
  server.receive(message(call_header(), {}, 40));
  EXPECT_EQ(server.engine.counters().credits_exhausted, 1U) << "four are granted";
}

TEST_F(Server, AnswersAShortCallAndGivesItsCreditBackFirst) {
  server.receive(message(call_header(), {}, 40));
  const auto call = server.take_event<CallReceived>();
  ASSERT_TRUE(call);
  EXPECT_EQ(call->xid, kXid);
  EXPECT_EQ(call->inline_part.size(), 40U);
  EXPECT_EQ(server.receives_posted(), 3U);
  const Fragment run{Lease{50}, 24, 0, 0};
  Outgoing outgoing;
  outgoing.stream = {&run, 1};
  server.engine.responder().start_reply(call->call, outgoing);
  std::array<work::Request, 8> room;
  std::array<Slices, 8> slices;
  EXPECT_TRUE(server.engine.poll_work(room, slices).empty()) << "RFC 8166: the Receive comes first";
  std::array<ReceiveId, 8> receives;
  EXPECT_EQ(server.engine.poll_receives(receives).size(), 1U);
  const auto requests = server.engine.poll_work(room, slices);
  ASSERT_EQ(requests.size(), 1U);
  const auto send = std::get<PostSend>(kept(requests[0]));
  const auto decoded = server.header_of(send);
  EXPECT_EQ(decoded.header, (Header{kXid, 1, 4, wire::v1::Msg{}}));
  EXPECT_TRUE(server.lists.empty());
  server.done(send.id);
  const auto done = server.take_event<CallDone>();
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->replied);
  EXPECT_EQ(server.engine.responder().calls_in_service(), 0U);
}

// --- Grants that change

// Serves Calls by hand: the peer has sent some of them before it saw the newest grant.
class ChangingGrants : public Server {
 protected:
  CallId call(std::uint32_t xid) {
    server.receive(message({Xid{xid}, 1, 8, wire::v1::Msg{}}, {}, 40));
    const auto received = server.take_event<CallReceived>();
    EXPECT_TRUE(received);
    return received->call;
  }
  // Answers and gives the credits that the reply grants.
  std::uint32_t answer(CallId id) {
    reply(id);
    const auto send = server.take_action<PostSend>();
    EXPECT_TRUE(send);
    server.done(send->id);
    return server.header_of(*send).header.credits;
  }
};

TEST_F(ChangingGrants, ASmallerGrantKeepsReceivesForCallsThatMayBeOnTheirWay) {
  const CallId first = call(1);
  server.engine.responder().set_credits(1);
  server.drain();
  EXPECT_EQ(server.receives_posted(), 3U) << "nothing is taken back";
  EXPECT_EQ(answer(first), 1U);
  EXPECT_EQ(server.receives_posted(), 3U) << "three may still be on their way";
  const CallId more[] = {call(2), call(3), call(4)};
  EXPECT_EQ(server.receives_posted(), 0U);
  EXPECT_EQ(answer(more[0]), 1U);
  EXPECT_EQ(server.receives_posted(), 0U);
  EXPECT_EQ(answer(more[1]), 1U);
  EXPECT_EQ(server.receives_posted(), 0U);
  EXPECT_EQ(answer(more[2]), 1U);
  EXPECT_EQ(server.receives_posted(), 1U) << "one Call at a time from now on";
  EXPECT_EQ(answer(call(5)), 1U);
  EXPECT_EQ(server.receives_posted(), 1U);
}

// Memory of Receives that a smaller grant does not need can be lent to other connections.
TEST_F(ChangingGrants, WithheldReceivesAreReportedOnceUntilTheyArePostedAgain) {
  std::array<ReceiveId, 8> room;
  EXPECT_TRUE(server.engine.poll_unused_receives(room).empty());
  server.engine.responder().set_credits(1);
  for (std::uint32_t xid = 1; xid < 5; ++xid) {
    EXPECT_EQ(answer(call(xid)), 1U);
    EXPECT_EQ(server.engine.poll_unused_receives(room).size(), xid < 4 ? 1U : 0U) << xid;
  }
  server.engine.responder().set_credits(3);
  server.drain();
  EXPECT_EQ(server.receives_posted(), 3U);
  EXPECT_TRUE(server.engine.poll_unused_receives(room).empty());
  server.engine.responder().set_credits(2);
  EXPECT_EQ(answer(call(5)), 2U);
  EXPECT_EQ(server.engine.poll_unused_receives(room).size(), 1U);
  EXPECT_TRUE(server.engine.poll_unused_receives(room).empty());
}

TEST_F(ChangingGrants, AfterTheEndAllIsUnusedThatNobodyReads) {
  std::array<ReceiveId, 8> room;
  const CallId slow = call(1);
  server.engine.handle_disconnected();
  EXPECT_TRUE(server.engine.poll_unused_receives(room).empty());
  server.receive(message({Xid{2}, 1, 8, wire::v1::Msg{}}, {}, 40));  // came before the end, too
  EXPECT_EQ(server.engine.poll_unused_receives(room).size(), 1U);
  reply(slow);
  EXPECT_EQ(server.engine.poll_unused_receives(room).size(), 1U);
}

TEST_F(ChangingGrants, ALargerGrantPostsItsReceivesFirst) {
  server.engine.responder().set_credits(1);
  for (std::uint32_t xid = 1; xid < 5; ++xid) EXPECT_EQ(answer(call(xid)), 1U);
  EXPECT_EQ(server.receives_posted(), 1U);
  server.engine.responder().set_credits(3);
  server.drain();
  EXPECT_EQ(server.receives_posted(), 3U);
  EXPECT_EQ(answer(call(5)), 3U);
  server.engine.responder().set_credits(100);
  server.drain();
  EXPECT_EQ(server.receives_posted(), 4U) << "Options::credits is the most";
  EXPECT_EQ(answer(call(6)), 4U);
  server.engine.responder().set_credits(0);
  EXPECT_EQ(answer(call(7)), 1U) << "never none";
}

TEST_F(ChangingGrants, AConnectionMayBeginWithFew) {
  Options options = small();
  options.credits_at_first = 1;
  Endpoint narrow(Role::kServer, options);
  EXPECT_EQ(narrow.receives_posted(), 1U);
  narrow.engine.responder().set_credits(4);
  narrow.drain();
  EXPECT_EQ(narrow.receives_posted(), 4U);
}

TEST_F(Server, PullsReadChunksIntoLentMemoryThenHandsTheCallOver) {
  ChunkLists lists;
  add_read(lists, 40, 4096, 1);
  add_read(lists, 40, 1904, 2);
  server.receive(message(call_header(), lists, 44));
  const auto wanted = server.take_event<MemoryWanted>();
  ASSERT_TRUE(wanted);
  EXPECT_EQ(wanted->position, 40U);
  EXPECT_EQ(wanted->size, 6000U);
  EXPECT_EQ(wanted->inline_part.size(), 44U);
  server.engine.responder().lend(wanted->call, Lease{9}, 512);
  server.drain();
  const auto first = server.take_action<RdmaRead>();
  const auto second = server.take_action<RdmaRead>();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->to_offset, 512U);
  EXPECT_EQ(second->to_offset, 512U + 4096);
  EXPECT_EQ(second->from, (Segment{SteeringTag{2}, 1904, 100}));
  server.done(first->id);
  EXPECT_FALSE(server.take_event<CallReceived>());
  server.done(second->id);
  const auto call = server.take_event<CallReceived>();
  ASSERT_TRUE(call);
  ASSERT_EQ(call->items.size(), 1U);
  EXPECT_EQ(call->items[0].data, (Fragment{Lease{9}, 6000, 512, 0}));
  const Fragment stream[] = {{Lease{1}, 28, 0, 0}};
  Outgoing outgoing;
  outgoing.stream = stream;
  server.engine.responder().start_reply(call->call, outgoing);
  server.drain();
  const auto send = server.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_FALSE(send->follows_writes) << "a provider may copy it, and need not tell when it is out";
}

// RFC 8166 §3.4.5: a peer may list chunks in any order; segments of a chunk are in its own order.
TEST_F(Server, ChunksOutOfOrderAreBroughtIntoTheOrderOfTheirPositions) {
  ChunkLists lists;
  add_read(lists, 80, 2000, 3);
  add_read(lists, 40, 16, 1);
  add_read(lists, 80, 500, 4);
  add_read(lists, 40, 20, 2);
  server.receive(message(call_header(), lists, 60));
  const std::pair<std::uint32_t, std::uint32_t> chunks[] = {{40, 36}, {80, 2500}};
  std::vector<SteeringTag> handles;
  for (const auto& [position, size] : chunks) {
    const auto wanted = server.take_event<MemoryWanted>();
    ASSERT_TRUE(wanted);
    EXPECT_EQ(wanted->position, position);
    EXPECT_EQ(wanted->size, size);
    server.engine.responder().lend(wanted->call, Lease{position}, 0);
    server.drain();
    while (const auto read = server.take_action<RdmaRead>()) {
      handles.push_back(read->from.handle);
      server.done(read->id);
    }
  }
  EXPECT_EQ(handles, (std::vector{SteeringTag{1}, SteeringTag{2}, SteeringTag{3}, SteeringTag{4}}));
  const auto call = server.take_event<CallReceived>();
  ASSERT_TRUE(call);
  ASSERT_EQ(call->items.size(), 2U);
  EXPECT_EQ(call->items[0].position, 40U);
  EXPECT_EQ(call->items[1].position, 80U);
}

// RFC 8166 §4.3: what the Call had in its Read list is not repeated.
TEST_F(Server, ReadChunkOfExactlyTheLimitIsTakenAndOneWordMoreIsNot) {
  Options options = small();
  options.read_chunk_size_max = 8000;
  options.long_call_size_max = 600;
  for (const bool is_long : {false, true}) {
    for (const std::uint32_t more : {0U, 4U}) {
      Endpoint endpoint(Role::kServer, options);
      ChunkLists lists;
      add_read(lists, is_long ? 0 : 40, (is_long ? 600 : 8000) + more, 1);
      endpoint.receive(
          message(call_header(is_long ? wire::v1::Body(wire::v1::NoMsg{}) : wire::v1::Msg{}), lists,
                  is_long ? 0 : 44));
      EXPECT_EQ(endpoint.take_event<MemoryWanted>().has_value(), more == 0) << is_long;
      EXPECT_EQ(endpoint.engine.counters().err_chunk_sent, more == 0 ? 0U : 1U) << is_long;
    }
  }
}

TEST_F(Server, CallIsHandedOverOnlyWhenEverySegmentIsRead) {
  LinkParameters one_read = Endpoint::connected();
  one_read.reads_in_flight_max = 1;
  Endpoint endpoint(Role::kServer, small(), one_read);
  ChunkLists lists;
  for (std::uint32_t handle = 1; handle <= 3; ++handle) add_read(lists, 40, 1000, handle);
  endpoint.receive(message(call_header(), lists, 44));
  const auto wanted = endpoint.take_event<MemoryWanted>();
  ASSERT_TRUE(wanted);
  endpoint.engine.responder().lend(wanted->call, Lease{9}, 0);
  endpoint.drain();
  for (int left = 3; left > 0; --left) {
    EXPECT_FALSE(endpoint.take_event<CallReceived>()) << left << " segments are to be read";
    const auto read = endpoint.take_action<RdmaRead>();
    ASSERT_TRUE(read);
    EXPECT_FALSE(endpoint.take_action<RdmaRead>()) << "one at a time";
    endpoint.done(read->id);
  }
  EXPECT_TRUE(endpoint.take_event<CallReceived>());
}

TEST_F(Server, ReadListIsNotCopiedIntoTheReply) {
  ChunkLists lists;
  add_read(lists, 40, 4096, 1);
  const Segment chunk[] = {{SteeringTag{5}, 3000, 0}};
  ASSERT_TRUE(lists.writes.push_back(chunk));
  server.receive(message(call_header(), lists, 44));
  const auto wanted = server.take_event<MemoryWanted>();
  ASSERT_TRUE(wanted);
  server.engine.responder().lend(wanted->call, Lease{9}, 0);
  server.drain();
  server.done(server.take_action<RdmaRead>()->id);
  // Another Call's header is decoded in between.
  server.receive(message(call_header(), lists, 44));
  const Fragment stream[] = {{Lease{1}, 28, 0, 0}};
  Outgoing outgoing;
  outgoing.stream = stream;
  server.engine.responder().start_reply(server.take_event<CallReceived>()->call, outgoing);
  server.drain();
  const auto send = server.take_action<PostSend>();
  ASSERT_TRUE(send);
  (void)server.header_of(*send);
  EXPECT_TRUE(server.lists.reads.empty());
  EXPECT_EQ(server.lists.writes.size(), 1U);
}

TEST_F(Server, LongCallIsPulledFirstThenItsOtherChunks) {
  ChunkLists lists;
  add_read(lists, 400, 1000, 2);
  add_read(lists, 0, 600, 1);
  server.receive(message(call_header(wire::v1::NoMsg{}), lists, 0));
  auto wanted = server.take_event<MemoryWanted>();
  ASSERT_TRUE(wanted);
  EXPECT_EQ(wanted->position, 0U);
  EXPECT_EQ(wanted->size, 600U);
  server.engine.responder().lend(wanted->call, Lease{1}, 0);
  server.drain();
  server.done(server.take_action<RdmaRead>()->id);
  wanted = server.take_event<MemoryWanted>();
  ASSERT_TRUE(wanted);
  EXPECT_EQ(wanted->position, 400U);
  ASSERT_TRUE(wanted->long_part);
  EXPECT_EQ(wanted->long_part->size, 600U);
  server.engine.responder().lend(wanted->call, Lease{2}, 0);
  server.drain();
  server.done(server.take_action<RdmaRead>()->id);
  const auto call = server.take_event<CallReceived>();
  ASSERT_TRUE(call);
  EXPECT_TRUE(call->long_part);
  EXPECT_EQ(call->items.size(), 1U);
}

TEST_F(Server, ChunkOfLengthZeroNeedsNoMemory) {
  ChunkLists lists;
  add_read(lists, 40, 0);
  server.receive(message(call_header(), lists, 44));
  const auto call = server.take_event<CallReceived>();
  ASSERT_TRUE(call);
  ASSERT_EQ(call->items.size(), 1U);
  EXPECT_EQ(call->items[0].data.size, 0U);
}

TEST_F(Server, ReadsInFlightStayWithinTheLimitAcrossCalls) {
  LinkParameters link = Endpoint::connected();
  link.reads_in_flight_max = 2;
  Endpoint bounded(Role::kServer, small(), link);
  for (int i = 0; i < 2; ++i) {
    ChunkLists lists;
    for (int j = 0; j < 3; ++j) add_read(lists, 40, 100);
    bounded.receive(message(call_header(), lists, 44));
  }
  int completed = 0;
  for (;;) {
    if (const auto wanted = bounded.take_event<MemoryWanted>()) {
      bounded.engine.responder().lend(wanted->call, Lease{1}, 0);
      bounded.drain();
    }
    if (bounded.actions.empty()) break;
    EXPECT_LE(bounded.actions.size(), 2U);
    bounded.done(bounded.take_action<RdmaRead>()->id);
    ++completed;
  }
  EXPECT_EQ(completed, 6);
  EXPECT_TRUE(bounded.take_event<CallReceived>());
  EXPECT_TRUE(bounded.take_event<CallReceived>());
}

TEST_F(Server, ResultsGoByWritesBeforeTheSend) {
  ChunkLists lists;
  const Segment chunk[] = {{SteeringTag{5}, 3000, 0x10}, {SteeringTag{6}, 3000, 0x20}};
  ASSERT_TRUE(lists.writes.push_back(chunk));
  server.receive(message(call_header(), lists, 40));
  const auto call = server.take_event<CallReceived>();
  const Fragment stream[] = {{Lease{1}, 28, 0, 0}, {Lease{2}, 4001, 8, 1}, {Lease{1}, 3, 28, 0}};
  Outgoing outgoing;
  outgoing.stream = stream;
  server.engine.responder().start_reply(call->call, outgoing);
  server.drain();
  ASSERT_EQ(server.actions.size(), 3U);
  const auto& first = std::get<RdmaWrite>(server.actions[0]);
  EXPECT_EQ(first.from_offset, 8U);
  EXPECT_EQ(first.to, (Segment{SteeringTag{5}, 3000, 0x10}));
  EXPECT_EQ(std::get<RdmaWrite>(server.actions[1]).to, (Segment{SteeringTag{6}, 1001, 0x20}));
  const auto& send = std::get<PostSend>(server.actions[2]);
  EXPECT_TRUE(send.follows_writes);
  ASSERT_EQ(send.gather.size(), 1U) << "without the item and its padding";
  EXPECT_EQ(send.gather[0].size, 28U);
  server.header_of(send);
  EXPECT_EQ(server.lists.writes.chunk(0)[1].length, 1001U);
}

// Found by fuzz_engine. The link ends while a call's Writes are in the provider's queue and its
// Send, for which there was no room, is not: the Send is answered first, and with it the call is
// over.
TEST_F(Server, WriteThatIsFlushedBehindTheEndOfItsCallIsNobodys) {
  ChunkLists lists;
  const Segment chunk[] = {{SteeringTag{5}, 3000, 0x10}};
  ASSERT_TRUE(lists.writes.push_back(chunk));
  server.receive(message(call_header(), lists, 40));
  const Fragment stream[] = {{Lease{1}, 28, 0, 0}, {Lease{2}, 3000, 0, 1}};
  Outgoing outgoing;
  outgoing.stream = stream;
  server.engine.responder().start_reply(server.take_event<CallReceived>()->call, outgoing);
  server.drain();
  const auto write = server.take_action<RdmaWrite>();
  const auto send = server.take_action<PostSend>();
  ASSERT_TRUE(write && send);
  server.done(send->id, Status::kFlushed);
  server.engine.handle_disconnected();
  server.drain();
  const auto done = server.take_event<CallDone>();
  ASSERT_TRUE(done);
  EXPECT_FALSE(done->replied);
  server.done(write->id, Status::kFlushed);
  EXPECT_EQ(server.engine.responder().calls_in_service(), 0U);
}

// --- Refused Writes

TEST_F(Server, RefusedWriteIsOfItsCallThoughAnotherHasComeSince) {
  const auto serve = [&](std::uint32_t handle) {
    ChunkLists lists;
    const Segment chunk[] = {{SteeringTag{handle}, 3000, 0x10}};
    EXPECT_TRUE(lists.writes.push_back(chunk));
    server.receive(message(call_header(), lists, 40));
    const auto call = server.take_event<CallReceived>()->call;
    const Fragment stream[] = {{Lease{1}, 28, 0, 0}, {Lease{2}, 3000, 0, 1}};
    Outgoing outgoing;
    outgoing.stream = stream;
    server.engine.responder().start_reply(call, outgoing);
    server.drain();
    server.done(server.take_action<PostSend>()->id);
    return call;
  };
  const CallId first = serve(5);
  EXPECT_EQ(slot_of(serve(6)), slot_of(first));
  server.engine.handle_disconnected(RefusedWrite{Segment{SteeringTag{5}, 0, 0x10}});
  server.drain();
  const auto refused = server.take_event<ChunkRefused>();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->call, first);
}

TEST_F(Server, InvalidatesTheOneHandleOfACallWhenThePeerTakesIt) {
  LinkParameters link = Endpoint::connected();
  link.remote_invalidation = true;
  for (const bool two_handles : {false, true}) {
    Endpoint endpoint(Role::kServer, small(), link);
    ChunkLists lists;
    const Segment chunk[] = {{SteeringTag{5}, 3000, 0}, {SteeringTag{two_handles ? 6U : 5U}, 9, 0}};
    ASSERT_TRUE(lists.writes.push_back(chunk));
    endpoint.receive(message(call_header(), lists, 40));
    const Fragment run{Lease{50}, 24, 0, 0};
    Outgoing outgoing;
    outgoing.stream = {&run, 1};
    endpoint.engine.responder().start_reply(endpoint.take_event<CallReceived>()->call, outgoing);
    endpoint.drain();
    const auto send = endpoint.take_action<PostSend>();
    EXPECT_EQ(send->invalidate.has_value(), !two_handles);
  }
}

LinkParameters invalidating() {
  LinkParameters link = Endpoint::connected();
  link.remote_invalidation = true;
  return link;
}
ChunkLists one_handle() {
  ChunkLists lists;
  const Segment chunk[] = {{SteeringTag{5}, 3000, 0}};
  EXPECT_TRUE(lists.writes.push_back(chunk));
  return lists;
}

TEST_F(Server, ErrorHeadersInvalidateNothing) {
  Endpoint endpoint(Role::kServer, small(), invalidating());
  const ChunkLists lists = one_handle();
  endpoint.receive(message(call_header(), lists, 40));
  endpoint.engine.responder().reject(endpoint.take_event<CallReceived>()->call);
  endpoint.drain();
  const auto send = endpoint.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_TRUE(std::holds_alternative<wire::v1::ErrChunk>(endpoint.header_of(*send).header.body));
  EXPECT_FALSE(send->invalidate);
}

TEST_F(Server, RepliesToCallsWithoutChunksInvalidateNothing) {
  Endpoint endpoint(Role::kServer, small(), invalidating());
  const ChunkLists lists = one_handle();  // of every other Call: it must not count for the next
  for (int i = 0; i < 60; ++i) {
    endpoint.receive(message(call_header(), i % 2 == 0 ? lists : ChunkLists{}, 40));
    const Fragment run{Lease{50}, 24, 0, 0};
    Outgoing outgoing;
    outgoing.stream = {&run, 1};
    endpoint.engine.responder().start_reply(endpoint.take_event<CallReceived>()->call, outgoing);
    endpoint.drain();
    const auto send = endpoint.take_action<PostSend>();
    ASSERT_TRUE(send);
    EXPECT_EQ(send->invalidate.has_value(), i % 2 == 0) << i;
    endpoint.done(send->id);
  }
}

// --- Bad input: docs/invariants.md, P1 to P5 ---------------------------------------------------

enum class Answer { kDropped, kErrChunk, kErrVers };
struct BadMessage {
  const char* name;
  std::function<std::vector<std::byte>()> make;
  Answer answer;
};
void PrintTo(const BadMessage& bad, std::ostream* out) {
  *out << bad.name;
}

std::vector<std::byte> with_reads(std::vector<ReadSegment> reads, bool is_long,
                                  std::size_t payload) {
  ChunkLists lists;
  for (const ReadSegment& read : reads) EXPECT_TRUE(lists.reads.push_back(read));
  return message(call_header(is_long ? wire::v1::Body(wire::v1::NoMsg{}) : wire::v1::Msg{}), lists,
                 payload);
}
Segment segment(std::uint32_t length) {
  return {SteeringTag{1}, length, 0};
}

const BadMessage kBadMessages[] = {
    {"Empty", [] { return std::vector<std::byte>{}; }, Answer::kDropped},
    {"FifteenBytes", [] { return std::vector<std::byte>(15); }, Answer::kDropped},
    {"Error", [] { return message(call_header(wire::v1::ErrChunk{}), {}, 0); }, Answer::kDropped},
    {"Done", [] { return message(call_header(wire::v1::Done{}), {}, 0); }, Answer::kDropped},
    {"ErrorOfAnyVersion",
     [] { return test::hex("11223344 00000009 00000001 00000004 00000001 00000001 00000001"); },
     Answer::kDropped},
    {"Version2", [] { return test::hex("11223344 00000002 00000020 00000000"); }, Answer::kErrVers},
    {"Version0", [] { return test::hex("11223344 00000000 00000020 00000063"); }, Answer::kErrVers},
    {"UnknownType", [] { return test::hex("11223344 00000001 00000020 00000005"); },
     Answer::kErrChunk},
    {"Msgp",
     [] {
       return message(call_header(wire::v1::Msgp{4, 4}), {}, 40);
     },
     Answer::kErrChunk},
    {"ListsCutOff", [] { return test::hex("11223344 00000001 00000020 00000000 00000000"); },
     Answer::kErrChunk},
    {"ListWordTwo",
     [] {
       return test::hex(
           "11223344 00000001 00000020 00000000 00000002 00000000 00000000 11223344 00000000");
     },
     Answer::kErrChunk},
    {"HugeSegmentCount",
     [] {
       return test::hex(
           "11223344 00000001 00000020 00000000 00000000 00000001 10000000 00000000 00000000");
     },
     Answer::kErrChunk},
    {"MsgWithoutPayload", [] { return message(call_header(), {}, 0); }, Answer::kErrChunk},
    {"NoMsgWithoutPositionZero", [] { return message(call_header(wire::v1::NoMsg{}), {}, 0); },
     Answer::kErrChunk},
    {"NoMsgWithPayload",
     [] {
       return with_reads({{0, segment(100)}}, true, 40);
     },
     Answer::kErrChunk},
    {"LongCallOfNothing",
     [] {
       return with_reads({{0, segment(0)}}, true, 0);
     },
     Answer::kErrChunk},
    {"MsgWithPositionZero",
     [] {
       return with_reads({{0, segment(100)}}, false, 40);
     },
     Answer::kErrChunk},
    {"OddPosition",
     [] {
       return with_reads({{42, segment(100)}}, false, 48);
     },
     Answer::kErrChunk},
    {"PositionBeyondTheStream",
     [] {
       return with_reads({{52, segment(100)}}, false, 48);
     },
     Answer::kErrChunk},
    {"OverlappingChunks",
     [] {
       return with_reads({{40, segment(100)}, {80, segment(4)}}, false, 48);
     },
     Answer::kErrChunk},
    {"ChunkTooLarge",
     [] {
       return with_reads({{40, segment(0xffffffff)}}, false, 48);
     },
     Answer::kErrChunk},
    {"LengthsThatWrap",
     [] {
       return with_reads({{40, segment(0x80000000)}, {40, segment(0x80000000)}}, false, 48);
     },
     Answer::kErrChunk},
    {"LongCallTooLarge",
     [] {
       return with_reads({{0, segment(0x40000000)}}, true, 0);
     },
     Answer::kErrChunk},
    {"TooManyChunks",
     [] {
       std::vector<ReadSegment> reads;
       for (std::uint32_t i = 0; i < 20; ++i) reads.push_back({40 + 4 * i, segment(4)});
       return with_reads(reads, false, 48);
     },
     Answer::kErrChunk},
    {"XidsThatDiffer",
     [] {
       return test::hex(
           "11223344 00000001 00000020 00000000 00000000 00000000 00000000 99999999 00000000");
     },
     Answer::kErrChunk},
};

class BadInput : public testing::TestWithParam<BadMessage> {};

TEST_P(BadInput, HasItsOutcomeAndTheConnectionLives) {
  Endpoint server(Role::kServer, small());
  server.receive(GetParam().make());
  EXPECT_TRUE(server.events.empty());
  if (GetParam().answer == Answer::kDropped) {
    EXPECT_TRUE(server.actions.empty());
  } else {
    const auto send = server.take_action<PostSend>();
    ASSERT_TRUE(send);
    EXPECT_TRUE(send->gather.empty());
    const Header header = server.header_of(*send).header;
    EXPECT_EQ(header.xid, kXid);
    EXPECT_EQ(header.credits, 4U);
    if (GetParam().answer == Answer::kErrVers) {
      EXPECT_EQ(header.body, wire::v1::Body(wire::v1::ErrVers{1, 1}));
      EXPECT_NE(header.version, 1U) << "echoes the version that it answers";
    } else {
      EXPECT_EQ(header.body, wire::v1::Body(wire::v1::ErrChunk{}));
    }
    server.done(send->id);
  }
  EXPECT_EQ(server.receives_posted(), 4U) << "the Receive is posted again";
  EXPECT_EQ(server.engine.responder().calls_in_service(), 0U);
  server.receive(message(call_header(), {}, 40));
  EXPECT_TRUE(server.take_event<CallReceived>());
}

INSTANTIATE_TEST_SUITE_P(Responder, BadInput, testing::ValuesIn(kBadMessages),
                         [](const auto& test) { return test.param.name; });

TEST_F(Server, HandleInvalidatedByAClientEndsTheConnection) {
  server.receive(message(call_header(), {}, 40), SteeringTag{5});
  EXPECT_TRUE(server.take_action<Disconnect>());
  EXPECT_EQ(server.engine.given_up(), GivenUp::kBadInvalidation);
  EXPECT_FALSE(server.take_event<CallReceived>());
}

TEST_F(Server, RefusesReadChunksWhenThePeerServesNoReads) {
  LinkParameters link = Endpoint::connected();
  link.reads_in_flight_max = 0;
  Endpoint endpoint(Role::kServer, small(), link);
  ChunkLists lists;
  add_read(lists, 40, 100);
  endpoint.receive(message(call_header(), lists, 44));
  EXPECT_EQ(endpoint.header_of(*endpoint.take_action<PostSend>()).header.body,
            wire::v1::Body(wire::v1::ErrChunk{}));
}

// --- Loss of the connection at every step -------------------------------------------------------

TEST_F(Server, CallThatIsLostAtAnyStepIsDoneOnce) {
  for (int lost_at = 0; lost_at < 6; ++lost_at) {
    SCOPED_TRACE(lost_at);
    Endpoint endpoint(Role::kServer, small());
    int step = 0;
    const auto lose = [&] {
      if (step++ == lost_at) endpoint.engine.handle_disconnected();
      endpoint.drain();
    };
    ChunkLists lists;
    add_read(lists, 40, 100);
    endpoint.receive(message(call_header(), lists, 44));
    lose();
    const auto wanted = endpoint.take_event<MemoryWanted>();
    ASSERT_TRUE(wanted);
    endpoint.engine.responder().lend(wanted->call, Lease{1}, 0);
    lose();
    const bool read_posted = !endpoint.actions.empty();
    if (read_posted) {
      endpoint.done(endpoint.take_action<RdmaRead>()->id,
                    lost_at == 1 ? Status::kFlushed : Status::kOk);
    }
    lose();
    const auto call = endpoint.take_event<CallReceived>();
    lose();
    if (call) {
      const Fragment run{Lease{50}, 24, 0, 0};
      Outgoing outgoing;
      outgoing.stream = {&run, 1};
      endpoint.engine.responder().start_reply(call->call, outgoing);
    }
    lose();
    endpoint.complete_all(lost_at <= 4 ? Status::kFlushed : Status::kOk);
    lose();
    const auto done = endpoint.take_event<CallDone>();
    ASSERT_TRUE(done);
    EXPECT_EQ(done->replied, lost_at == 5);
    EXPECT_FALSE(endpoint.take_event<CallDone>());
    EXPECT_EQ(endpoint.engine.responder().calls_in_service(), 0U);
  }
}

TEST_F(Server, PeerThatHasNothingToDoForUsMayBeIdleForEver) {
  server.receive(message(call_header(), {}, 40));
  reply(server.take_event<CallReceived>()->call);
  EXPECT_TRUE(server.engine.poll_timeout()) << "the reply is on its way";
  server.done(server.take_action<PostSend>()->id);
  EXPECT_FALSE(server.engine.poll_timeout());
}

TEST_F(Server, FailedReadEndsTheConnection) {
  ChunkLists lists;
  add_read(lists, 40, 100);
  server.receive(message(call_header(), lists, 44));
  server.engine.responder().lend(server.take_event<MemoryWanted>()->call, Lease{1}, 0);
  server.drain();
  server.done(server.take_action<RdmaRead>()->id, Status::kLocalError);
  EXPECT_TRUE(server.take_action<Disconnect>());
  const auto done = server.take_event<CallDone>();
  ASSERT_TRUE(done);
  EXPECT_FALSE(done->replied);
}

TEST_F(Server, AnswersWithoutPullingWhenAskedForMemory) {
  ChunkLists lists;
  add_read(lists, 40, 100);
  server.receive(message(call_header(), lists, 44));
  reply(server.take_event<MemoryWanted>()->call);
  EXPECT_FALSE(server.take_action<RdmaRead>());
  server.done(server.take_action<PostSend>()->id);
  EXPECT_TRUE(server.take_event<CallDone>()->replied);
}

}  // namespace
}  // namespace rpcrdma::engine
