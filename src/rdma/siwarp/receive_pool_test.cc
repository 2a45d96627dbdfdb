// Messages in memory that connections share.
#include "rdma/siwarp/receive_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <vector>

#include "rdma/siwarp/nodes_for_test.h"

namespace rpcrdma::rdma::siwarp {
namespace {

using test::End;
using test::Nodes;

TEST(ReceivePool, GivesTheBufferAgainThatCameBackLast) {
  ReceivePool pool;
  ReceivePool::Class& buffers = pool.of(4096);
  std::byte* const first = buffers.take();
  std::byte* const second = buffers.take();
  EXPECT_NE(first, second);
  std::fill_n(first, 4096, std::byte{1});
  buffers.give_back(second);
  buffers.give_back(first);
  EXPECT_EQ(buffers.take(), first);
  EXPECT_EQ(buffers.take(), second);
  buffers.give_back(first);
  buffers.give_back(second);
}

TEST(ReceivePool, HasBuffersOfAnySizeThatAReceiveMayHave) {
  ReceivePool pool;
  for (const std::uint32_t size : {0U, 1U, 1024U, 4096U, 4097U, 65536U, 69632U, 262144U}) {
    std::byte* const buffer = pool.of(size).take();
    std::fill_n(buffer, size, std::byte{1});
    pool.of(size).give_back(buffer);
  }
  EXPECT_EQ(&pool.of(4096), &pool.of(2049));
  EXPECT_NE(&pool.of(4096), &pool.of(4097));
}

// Takes so many buffers and gives all of them back, as a round of the reactor does.
void take_and_return(ReceivePool::Class& buffers, std::size_t count) {
  std::vector<std::byte*> taken;
  for (std::size_t i = 0; i < count; ++i) taken.push_back(buffers.take());
  for (std::byte* const each : taken) buffers.give_back(each);
}

TEST(ReceivePool, KeepsTheMessagesOfARoundForTheNext) {
  ReceivePool pool;
  ReceivePool::Class& buffers = pool.of(5000);
  for (int i = 0; i < 10; ++i) {
    take_and_return(buffers, 512);  // 64 connections with eight Calls each
    EXPECT_EQ(buffers.kept(), 512U);
    if (i % 3 == 0) pool.trim();
  }
}

TEST(ReceivePool, FreesWhatNobodyHasNeededSinceItWasTrimmed) {
  ReceivePool pool;
  ReceivePool::Class& buffers = pool.of(5000);
  take_and_return(buffers, 600);
  pool.trim();
  EXPECT_EQ(buffers.kept(), 600U) << "all of which were lent meanwhile";
  take_and_return(buffers, 200);
  pool.trim();
  EXPECT_EQ(buffers.kept(), 200U);
  EXPECT_TRUE(pool.has_more());
  pool.trim();
  EXPECT_EQ(buffers.kept(), 62U) << "half a mebibyte";
  EXPECT_FALSE(pool.has_more());
}

TEST(ReceivePool, FreesWhatCameBackFirst) {
  ReceivePool pool;
  ReceivePool::Class& buffers = pool.of(5000);
  take_and_return(buffers, 100);
  std::byte* const last = buffers.take();
  buffers.give_back(last);
  pool.trim();
  pool.trim();
  EXPECT_EQ(buffers.kept(), 62U);
  EXPECT_EQ(buffers.take(), last);
  buffers.give_back(last);
}

// To find the others would take tens of milliseconds.
TEST(ReceivePool, FreesWhatCameBackLastWhereVeryManyAreKept) {
  ReceivePool pool;
  ReceivePool::Class& buffers = pool.of(100);
  take_and_return(buffers, 10'000);
  std::byte* const last = buffers.take();
  buffers.give_back(last);
  pool.trim();
  pool.trim();
  EXPECT_EQ(buffers.kept(), 8'976U);
  std::byte* const next = buffers.take();
  EXPECT_NE(next, last);
  buffers.give_back(next);
}

TEST(ReceivePool, KeepsAFewOfEachSizeForEver) {
  ReceivePool pool;
  take_and_return(pool.of(0), 100);
  take_and_return(pool.of(262'144), 10);
  for (int i = 0; i < 3; ++i) pool.trim();
  EXPECT_EQ(pool.of(0).kept(), 64U) << "the most";
  EXPECT_EQ(pool.of(262'144).kept(), 2U) << "the least";
}

TEST(ReceivePool, FreesABurstBitByBit) {
  ReceivePool pool;
  ReceivePool::Class& buffers = pool.of(100);
  take_and_return(buffers, 3000);
  pool.trim();
  pool.trim();
  EXPECT_EQ(buffers.kept(), 1976U);
  EXPECT_TRUE(pool.has_more());
  pool.trim();
  EXPECT_EQ(buffers.kept(), 952U);
  pool.trim();
  EXPECT_EQ(buffers.kept(), 64U);
  EXPECT_FALSE(pool.has_more());
  ReceivePool::Class& longer = pool.of(262'144);
  take_and_return(longer, 100);
  pool.trim();
  pool.trim();
  EXPECT_EQ(longer.kept(), 69U) << "8 MiB less";
}

TEST(SpareReceives, GoBackToTheSystemWithoutMoreTraffic) {
  const auto provider = test::provider();
  ReceivePool::Class& buffers = receive_pool(*provider).of(5000);
  std::vector<std::byte*> taken;
  for (int i = 0; i < 1000; ++i) taken.push_back(buffers.take());
  provider->progress();
  for (std::byte* const each : taken) buffers.give_back(each);  // behind the last round
  const Instant end = provider->now() + std::chrono::seconds(10);
  provider->arm_timer(end);
  while (buffers.kept() > 62U && provider->now() < end) {
    provider->wait();
    provider->progress();
  }
  EXPECT_EQ(buffers.kept(), 62U);
}

class SharedMemory : public testing::Test {
 protected:
  static Options shared() {
    Options options;
    options.shares_receives = true;
    options.segment_size_max = 1428;  // messages come in parts
    return options;
  }
  static bool post(End& end, std::vector<std::uint16_t> numbers) {
    return end.queue_pair->post_receives({{}, kSize, 0}, numbers).has_value();
  }
  void send(End& from, std::uint32_t size, unsigned char mark) {
    std::fill_n(from.memory.begin(), size, std::byte{mark});
    const Slice slice = from.slice(0, size);
    ASSERT_TRUE(from.post(1, Send{{&slice, 1}, {}}, false));
  }
  Completion receive(End& end) {
    const auto done = nodes_.completion(end);
    EXPECT_TRUE(done);
    return done.value_or(Completion{});
  }
  static bool all_are(const Completion& received, unsigned char mark) {
    return received.message != nullptr &&
           std::all_of(received.message, received.message + received.size,
                       [=](std::byte each) { return each == std::byte{mark}; });
  }

  static constexpr std::uint32_t kSize = 4000;
  Nodes nodes_{{}, shared()};
};

TEST_F(SharedMemory, HoldsAMessageUntilItsNumberIsPostedAgain) {
  End client, server;
  nodes_.connect(client, server);
  ASSERT_TRUE(server.queue_pair->capabilities().shares_receives);
  ASSERT_FALSE(client.queue_pair->capabilities().shares_receives);
  ASSERT_TRUE(post(server, {5, 3, 9}));
  send(client, kSize, 1);
  ASSERT_TRUE(
      nodes_.pump_until([&] { return server.queue_pair->counters().payload_received >= kSize; }));
  send(client, kSize, 2);
  const Completion first = receive(server), second = receive(server);
  EXPECT_EQ(first.id, 5U);
  EXPECT_EQ(first.size, kSize);
  EXPECT_TRUE(all_are(first, 1));
  EXPECT_EQ(second.id, 3U);
  EXPECT_TRUE(all_are(second, 2));
  ASSERT_TRUE(post(server, {3}));
  send(client, kSize, 3);
  const Completion third = receive(server);
  EXPECT_EQ(third.id, 9U);
  EXPECT_TRUE(all_are(third, 3));
  EXPECT_EQ(third.message, second.message) << "which nobody reads any more";
  EXPECT_TRUE(all_are(first, 1));
  const std::uint16_t numbers[] = {5};
  server.queue_pair->release_receives(numbers);
  send(client, kSize, 4);
  EXPECT_EQ(receive(server).message, first.message);
  ASSERT_TRUE(post(server, {9}));
  send(client, 0, 5);
  EXPECT_EQ(receive(server).size, 0U);
}

TEST_F(SharedMemory, ForAMessageIsAsMuchAsItNeedsHoweverLongItsReceiveIs) {
  std::array<End, 2> clients, servers;
  for (std::size_t i = 0; i < clients.size(); ++i) nodes_.connect(clients[i], servers[i]);
  const auto post_long = [](End& end, std::uint32_t size) {
    const std::uint16_t numbers[] = {0};
    ASSERT_TRUE(end.queue_pair->post_receives({{}, size, 0}, numbers));
  };
  post_long(servers[0], 262'144);
  send(clients[0], 100, 1);
  const Completion in_long = receive(servers[0]);
  EXPECT_TRUE(all_are(in_long, 1));
  const std::uint16_t numbers[] = {0};
  servers[0].queue_pair->release_receives(numbers);
  post_long(servers[1], 128);
  send(clients[1], 100, 2);
  EXPECT_EQ(receive(servers[1]).message, in_long.message) << "of the same size";
  post_long(servers[0], 262'144);
  send(clients[0], 2000, 3);  // in two parts, of which the first may be the first of many
  EXPECT_TRUE(all_are(receive(servers[0]), 3));
}

TEST_F(SharedMemory, IsOfAllConnections) {
  std::array<End, 3> clients, servers;
  std::set<const std::byte*> places;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    nodes_.connect(clients[i], servers[i]);
    ASSERT_TRUE(post(servers[i], {0, 1}));
    send(clients[i], 2000, 7);
    places.insert(receive(servers[i]).message);
    ASSERT_TRUE(post(servers[i], {0}));
  }
  EXPECT_EQ(places.size(), 1U);
}

TEST_F(SharedMemory, AMessageThatIsTooLongEndsItsConnection) {
  End client, server;
  nodes_.connect(client, server);
  ASSERT_TRUE(post(server, {0}));
  send(client, kSize + 1, 1);
  EXPECT_EQ(receive(server).status, Status::kLocalError);
}

TEST_F(SharedMemory, APartOfAMessageIsGivenBackWithItsConnection) {
  End client, server;
  nodes_.connect(client, server);
  ASSERT_TRUE(post(server, {0, 1}));
  std::vector<Slice> slices(2, client.slice(0, 1400));
  ASSERT_TRUE(client.post(1, Send{slices, {}}, false));
  client.queue_pair->disconnect();
  EXPECT_EQ(receive(server).id, 0U);
  EXPECT_EQ(receive(server).status, Status::kFlushed);
  server.queue_pair.reset();
}

TEST_F(SharedMemory, ReceivesIntoMemoryOfTheirOwnAreRefused) {
  End client, server;
  nodes_.connect(client, server);
  const Slice into = server.slice(0, 100);
  EXPECT_FALSE(server.post(1, Receive{{&into, 1}}));
}

}  // namespace
}  // namespace rpcrdma::rdma::siwarp
