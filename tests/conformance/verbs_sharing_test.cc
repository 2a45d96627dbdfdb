// Connections that share the Receives of a device (rdma::verbs::SharedReceives); run in the lab.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <set>
#include <vector>

#include "conformance/fixture.h"

namespace rpcrdma::test {
namespace {

using rdma::Errc;
using rdma::LinkEvent;
using rdma::Status;
using work::Send;
using work::Slice;

class VerbsSharing : public ProviderTest {
 protected:
  struct Pair {
    End client, server;
  };

  // Rights to messages: numbers from `first` on.
  static Expected<void, rdma::Error> grant(End& end, std::uint16_t first, std::uint16_t count) {
    std::vector<std::uint16_t> numbers(count);
    for (std::uint16_t i = 0; i < count; ++i) numbers[i] = static_cast<std::uint16_t>(first + i);
    return end.queue_pair().post_receives({work::RegionId{}, kSharedSize, 0}, numbers);
  }
  // The message that connect() sent.
  static void release_first(End& end) {
    const auto number = static_cast<std::uint16_t>(kInternalId);
    end.queue_pair().release_receives({&number, 1});
  }
  static void send(End& end, std::uint32_t size, unsigned salt) {
    end.fill(0, size, salt);
    const Slice from = end.slice(0, size);
    ASSERT_TRUE(end.post(salt, Send{{&from, 1}, {}}).has_value());
  }
  // Completions of work that the peer's end may have flushed.
  static void drop_completions(End& end) {
    while (end.poll()) {
    }
  }
  // All Receives of the queue can still be had, by one connection.
  void expect_all_receives() {
    Pair pair;
    std::set<const std::byte*> places;
    ASSERT_NO_FATAL_FAILURE(connect(pair.client, pair.server));
    ASSERT_TRUE(grant(pair.server, 0, kSharedReceives).has_value());
    release_first(pair.server);
    for (unsigned i = 0; i < kSharedReceives; ++i) {
      ASSERT_NO_FATAL_FAILURE(send(pair.client, 100, i));
      const rdma::Completion received = next(pair.server);
      ASSERT_EQ(received.status, Status::kOk);
      ASSERT_EQ(received.id, i);
      ASSERT_EQ(next(pair.client).status, Status::kOk);
      // Not a buffer that was given back twice.
      EXPECT_TRUE(std::ranges::equal(Bytes(received.message, 100), pair.client.memory(0, 100)));
      EXPECT_TRUE(places.insert(received.message).second);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Provider, VerbsSharing, testing::ValuesIn(verbs_sharing_fabrics()),
                         fabric_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(VerbsSharing);

TEST_P(VerbsSharing, MessagesComeInTheProvidersMemory) {
  connect(client, server);
  EXPECT_TRUE(server.queue_pair().capabilities().shares_receives);
  EXPECT_FALSE(client.queue_pair().capabilities().shares_receives);
  ASSERT_TRUE(grant(server, 5, 2).has_value());
  const std::byte* last = nullptr;
  for (std::uint16_t i = 0; i < 2; ++i) {
    send(client, kSharedSize, i);
    const rdma::Completion received = next(server);
    ASSERT_EQ(received.status, Status::kOk);
    EXPECT_EQ(received.id, 5U + i);
    ASSERT_EQ(received.size, kSharedSize);
    ASSERT_NE(received.message, nullptr);
    EXPECT_NE(received.message, last);
    last = received.message;
    EXPECT_TRUE(
        std::ranges::equal(Bytes(received.message, kSharedSize), client.memory(0, kSharedSize)));
    EXPECT_EQ(next(client).status, Status::kOk);
  }
}

// Whoever looks for messages of its own gets those of others on their way, too.
TEST_P(VerbsSharing, AMessageThatAnotherFoundIsNotThereBeforeTheConnection) {
  Pair first;
  ASSERT_NO_FATAL_FAILURE(connect(first.client, first.server));
  auto connecting = fabric->client().connect(listener->address(), {});
  ASSERT_TRUE(connecting.has_value());
  client.start(std::move(*connecting));
  std::unique_ptr<rdma::Incoming> incoming;
  ASSERT_TRUE(pump_until([&] { return (incoming = listener->poll_incoming()) != nullptr; }));
  server.start(std::move(fabric->server().accept(std::move(incoming), {}).value()));
  ASSERT_TRUE(grant(server, 7, 1).has_value());
  fabric->server().progress();  // answers, and does nothing from here on
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  bool is_up = false, has_sent = false, was_told = false;
  std::optional<rdma::Completion> received;
  while (!received && std::chrono::steady_clock::now() < deadline) {
    fabric->client().progress();
    is_up = is_up || client.queue_pair().poll_link() == LinkEvent::kConnected;
    if (is_up && !has_sent) has_sent = client.post(1, Send{}).has_value();
    EXPECT_EQ(first.server.poll(), std::nullopt);
    was_told = was_told || server.queue_pair().poll_link() == LinkEvent::kConnected;
    received = server.poll();
  }
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->id, 7U);
  EXPECT_TRUE(was_told);
  first.client.destroy();
  first.server.destroy();
}

TEST_P(VerbsSharing, AConnectionIsReportedOnce) {
  for (int i = 0; i < 20; ++i) {
    Pair pair;
    ASSERT_NO_FATAL_FAILURE(connect(pair.client, pair.server));
    EXPECT_EQ(pair.server.queue_pair().poll_link(), std::nullopt);
    fabric->server().progress();
    EXPECT_EQ(pair.server.queue_pair().poll_link(), std::nullopt);
    pair.client.destroy();
    pair.server.destroy();
  }
}

TEST_P(VerbsSharing, ReceivesOfItsOwnAreRefused) {
  connect(client, server);
  EXPECT_EQ(server.post(1, work::Receive{}).error().code, Errc::kUnsupported);
  const std::uint16_t number = 1;
  EXPECT_EQ(server.queue_pair()
                .post_receives({work::RegionId{}, kSharedSize + 1, 0}, {&number, 1})
                .error()
                .code,
            Errc::kUnsupported);
  barrier(client, server);
}

// A device does not count for whom a Receive was: the provider does.
TEST_P(VerbsSharing, CutsOffOnlyThePeerThatSendsMoreThanItWasGranted) {
  Pair good;
  ASSERT_NO_FATAL_FAILURE(connect(good.client, good.server));
  ASSERT_NO_FATAL_FAILURE(connect(client, server));
  ASSERT_TRUE(grant(server, 0, 2).has_value());
  for (unsigned i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(send(client, 10, i));
  for (const rdma::Completion& received : next(server, 2)) EXPECT_EQ(received.status, Status::kOk);
  EXPECT_EQ(next_link_event(server), LinkEvent::kDisconnected);
  EXPECT_EQ(server.queue_pair().cause().code, Errc::kProtocol);
  EXPECT_EQ(next_link_event(client), LinkEvent::kDisconnected);
  barrier(good.client, good.server);
  good.client.destroy();
  good.server.destroy();
}

// The rights are flushed at the end, each once; the buffers stay for others.
TEST_P(VerbsSharing, RightsThatAreLeftAreFlushed) {
  connect(client, server);
  ASSERT_TRUE(grant(server, 3, 4).has_value());
  send(client, 10, 1);
  EXPECT_EQ(next(server).id, 3U);
  server.queue_pair().disconnect();
  EXPECT_EQ(next_link_event(server), LinkEvent::kDisconnected);
  EXPECT_FALSE(grant(server, 3, 1).has_value());
  const auto flushed = next(server, 3);
  for (std::size_t i = 0; i < flushed.size(); ++i) {
    EXPECT_EQ(flushed[i].id, 4U + i);
    EXPECT_EQ(flushed[i].status, Status::kFlushed);
  }
  EXPECT_EQ(server.poll(), std::nullopt);
}

// However connections end, and with whatever they have, a message that came by half above all: no
// Receive is lost with them.
TEST_P(VerbsSharing, NoReceiveIsLostWithItsConnection) {
  if (!fabric->keeps_shared_receives()) {
    GTEST_SKIP() << "rxe of this kernel keeps the Receive of a message that came by half";
  }
  for (unsigned round = 0; round < 24; ++round) {
    Pair pair;
    ASSERT_NO_FATAL_FAILURE(connect(pair.client, pair.server));
    ASSERT_TRUE(grant(pair.server, 0, 4).has_value());
    for (unsigned i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(send(pair.client, kSharedSize, i));
    if (round % 3 == 0) (void)next(pair.server);
    if (round % 3 == 1) (void)next(pair.client);
    switch (round % 4) {
      case 0:
        pair.client.destroy();
        pair.server.destroy();
        break;
      case 1:
        pair.server.destroy();
        break;
      case 2:
        pair.client.queue_pair().disconnect();
        EXPECT_EQ(next_link_event(pair.server), LinkEvent::kDisconnected);
        break;
      default:
        pair.server.queue_pair().disconnect();
        EXPECT_EQ(next_link_event(pair.server), LinkEvent::kDisconnected);
        break;
    }
    pair.client.destroy();
    pair.server.destroy();
  }
  ASSERT_NO_FATAL_FAILURE(expect_all_receives());
}

// More rights than Receives: where messages are sent again, those that find none wait.
TEST_P(VerbsSharing, APeerThatFindsNoReceiveWaits) {
  std::list<Pair> pairs;
  for (int i = 0; i < 3; ++i) {
    Pair& pair = pairs.emplace_back();
    ASSERT_NO_FATAL_FAILURE(connect(pair.client, pair.server));
    release_first(pair.server);
  }
  if (!fabric->sends_again())
    GTEST_SKIP() << "iWARP: a message without a Receive ends its connection";
  for (Pair& pair : pairs) {
    ASSERT_TRUE(grant(pair.server, 0, kSharedReceives).has_value());
    for (unsigned i = 0; i < 6; ++i) ASSERT_NO_FATAL_FAILURE(send(pair.client, 500, i));
  }
  std::size_t received = 0;
  ASSERT_TRUE(pump_until([&] {
    for (Pair& pair : pairs) {
      while (const auto completion = pair.server.poll()) {
        EXPECT_EQ(completion->status, Status::kOk);
        ++received;
        const auto number = static_cast<std::uint16_t>(completion->id);
        EXPECT_TRUE(grant(pair.server, number, 1).has_value());
      }
    }
    return received == 18;
  })) << received
      << " of 18 came";
  for (Pair& pair : pairs) drop_completions(pair.client);
}

TEST_P(VerbsSharing, AChildDoesNotTakeThemFromItsParent) {
  connect(client, server);
  ASSERT_TRUE(grant(server, 0, 2).has_value());
  send(client, 10, 1);
  EXPECT_EQ(next(server).id, 0U);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    client.destroy();
    server.destroy();
    listener.reset();
    fabric.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  send(client, 10, 2);
  EXPECT_EQ(next(server).id, 1U);
  client.destroy();
  server.destroy();
  expect_all_receives();
}

// A grant that became smaller leaves numbers that are not posted again; others can use their
// memory.
TEST_P(VerbsSharing, AReleasedReceiveIsThereForOthers) {
  connect(client, server);
  constexpr std::uint16_t kMost = kSharedReceives - 1;
  ASSERT_TRUE(grant(server, 0, kMost).has_value());
  std::vector<std::uint16_t> numbers{static_cast<std::uint16_t>(kInternalId)};
  for (std::uint16_t i = 0; i < kMost; ++i) {
    send(client, 10, i);
    EXPECT_EQ(next(server).id, i);
    EXPECT_EQ(next(client).status, Status::kOk);
    numbers.push_back(i);
  }
  server.queue_pair().release_receives(numbers);
  server.queue_pair().release_receives(numbers);  // there is nothing left to give back
  expect_all_receives();
  server.queue_pair().disconnect();
  EXPECT_EQ(next_link_event(server), LinkEvent::kDisconnected);
  server.queue_pair().release_receives(numbers);
  expect_all_receives();
}

TEST_P(VerbsSharing, AMessageThatIsLongerThanItsReceiveEndsItsConnection) {
  connect(client, server);
  const std::uint16_t number = 1;
  ASSERT_TRUE(
      server.queue_pair().post_receives({work::RegionId{}, 1024, 0}, {&number, 1}).has_value());
  send(client, 1025, 1);
  EXPECT_EQ(next_link_event(server), LinkEvent::kDisconnected);
  EXPECT_EQ(server.queue_pair().cause().code, Errc::kProtocol);
  EXPECT_EQ(next(server).status, Status::kFlushed);
  client.destroy();
  server.destroy();
  expect_all_receives();
}

// As fast as it can, far more than there is: others are served meanwhile, and it is cut off.
TEST_P(VerbsSharing, AFloodEndsWithItsConnection) {
  ASSERT_NO_FATAL_FAILURE(connect(client, server));
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Slice from = client.slice(0, 2000);
    if (!client.post(i, Send{{&from, 1}, {}}, false).has_value()) break;
  }
  EXPECT_EQ(next_link_event(server), LinkEvent::kDisconnected);
  // Or the device was faster, for want of a Receive.
  if (fabric->sends_again()) {
    EXPECT_EQ(server.queue_pair().cause().code, Errc::kProtocol);
  }
  client.destroy();
  server.destroy();
  expect_all_receives();
}

}  // namespace
}  // namespace rpcrdma::test
