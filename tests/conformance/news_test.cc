// A listener for news is notified of everything that can be polled.
#include "conformance/fixture.h"

namespace rpcrdma::test {
namespace {

using rdma::LinkEvent;
using work::Expose;
using work::Read;
using work::RemoteAccess;
using work::Revoke;
using work::Send;

struct Listener final : rdma::NewsListener {
  void handle_news() noexcept override { is_told = true; }
  bool is_told = false;
};

class News : public ProviderTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ProviderTest::SetUp());
    connect(client, server);
    tells_ = client.queue_pair().set_ready_listener(of_client_) &&
             server.queue_pair().set_ready_listener(of_server_);
    if (!tells_) GTEST_SKIP() << "this provider does not tell of news";
  }
  void TearDown() override {
    client.destroy();  // before its listeners
    server.destroy();
    ProviderTest::TearDown();
  }
  // Polls `end` only when its listener was notified.
  rdma::Completion next_told(End& end) {
    std::optional<rdma::Completion> completion;
    EXPECT_TRUE(pump_until([&] {
      if (std::exchange(told_of(end), false)) completion = end.poll();
      return completion.has_value();
    })) << "nobody was notified";
    return completion.value_or(rdma::Completion{});
  }
  std::optional<LinkEvent> next_event_told(End& end) {
    std::optional<LinkEvent> event;
    EXPECT_TRUE(pump_until([&] {
      if (std::exchange(told_of(end), false)) event = end.queue_pair().poll_link();
      return event.has_value();
    })) << "nobody was notified";
    return event;
  }
  bool& told_of(End& end) { return &end == &client ? of_client_.is_told : of_server_.is_told; }

 private:
  Listener of_client_, of_server_;
  bool tells_ = false;
};
INSTANTIATE_TEST_SUITE_P(Provider, News, testing::ValuesIn(fabrics()), fabric_name);

TEST_P(News, AnnounceMessages) {
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(server.post_empty_receive());
    ASSERT_TRUE(client.post(id, Send{}));
    EXPECT_EQ(next_told(server).id, kInternalId);
    EXPECT_EQ(next_told(client).id, id);
  }
}

TEST_P(News, AnnounceWorkThatNeedsNoPeer) {
  ASSERT_TRUE(server.post(1, Expose{server.slice(0, 100), RemoteAccess::kRead}));
  const rdma::Completion exposed = next_told(server);
  EXPECT_EQ(exposed.id, 1U);
  ASSERT_TRUE(exposed.tag);
  ASSERT_TRUE(server.post(2, Revoke{*exposed.tag}));
  EXPECT_EQ(next_told(server).id, 2U);
}

TEST_P(News, AnnounceReads) {
  const work::Remote source = expose(server, 0, 1000, RemoteAccess::kRead);
  ASSERT_TRUE(client.post(7, Read{client.slice(2000, 1000), source}));
  EXPECT_EQ(next_told(client).id, 7U);
}

// Work without a signal leaves its queue in silence.
TEST_P(News, AnnounceRoomInAQueueThatWasFull) {
  const work::Remote room = expose(server, 0, 4096, RemoteAccess::kWrite);
  const auto post = [&] {
    const work::Slice from = client.slice(0, 4096);
    return client.post(1, work::Write{{&from, 1}, room}, false).has_value();
  };
  constexpr int kManyTimesTheQueue = 20'000;
  int posted = 0;
  while (posted < kManyTimesTheQueue && post()) ++posted;
  if (posted == kManyTimesTheQueue) {
    GTEST_SKIP() << "the queue is never full here: work is done as soon as it is posted";
  }
  told_of(client) = false;
  EXPECT_TRUE(pump_until([&] { return std::exchange(told_of(client), false) && post(); }));
}

TEST_P(News, AnnounceTheEndOnBothSides) {
  ASSERT_TRUE(server.post_empty_receive());
  client.queue_pair().disconnect();
  EXPECT_EQ(next_event_told(client), LinkEvent::kDisconnected);
  EXPECT_EQ(next_event_told(server), LinkEvent::kDisconnected);
}

// An owner may leave an event for later, as a server does while a step of Kerberos is under way.
TEST_P(News, LetTheOwnerSleepWhereNobodyPollsThem) {
  client.queue_pair().disconnect();
  ASSERT_TRUE(pump_until([&] { return told_of(client) && told_of(server); }));
  for (rdma::Provider* each : {&fabric->client(), &fabric->server()}) {
    each->progress();
    const Instant end = each->now() + std::chrono::milliseconds(30);
    each->arm_timer(end);
    int rounds = 0;
    for (; each->now() < end && rounds < 1'000; ++rounds) {
      each->wait();
      each->progress();
    }
    EXPECT_LT(rounds, 20);
  }
  EXPECT_EQ(client.queue_pair().poll_link(), LinkEvent::kDisconnected);
  EXPECT_EQ(server.queue_pair().poll_link(), LinkEvent::kDisconnected);
}

}  // namespace
}  // namespace rpcrdma::test
