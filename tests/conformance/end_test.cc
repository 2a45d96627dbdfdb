// How connections end, and what can go wrong with queues.
#include <map>

#include "conformance/fixture.h"

namespace rpcrdma::test {
namespace {

using rdma::Completion;
using rdma::Errc;
using rdma::LinkEvent;
using rdma::Status;
using work::Expose;
using work::Read;
using work::Receive;
using work::Remote;
using work::RemoteAccess;
using work::Request;
using work::Send;
using work::Slice;
using work::Write;

class ConnectionEnd : public ProviderTest {
 protected:
  void SetUp() override {
    ProviderTest::SetUp();
    connect(client, server);
  }
  // All completions that are there once the end has reported its end.
  static std::map<std::uint64_t, std::vector<Status>> drain(End& end) {
    std::map<std::uint64_t, std::vector<Status>> by_id;
    while (const auto completion = end.poll()) {
      by_id[completion->id].push_back(completion->status);
    }
    return by_id;
  }
};
INSTANTIATE_TEST_SUITE_P(Provider, ConnectionEnd, testing::ValuesIn(fabrics()), fabric_name);

TEST_P(ConnectionEnd, DisconnectCompletesEverythingExactlyOnce) {
  const Remote source = expose(server, 0, 1000, RemoteAccess::kRead);
  const Remote room = expose(server, 5000, 1000, RemoteAccess::kWrite);
  const Slice from = client.slice(0, 1000);
  const std::uint32_t reads_max = client.queue_pair().capabilities().reads_in_flight_max;
  std::uint64_t id = 1;
  for (std::uint32_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(server.post(100 + id, Receive{}).has_value());
    ASSERT_TRUE(client.post(id++, Receive{}).has_value());
    ASSERT_TRUE(client.post(id++, Write{{&from, 1}, room}).has_value());
    ASSERT_TRUE(client.post(id++, Send{}).has_value());
    if (i < reads_max) {
      ASSERT_TRUE(client.post(id++, Read{client.slice(2000, 1000), source}).has_value());
    }
    ASSERT_TRUE(client.post(id++, Expose{client.slice(9000, 10), RemoteAccess::kRead}).has_value());
  }
  client.queue_pair().disconnect();
  expect_disconnected(client, server);
  const auto completions = drain(client);
  EXPECT_EQ(completions.size(), id - 1);
  for (const auto& [which, statuses] : completions) {
    EXPECT_EQ(statuses.size(), 1U) << "work " << which << " completed more than once";
    EXPECT_TRUE(statuses[0] == Status::kOk || statuses[0] == Status::kFlushed)
        << "work " << which << ": " << rdma::to_string(statuses[0]);
  }
  auto of_server = drain(server);
  of_server.erase(kInternalId);  // a barrier's Send, of which it may not be known that it arrived
  EXPECT_EQ(of_server.size(), 8U);
}

TEST_P(ConnectionEnd, ReceivesThatNothingArrivedForAreFlushedInTheirOrder) {
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(client.post(i, Receive{}).has_value());
  client.queue_pair().disconnect();
  std::uint64_t expected = 0;
  for (const Completion& flushed : next(client, 10)) {
    EXPECT_EQ(flushed.id, expected++);
    EXPECT_EQ(flushed.status, Status::kFlushed);
  }
}

TEST_P(ConnectionEnd, UnsignaledWorkIsFlushedWithACompletion) {
  ASSERT_TRUE(client.post(1, Receive{}, false).has_value());
  client.queue_pair().disconnect();
  const Completion flushed = next(client);
  EXPECT_EQ(flushed.id, 1U);
  EXPECT_EQ(flushed.status, Status::kFlushed);
}

TEST_P(ConnectionEnd, PeerSeesADisconnectAndItsWorkIsFlushed) {
  ASSERT_TRUE(server.post(1, Receive{}).has_value());
  client.queue_pair().disconnect();
  expect_disconnected(client, server);
  EXPECT_EQ(next(server).status, Status::kFlushed);
  EXPECT_EQ(server.queue_pair().cause().code, Errc::kClosed);
}

TEST_P(ConnectionEnd, AcceptedSideCanDisconnectAsWell) {
  server.queue_pair().disconnect();
  expect_disconnected(server, client);
}

TEST_P(ConnectionEnd, DestroyingAQueuePairEndsTheOtherSide) {
  ASSERT_TRUE(client.post(1, Receive{}).has_value());
  server.destroy();
  EXPECT_EQ(next_link_event(client), LinkEvent::kDisconnected);
  EXPECT_EQ(next(client).status, Status::kFlushed);
}

TEST_P(ConnectionEnd, MessagesOfCompletedSendsStillArriveAfterADisconnect) {
  const Slice from = client.slice(0, 1000);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Slice into = server.slice(2000 * i, 1000);
    ASSERT_TRUE(server.post(i, Receive{{&into, 1}}).has_value());
    ASSERT_TRUE(client.post(i, Send{{&from, 1}, {}}).has_value());
  }
  for (const Completion& sent : next(client, 20)) ASSERT_EQ(sent.status, Status::kOk);
  client.queue_pair().disconnect();
  for (const Completion& received : next(server, 20)) EXPECT_EQ(received.status, Status::kOk);
  expect_disconnected(client, server);
}

TEST_P(ConnectionEnd, DisconnectingTwiceIsDisconnectingOnce) {
  client.queue_pair().disconnect();
  client.queue_pair().disconnect();
  expect_disconnected(client, server);
  client.queue_pair().disconnect();
  EXPECT_EQ(client.queue_pair().poll_link(), std::nullopt);
}

TEST_P(ConnectionEnd, BothSidesCanDisconnectAtTheSameTime) {
  client.queue_pair().disconnect();
  server.queue_pair().disconnect();
  expect_disconnected(client, server);
}

TEST_P(ConnectionEnd, PostingAfterTheOwnDisconnectIsRefused) {
  client.queue_pair().disconnect();
  EXPECT_EQ(client.post(1, Receive{}).error().code, Errc::kClosed);
  EXPECT_EQ(client.post(2, Send{}).error().code, Errc::kClosed);
  expect_disconnected(client, server);
  EXPECT_EQ(client.poll(), std::nullopt) << "refused work completed";
}

TEST_P(ConnectionEnd, PostingAfterThePeersDisconnectIsRefused) {
  client.queue_pair().disconnect();
  expect_disconnected(client, server);
  EXPECT_EQ(server.post(1, Receive{}).error().code, Errc::kClosed);
  EXPECT_EQ(server.poll(), std::nullopt);
}

TEST_P(ConnectionEnd, MemoryCanBeDetachedOnceTheConnectionHasEnded) {
  std::vector<std::byte> more(1000);
  const auto region = client.queue_pair().attach(more);
  ASSERT_TRUE(region.has_value());
  const Slice into{*region, 1000, 0};
  ASSERT_TRUE(client.post(1, Receive{{&into, 1}}).has_value());
  ASSERT_TRUE(client.post(2, Expose{into, RemoteAccess::kWrite}).has_value());
  client.queue_pair().disconnect();
  expect_disconnected(client, server);
  EXPECT_EQ(drain(client).size(), 2U);
  client.queue_pair().detach(*region);
}

TEST_P(ConnectionEnd, NothingIsWrittenOnceTheEndWasReported) {
  const Remote room = expose(server, 0, 100'000, RemoteAccess::kWrite);
  client.fill(0, 100'000, 3);
  const Slice from = client.slice(0, 100'000);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(client.post(1, Write{{&from, 1}, room}, false).has_value());
  }
  server.queue_pair().disconnect();
  EXPECT_EQ(next_link_event(server), LinkEvent::kDisconnected);
  server.fill(0, 100'000, 4);
  const auto expected = copy_of(server.memory(0, 100'000));
  EXPECT_EQ(next_link_event(client), LinkEvent::kDisconnected);
  EXPECT_EQ(copy_of(server.memory(0, 100'000)), expected);
}

TEST_P(ConnectionEnd, ReceiveTooSmallForTheMessageEndsTheConnection) {
  const Slice into = server.slice(0, 99);
  const Slice from = client.slice(0, 100);
  server.fill(99, 1, 7);
  const std::byte guard = server.memory(99, 1)[0];
  ASSERT_TRUE(server.post(1, Receive{{&into, 1}}).has_value());
  ASSERT_TRUE(client.post(2, Send{{&from, 1}, {}}, false).has_value());
  const Completion failed = next(server);
  EXPECT_EQ(failed.id, 1U);
  EXPECT_EQ(failed.status, Status::kLocalError);
  EXPECT_EQ(server.memory(99, 1)[0], guard);
  expect_disconnected(client, server);
}

TEST_P(ConnectionEnd, MessageWithoutAPostedReceiveEndsTheConnection) {
  const Slice from = client.slice(0, 100);
  ASSERT_TRUE(client.post(1, Send{{&from, 1}, {}}, false).has_value());
  expect_disconnected(client, server);
  if (fabric->tells_mistakes()) {
    EXPECT_EQ(server.queue_pair().cause().code, Errc::kProtocol);
  }
}

TEST_P(ConnectionEnd, FullQueueTakesNothingOfABatch) {
  std::array<work::Request, 7> batch;
  std::uint64_t taken = 0;
  for (;;) {
    for (auto& request : batch) request = work::Request{1000 + taken, true, Receive{}};
    const auto posted = client.queue_pair().post(batch);
    if (!posted.has_value()) {
      EXPECT_EQ(posted.error().code, Errc::kNoResources);
      break;
    }
    taken += batch.size();
    ASSERT_LT(taken, 1'000'000U) << "the queue has no end";
  }
  client.queue_pair().disconnect();
  expect_disconnected(client, server);
  std::size_t flushed = 0;
  for (const auto& [id, statuses] : drain(client)) flushed += statuses.size();
  EXPECT_EQ(flushed, taken);
}

TEST_P(ConnectionEnd, ProviderCanConnectAgainAfterTheEnd) {
  client.queue_pair().disconnect();
  expect_disconnected(client, server);
  client.destroy();
  server.destroy();
  connect(client, server);
  barrier(client, server);
  barrier(server, client);
}

}  // namespace
}  // namespace rpcrdma::test
