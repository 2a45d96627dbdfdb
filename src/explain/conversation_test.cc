// The calls of one connection: the memory that they take, and what is known of them when it ends.
#include "explain/conversation.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace rpcrdma::explain {
namespace {

constexpr int kClient = 0, kServer = 1;

struct Nobody : Sink, Judge {
  void report(RuleId, int, const Where&, std::optional<std::uint32_t>, std::string) override {}
  void forget_uncertain() override {}
};

std::vector<std::byte> words(std::initializer_list<std::uint32_t> values) {
  std::vector<std::byte> bytes;
  for (const std::uint32_t value : values) {
    for (const unsigned shift : {24U, 16U, 8U, 0U}) bytes.push_back(std::byte(value >> shift));
  }
  return bytes;
}

class ConversationTest : public testing::Test {
 protected:
  void send(int side, std::initializer_list<std::uint32_t> values) {
    const auto bytes = words(values);
    conversation.on_send({side, next(), next(), bytes, bytes.size(), true, {}});
  }
  // Calls of NULL, of which the second kind offers a chunk of 100 bytes for reading.
  void call(std::uint32_t xid) {
    send(kClient, {xid, 1, 8, 0, 0, 0, 0, xid, 0, 2, 100003, 3, 0, 0, 0, 0, 0});
  }
  void call_with_chunk(std::uint32_t xid) {
    send(kClient,
         {xid, 1, 8, 0, 1, 40, 0x55, 100, 0, 0x1000, 0, 0, 0, xid, 0, 2, 100003, 3, 0, 0, 0, 0, 0});
  }
  void reply(std::uint32_t xid) { send(kServer, {xid, 1, 8, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0}); }
  void read(std::uint32_t sink_tag, std::uint32_t tag = 0x55) {
    conversation.on_read({kServer, next(), sink_tag, 0, 100, tag, 0x1000});
  }
  void respond(std::uint32_t sink_tag) {
    conversation.on_response({kClient, next(), sink_tag, 0, 100, true});
  }
  Where next() { return {++packets, 0}; }

  ConnectionFact connection;
  Nobody nobody;
  Shared shared;
  Conversation conversation{connection, nobody, nobody, shared};
  std::uint64_t packets = 0;
};

TEST_F(ConversationTest, FootprintGrowsWithReadsUntilTheyAreAnswered) {
  const std::size_t empty = conversation.footprint();
  for (std::uint32_t i = 0; i < 1000; ++i) read(i);
  EXPECT_GE(conversation.footprint(), empty + 1000 * sizeof(OpenRead));
  for (std::uint32_t i = 0; i < 1000; ++i) respond(i);
  EXPECT_EQ(conversation.footprint(), empty);
}

TEST_F(ConversationTest, FootprintGrowsWithRepliesThatReadsKeep) {
  const std::size_t empty = conversation.footprint();
  for (std::uint32_t xid = 1; xid <= 100; ++xid) {
    call_with_chunk(xid);
    read(xid);
    reply(xid);
  }
  EXPECT_GE(conversation.footprint(), empty + 100 * (sizeof(OpenRead) + sizeof(MessageFact)));
  for (std::uint32_t xid = 1; xid <= 100; ++xid) respond(xid);
  EXPECT_EQ(conversation.footprint(), empty);
}

TEST_F(ConversationTest, FootprintGrowsWithRepliesWhoseCallsMayBeLate) {
  const std::size_t empty = conversation.footprint();
  for (std::uint32_t xid = 1; xid <= 20; ++xid) reply(xid);
  EXPECT_GE(conversation.footprint(), empty + 20 * sizeof(MessageFact));
  for (std::uint32_t xid = 1; xid <= 10; ++xid) call(xid);
  conversation.end(false);
  EXPECT_EQ(conversation.footprint(), empty);
}

TEST_F(ConversationTest, CallIsNotedAsLostOnceHoweverOftenThePeerResets) {
  const Endpoint client;
  connection.number = 7;
  call(1);
  conversation.note_lost();
  EXPECT_EQ(shared.lost.find(1, client), 7U);
  CallFact other;  // calls of another connection take the places
  for (other.xid = 100; other.xid < 10'000; ++other.xid) shared.lost.add(other, client);
  call(2);
  conversation.note_lost();
  EXPECT_EQ(shared.lost.find(1, client), 0U);
  EXPECT_EQ(shared.lost.find(2, client), 7U);
}

}  // namespace
}  // namespace rpcrdma::explain
