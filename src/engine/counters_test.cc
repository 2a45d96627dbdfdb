// Each counter of a connection counts what it names, upwards, and nothing else.
#include <gtest/gtest.h>

#include <cstdint>

#include "engine/client_for_test.h"
#include "engine/counters_for_test.h"
#include "engine/server_for_test.h"
#include "support/hex.h"

namespace rpcrdma::engine {
namespace {

wire::ChunkLists written(std::uint32_t tag, std::uint32_t size) {
  wire::ChunkLists lists;
  const wire::Segment segment[] = {{SteeringTag{tag}, size, 0}};
  EXPECT_TRUE(lists.writes.push_back(segment));
  return lists;
}

// --- A client ----------------------------------------------------------------------------------

class ClientCounters : public Client {};

TEST_F(ClientCounters, ShortCallsAndReplies) {
  for (const std::uint32_t xid : {1U, 2U}) {
    ASSERT_TRUE(start_null(xid));
    sent();
    end(xid);
  }
  EXPECT_EQ(counts(client), (Counts{{"calls_started", 2},
                                    {"calls_ended", 2},
                                    {"short_calls", 2},
                                    {"short_replies", 2},
                                    {"messages_received", 2}}));
}

TEST_F(ClientCounters, ChunksTheirBytesAndTheHandlesThatItRevokes) {
  start_with_chunks(1);
  client.expose_all();
  sent();
  answer(1, 4, written(3, 10));
  client.revoke_all();
  EXPECT_TRUE(client.take_event<ReplyReady>());
  EXPECT_EQ(counts(client), (Counts{{"calls_started", 1},
                                    {"calls_ended", 1},
                                    {"read_chunk_count", 1},
                                    {"write_chunk_count", 1},
                                    {"reply_chunk_count", 1},
                                    {"read_chunk_bytes", 5000},
                                    {"write_chunk_bytes", 10},
                                    {"messages_received", 1},
                                    {"revoked_locally", 4}}));
}

TEST_F(ClientCounters, HandleThatThePeerInvalidates) {
  start_with_chunks(1);
  client.expose_all();
  sent();
  answer(1, 4, written(3, 10), wire::v1::Msg{}, 24, SteeringTag{1});
  client.revoke_all();
  EXPECT_TRUE(client.take_event<ReplyReady>());
  EXPECT_EQ(counts(client)["invalidated_remotely"], 1U);
  EXPECT_EQ(counts(client)["revoked_locally"], 3U);
}

TEST_F(ClientCounters, LongCallsAndLongReplies) {
  const Fragment stream[] = {{Lease{1}, 9000, 0, 0}};
  Outgoing call{stream, {}, 8000, ResultRoom{Lease{5}, 9000, 0, 0}};
  ASSERT_TRUE(client.engine.requester().start_call(client.now, Xid{1}, call, kTimeout));
  client.drain();
  client.expose_all();
  sent();
  wire::ChunkLists lists;
  lists.has_reply = true;
  ASSERT_TRUE(lists.reply.push_back({SteeringTag{2}, 8000, 0}));
  answer(1, 4, lists, wire::v1::NoMsg{}, 0);
  client.revoke_all();
  EXPECT_TRUE(client.take_event<ReplyReady>());
  EXPECT_EQ(counts(client), (Counts{{"calls_started", 1},
                                    {"calls_ended", 1},
                                    {"nomsg_calls", 1},
                                    {"nomsg_replies", 1},
                                    {"reply_chunk_count", 1},
                                    {"messages_received", 1},
                                    {"revoked_locally", 2}}));
}

TEST_F(ClientCounters, MessagesThatItDrops) {
  ASSERT_TRUE(start_null(1));
  sent();
  client.receive(std::vector<std::byte>(15));
  answer(2);
  answer(3);
  answer(1, 4, {}, wire::v1::Done{}, 0);
  EXPECT_EQ(counts(client), (Counts{{"calls_started", 1},
                                    {"short_calls", 1},
                                    {"short_message_count", 1},
                                    {"unknown_xid_count", 2},
                                    {"bad_reply_count", 1},
                                    {"messages_received", 4}}));
}

TEST_F(ClientCounters, ErrorsAndTimeOuts) {
  ASSERT_TRUE(start_null(1));
  sent();
  answer(1, 4, {}, wire::v1::ErrChunk{}, 0);
  EXPECT_TRUE(client.take_event<CallFailed>());
  ASSERT_TRUE(start_null(2));
  sent();
  time_out();
  answer(2);  // too late
  EXPECT_EQ(counts(client), (Counts{{"calls_started", 2},
                                    {"calls_ended", 2},
                                    {"short_calls", 2},
                                    {"err_received", 1},
                                    {"timed_out", 1},
                                    {"unknown_xid_count", 1},
                                    {"messages_received", 2}}));
}

// --- A server ----------------------------------------------------------------------------------

class ServerCounters : public Server {
 protected:
  // Answers the call that is there, and lets the answer go out.
  void answer(std::uint32_t size = 24) {
    const auto call = server.take_event<CallReceived>();
    ASSERT_TRUE(call);
    reply(call->call, size);
    server.complete_all(Status::kOk);
    EXPECT_TRUE(server.take_event<CallDone>());
  }
};

TEST_F(ServerCounters, ShortCallsAndReplies) {
  for (int i = 0; i < 2; ++i) {
    server.receive(message(call_header(), {}, 40));
    answer();
  }
  EXPECT_EQ(counts(server), (Counts{{"calls_started", 2},
                                    {"calls_ended", 2},
                                    {"short_calls", 2},
                                    {"short_replies", 2},
                                    {"messages_received", 2}}));
}

TEST_F(ServerCounters, ReadChunksAndTheirBytes) {
  wire::ChunkLists lists;
  add_read(lists, 40, 100);
  server.receive(message(call_header(), lists, 44));
  server.engine.responder().lend(server.take_event<MemoryWanted>()->call, Lease{1}, 0);
  server.drain();
  server.done(server.take_action<RdmaRead>()->id);
  answer();
  EXPECT_EQ(counts(server), (Counts{{"calls_started", 1},
                                    {"calls_ended", 1},
                                    {"read_chunk_count", 1},
                                    {"read_chunk_bytes", 100},
                                    {"short_replies", 1},
                                    {"messages_received", 1}}));
}

TEST_F(ServerCounters, LongCallsAndLongReplies) {
  wire::ChunkLists lists;
  add_read(lists, 0, 6000);
  lists.has_reply = true;
  ASSERT_TRUE(lists.reply.push_back({SteeringTag{2}, 8000, 0}));
  server.receive(message(call_header(wire::v1::NoMsg{}), lists, 0));
  server.engine.responder().lend(server.take_event<MemoryWanted>()->call, Lease{1}, 0);
  server.drain();
  server.done(server.take_action<RdmaRead>()->id);
  answer(7000);
  EXPECT_EQ(counts(server), (Counts{{"calls_started", 1},
                                    {"calls_ended", 1},
                                    {"nomsg_calls", 1},
                                    {"nomsg_replies", 1},
                                    {"reply_chunk_count", 1},
                                    {"messages_received", 1}}));
}

TEST_F(ServerCounters, WriteChunksAndTheirBytes) {
  const wire::ChunkLists lists = written(5, 8192);
  server.receive(message(call_header(), lists, 40));
  const auto call = server.take_event<CallReceived>();
  ASSERT_TRUE(call);
  const Fragment stream[] = {{Lease{50}, 24, 0, 0}, {Lease{51}, 3000, 0, 1}};
  Outgoing outgoing;
  outgoing.stream = stream;
  server.engine.responder().start_reply(call->call, outgoing);
  server.drain();
  server.complete_all(Status::kOk);
  EXPECT_EQ(counts(server), (Counts{{"calls_started", 1},
                                    {"calls_ended", 1},
                                    {"write_chunk_count", 1},
                                    {"write_chunk_bytes", 3000},
                                    {"messages_received", 1}}));
}

TEST_F(ServerCounters, MessagesThatItDropsAndRefuses) {
  server.receive(std::vector<std::byte>(15));
  server.receive(message(call_header(wire::v1::ErrChunk{}), {}, 0));
  server.receive(message(call_header(wire::v1::Done{}), {}, 0));
  server.receive(test::hex("11223344 00000002 00000020 00000000"));
  server.complete_all(Status::kOk);
  server.receive(test::hex("11223344 00000001 00000020 00000005"));
  server.complete_all(Status::kOk);
  // The two that are answered are calls.
  EXPECT_EQ(counts(server), (Counts{{"calls_started", 2},
                                    {"calls_ended", 2},
                                    {"short_message_count", 1},
                                    {"stray_error_count", 2},
                                    {"err_vers_sent", 1},
                                    {"err_chunk_sent", 1},
                                    {"messages_received", 5}}));
}

}  // namespace
}  // namespace rpcrdma::engine
