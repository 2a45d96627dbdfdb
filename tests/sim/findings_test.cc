// Repeats what the runner has found and no other test can show: each as small as it can be.
#include <gtest/gtest.h>

#include <cstdlib>

#include "rpc/call/connecting_client.h"
#include "rpc/serve/server_impl.h"
#include "sim/node.h"

namespace rpcrdma::simulation {
namespace {

// Actors that make progress only when they would be woken.
class Wakeful final : private Driver {
 public:
  explicit Wakeful(const ConnectionOptions& connection = {}) {
    ServerOptions server_options;
    ClientOptions client_options;
    server_options.connection = client_options.connection = connection;
    server.emplace(ServerImpl::listen_on(server_node, "server:0", server_options).value());
    first.emplace(
        ConnectingClient::connect_on(first_node, server->address(), client_options).value());
    second.emplace(
        ConnectingClient::connect_on(second_node, server->address(), client_options).value());
    while (move()) {
    }
  }
  // False: nobody is woken, and nothing is going to happen.
  bool move() {
    if (server_node.ready()) return server->progress(), true;
    if (first_node.ready()) return first->progress(), true;
    if (second_node.ready()) return second->progress(), true;
    return world.step();
  }

 private:
  void wait_for(Node&) override { ASSERT_TRUE(world.step()); }

  Verdict verdict_;
  Totals totals_;
  Trace trace_{false};

 public:
  rdma::sim::World world{1};
  const Node::Shared shared{world, *this, verdict_, totals_, trace_, false, false};
  Node server_node{shared, false, 0}, first_node{shared, true, 0}, second_node{shared, true, 1};
  std::optional<Server> server;
  std::optional<Client> first, second;
};

// Answers the call that it holds when another one comes, and holds that one.
class Rendezvous final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
    static constexpr ProcedureTraits kAny{.may_answer_by_read = true};
    return &kAny;
  }
  void call(CallContext& context) override {
    if (held != nullptr) held->succeed();
    held = &context;
  }
  CallContext* held = nullptr;
};

// Seed 1067: the answer was left in a session whose turn was over, and nobody was woken for it.
// Either client comes first, because either session may have its turn first.
TEST(Findings, AnswerGivenInTheTurnOfAnotherConnectionGoesOut) {
  for (const bool swapped : {false, true}) {
    SCOPED_TRACE(swapped);
    Wakeful world;
    Rendezvous service;
    ASSERT_TRUE(world.server->add(1, 1, service));
    Client& first = swapped ? *world.second : *world.first;
    Client& second = swapped ? *world.first : *world.second;
    int answered = 0;
    for (Client* client : {&first, &second}) {
      auto call = client->prepare({1, 1, 1});
      ASSERT_TRUE(call);
      ASSERT_TRUE(client->start(std::move(*call), [&](auto) { ++answered; }));
      while (world.move()) {
      }
      ASSERT_NE(service.held, nullptr);
    }
    EXPECT_EQ(answered, 1);
    service.held->succeed();
    while (world.move()) {
    }
    EXPECT_EQ(answered, 2);
  }
}

// Seed 9 when the profile was new: the Call that configures the connection was started behind the
// last look at what there is to send, and nobody was woken for it.
TEST(Findings, ConnectionIsConfiguredWithoutAFurtherWakeUp) {
  ConnectionOptions connection;
  connection.profile = Profile::kRfc5666;
  Wakeful world(connection);
  EXPECT_TRUE(world.first->connected());
  EXPECT_TRUE(world.second->connected());
}

}  // namespace
}  // namespace rpcrdma::simulation
