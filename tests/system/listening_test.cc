// A server whose RDMA device is removed says so, and serves the connections that are left.
#include <gtest/gtest.h>

#include <string>

#include "rpc/client_impl.h"
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
  auto late = ClientImpl::connect_on(pair.network->client_side(), pair.server->address(), {});
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
