// A server whose RDMA device is removed says so, and serves the connections that are left.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "rpc/call/connecting_client.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

class ListeningTest : public ::testing::Test {
 protected:
  ListeningTest() : pair(make_sim(1)) {}
  void remove_device() {
    ASSERT_FALSE(pair.server->failure().has_value());
    pair.network->remove_listening_device();
    pair.run_until([this] { return pair.server->failure().has_value(); });
  }
  void expect_a_call_works() {
    EXPECT_EQ(pair.finish(*pair.prepare(TestService::kWhoAmI),
                          [](Reply& reply) { (void)reply.results().xdr().u32("uid"); }),
              std::nullopt);
  }
  RpcPair pair;
};

TEST_F(ListeningTest, SaysWhyNobodyCanConnectAnyMore) {
  remove_device();
  EXPECT_EQ(pair.server->failure()->operation, "listening");
  EXPECT_EQ(pair.server->failure()->peer, pair.server->address());
  EXPECT_NE(pair.server->failure()->cause.find("device was removed"), std::string::npos);
}

TEST_F(ListeningTest, RefusesNewConnectionsAndKeepsTheOldOne) {
  remove_device();
  auto late = ConnectingClient::connect_on(pair.network->client_side(), pair.server->address(), {});
  ASSERT_TRUE(late.has_value());
  pair.run_until([&] {
    late->progress();
    return late->ended();
  });
  EXPECT_EQ(pair.server->connections(), 1U);
  expect_a_call_works();
  EXPECT_FALSE(pair.server->drained());
}

TEST_F(ListeningTest, RunReturnsWhenTheLastConnectionHasEnded) {
  remove_device();
  pair.client->close();
  pair.server->run();
  EXPECT_TRUE(pair.server->drained());
  EXPECT_EQ(pair.server->connections(), 0U);
}

TEST_F(ListeningTest, RunReturnsAtOnceWithoutConnections) {
  pair.client.reset();
  pair.run_until([this] { return pair.server->connections() == 0; });
  EXPECT_FALSE(pair.server->drained());
  pair.network->remove_listening_device();
  pair.server->run();
  EXPECT_TRUE(pair.server->failure().has_value());
}

TEST_F(ListeningTest, StopEndsTheConnectionsThatAreLeft) {
  remove_device();
  pair.server->stop();
  pair.run_until([this] { return pair.server->drained(); });
  EXPECT_TRUE(pair.server->failure().has_value());
}

TEST_F(ListeningTest, AStoppedServerHasNotFailed) {
  pair.server->stop();
  pair.run_until([this] { return pair.server->drained(); });
  pair.network->remove_listening_device();
  pair.server->progress();
  EXPECT_FALSE(pair.server->failure().has_value());
}

// Keeps what a server says about its connections: kind, whether there was an error, how many are
// left.
struct Told {
  ConnectionEvent::Kind kind;
  bool failed;
  std::size_t connections;
  bool operator==(const Told&) const = default;
};

class ConnectionEventTest : public ::testing::TestWithParam<bool> {
 protected:
  static std::unique_ptr<Network> network() { return GetParam() ? make_siwarp(true) : make_sim(1); }
  ServerOptions options() {
    ServerOptions options;
    options.connections_max = 1;
    options.on_connection = [this](const ConnectionEvent& event) {
      told.push_back({event.kind, event.error != nullptr, event.connections});
      peers.emplace_back(event.peer);
      numbers.push_back(event.number);
      calls = event.counters.calls;
      if (event.error != nullptr) cause = event.error->message();
    };
    return options;
  }

  std::vector<Told> told;
  std::vector<std::string> peers;
  std::vector<std::uint64_t> numbers;
  std::string cause;
  std::uint64_t calls = 0;
};

INSTANTIATE_TEST_SUITE_P(Providers, ConnectionEventTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "siwarp" : "sim"; });

TEST_P(ConnectionEventTest, TellsOfEachConnectionHowItBeginsAndEnds) {
  using Kind = ConnectionEvent::Kind;
  RpcPair pair(network(), {}, options());
  pair.run_until([this] { return told.size() == 2; });
  EXPECT_EQ(told, (std::vector<Told>{{Kind::kOpened, false, 1}, {Kind::kReady, false, 1}}));
  EXPECT_FALSE(peers[0].empty());
  ASSERT_EQ(pair.finish(*pair.prepare(TestService::kWhoAmI),
                        [](Reply& reply) { (void)reply.results().xdr().u32("uid"); }),
            std::nullopt);
  pair.client.reset();
  pair.run_until([this] { return told.size() == 3; });
  EXPECT_EQ(told[2], (Told{Kind::kEnded, false, 0})) << cause;
  EXPECT_EQ(peers[1], peers[0]);
  EXPECT_EQ(peers[2], peers[0]);
  EXPECT_EQ(calls, 1U);
}

TEST_P(ConnectionEventTest, NumbersConnectionsForTheirCallsToo) {
  RpcPair pair(network(), {}, options());
  for (const std::uint64_t number : {1U, 2U}) {
    auto call = pair.prepare(TestService::kHold);
    ASSERT_TRUE(call);
    ASSERT_TRUE(pair.client->start(std::move(*call), [](Expected<Reply, Error>) {}));
    ASSERT_TRUE(pair.run_until([&] { return !pair.service.held.empty(); }));
    EXPECT_EQ(pair.service.held.front()->connection_number(), number);
    pair.service.held.front()->succeed();
    pair.service.held.clear();
    const std::size_t events = 3 * number;
    pair.client.reset();
    ASSERT_TRUE(pair.run_until([&] { return told.size() == events; }));
    EXPECT_EQ(std::vector(numbers.end() - 3, numbers.end()), std::vector<std::uint64_t>(3, number));
    if (number == 1) pair.client.emplace(RpcPair::connect_another(pair));
  }
}

TEST_P(ConnectionEventTest, TellsOfOneThatIsRefused) {
  using Kind = ConnectionEvent::Kind;
  RpcPair pair(network(), {}, options());
  auto late = ConnectingClient::connect_on(pair.network->client_side(), pair.server->address(), {});
  ASSERT_TRUE(late.has_value());
  pair.run_until([&] {
    late->progress();
    return late->ended();
  });
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[2], (Told{Kind::kRefused, true, 1}));
  EXPECT_EQ(numbers[2], 0U);
  EXPECT_NE(cause.find("as many as there may be"), std::string::npos) << cause;
}

TEST_F(ListeningTest, ANewServerTakesTheSameAddressWhenTheDeviceIsBack) {
  remove_device();
  pair.client.reset();
  pair.kill_server();
  pair.start_server();
  const Client client = RpcPair::connect_another(pair);
  EXPECT_TRUE(client.connected());
}

}  // namespace
}  // namespace rpcrdma::test
