// Servers close RDMA connections on which nothing happens, where ServerOptions::idle_timeout asks
// for it: over RC nothing else shows that a peer is gone. In virtual time.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

using std::chrono::seconds;

class HostileSilence : public ::testing::Test {
 protected:
  static constexpr seconds kIdle{30};

  void start(seconds call_timeout, bool may_reconnect = false) {
    ServerOptions server;
    server.idle_timeout = kIdle;
    server.on_connection = [this](const ConnectionEvent& event) {
      if (event.kind != ConnectionEvent::Kind::kEnded) return;
      ++ended_;
      if (event.error != nullptr) causes_.push_back(event.error->message());
    };
    ClientOptions client;
    client.call_timeout = call_timeout;
    client.reconnect.enabled = may_reconnect;
    pair_ = std::make_unique<RpcPair>(make_sim(1), client, server);
  }
  Instant now() { return pair_->network->server_side().now(); }
  // How a call of the procedure ends: nullopt is success.
  std::optional<Errc> call(std::uint32_t procedure) {
    std::optional<Expected<Reply, Error>> end;
    auto call = pair_->client->prepare({TestService::kProgram, TestService::kVersion, procedure});
    EXPECT_TRUE(call && pair_->client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
      end.emplace(std::move(reply));
    }));
    EXPECT_TRUE(pair_->run_until([&] { return end.has_value(); }));
    return *end ? std::nullopt : std::optional(end->error().code);
  }

  std::unique_ptr<RpcPair> pair_;
  int ended_ = 0;
  std::vector<std::string> causes_;
};

TEST_F(HostileSilence, IsClosedInOrderWhenItsTimeIsOver) {
  start(seconds(3600));
  EXPECT_EQ(call(TestService::kNull), std::nullopt);
  const Instant begun = now();
  ASSERT_TRUE(pair_->run_until([&] { return pair_->server->connections() == 0; }));
  EXPECT_GE(now() - begun, kIdle);
  EXPECT_LE(now() - begun, kIdle + seconds(1));
  EXPECT_EQ(causes_, std::vector<std::string>());
}

TEST_F(HostileSilence, IsNoneWhileACallIsUnderWay) {
  start(3 * kIdle);
  const Instant begun = now();
  EXPECT_EQ(call(TestService::kHold), Errc::kTimedOut) << "the server kept the connection";
  EXPECT_GE(now() - begun, 3 * kIdle);
}

TEST_F(HostileSilence, CostsAClientThatReconnectsNothing) {
  start(seconds(3600), true);
  EXPECT_EQ(call(TestService::kNull), std::nullopt);
  ASSERT_TRUE(pair_->run_until([&] { return ended_ > 0; }));
  EXPECT_EQ(call(TestService::kNull), std::nullopt);
}

}  // namespace
}  // namespace rpcrdma::test
