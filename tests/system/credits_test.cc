// Grants that change while connections live: a server whose connections share its Receives.
#include <gtest/gtest.h>

#include <cstdlib>
#include <list>
#include <string>
#include <utility>

#include "rdma/siwarp/provider.h"
#include "rpc/call/connecting_client.h"
#include "rpc/serve/server_impl.h"
#include "support/fabric.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

ServerOptions sharing(std::uint32_t receives_max) {
  ServerOptions options;
  options.receives_max = receives_max;
  return options;
}

class SharedCredits : public ::testing::TestWithParam<Fabric> {
 protected:
  bool run_until(const std::function<bool()>& condition) {
    return pair.run_until([&] {
      for (Client& client : others) client.progress();
      return condition();
    });
  }
  void add_client() {
    auto connecting =
        ConnectingClient::connect_on(pair.network->client_side(), pair.server->address(), {});
    ASSERT_TRUE(connecting);
    others.push_back(std::move(*connecting));
    ASSERT_TRUE(run_until([&] { return others.back().connected(); }));
  }
  void start(Client& client, std::uint32_t procedure) {
    auto call = client.prepare({TestService::kProgram, TestService::kVersion, procedure});
    ASSERT_TRUE(call);
    if (procedure == TestService::kEcho) call->arguments().bulk(Bytes{});
    ++started;
    ASSERT_TRUE(client.start(std::move(*call), [this](Expected<Reply, Error> reply) {
      EXPECT_TRUE(reply) << reply.error().message();
      ++ended;
    }));
  }
  // Each reply brings the newest grant.
  void exchange(Client& client, int calls) {
    for (int i = 0; i < calls; ++i) {
      start(client, TestService::kEcho);
      ASSERT_TRUE(run_until([&] { return ended == started; }));
    }
  }
  // So many calls of the client can be unanswered, and no more.
  void expect_credits(Client& client, std::size_t credits) {
    auto& held = pair.service.held;
    for (std::size_t i = 0; i < credits + 3; ++i) start(client, TestService::kHold);
    ASSERT_TRUE(run_until([&] { return held.size() >= credits; }));
    for (int i = 0; i < 4; ++i) {  // another one comes only when one is answered
      EXPECT_EQ(held.size(), credits);
      const int before = ended;
      held.front()->succeed();
      held.erase(held.begin());
      const std::size_t left = std::min(credits, static_cast<std::size_t>(started - ended) - 1);
      ASSERT_TRUE(run_until([&] { return ended > before && held.size() >= left; }));
      if (left < credits) break;
    }
    while (ended < started) {
      ASSERT_TRUE(run_until([&] { return !held.empty() || ended == started; }));
      for (CallContext* context : std::exchange(held, {})) context->succeed();
    }
  }

  RpcPair pair{GetParam().make(), {}, sharing(16)};
  std::list<Client> others;
  int started = 0, ended = 0;
};

TEST_P(SharedCredits, AreGivenToWhoIsThere) {
  exchange(*pair.client, 2);
  EXPECT_EQ(pair.server->receives_posted(), 16U);
  for (int i = 0; i < 3; ++i) add_client();
  exchange(*pair.client, 30);  // each reply takes one Receive back
  for (Client& client : others) exchange(client, 30);
  EXPECT_EQ(pair.server->receives_posted(), 16U);
  for (Client& client : others) client.close();
  ASSERT_TRUE(run_until([&] { return pair.server->connections() == 1; }));
  exchange(*pair.client, 2);
  EXPECT_EQ(pair.server->receives_posted(), 16U) << "all of them are the first one's again";
}

// A client that rests has nothing that would make the server look at its connection.
TEST_P(SharedCredits, AreTakenOverByWhoRests) {
  exchange(*pair.client, 2);
  for (int i = 0; i < 3; ++i) add_client();
  exchange(*pair.client, 30);
  for (Client& client : others) client.close();
  ASSERT_TRUE(run_until([&] { return pair.server->connections() == 1; }));
  EXPECT_TRUE(run_until([&] { return pair.server->receives_posted() == 16; }));
}

TEST_P(SharedCredits, CanBeOfMemoryOfTheProviders) {
  exchange(*pair.client, 2);
  const bool asked_for = GetParam().name == std::string("sim_in_one_queue") ||
                         pair.server->provider_name() == "siwarp" ||
                         (GetParam().name == std::string("siwarp") &&
                          std::getenv("RPCRDMA_LAB_SHARED") != nullptr);  // a device's, in the lab
  EXPECT_EQ(pair.server->shares_receives(), asked_for);
}

TEST_P(SharedCredits, OneEachAtLeast) {
  for (int i = 0; i < 20; ++i) add_client();
  exchange(*pair.client, 30);
  for (Client& client : others) exchange(client, 10);
  EXPECT_EQ(pair.server->receives_posted(), 21U);
}

TEST_P(SharedCredits, GrantsGoDownAndUpAgain) {
  exchange(*pair.client, 2);
  expect_credits(*pair.client, 16);
  for (int i = 0; i < 3; ++i) add_client();
  exchange(*pair.client, 30);
  expect_credits(*pair.client, 4);
  others.clear();
  ASSERT_TRUE(run_until([&] { return pair.server->connections() == 1; }));
  exchange(*pair.client, 2);
  expect_credits(*pair.client, 16);
}

// One queue for all of them, of the provider's.
const Fabric kSimInOneQueue{"sim_in_one_queue", [] {
                              rdma::sim::Options options;
                              options.shares_receives = true;
                              // The server's 16, and a client's for the reply that it looks at.
                              options.shared_messages_max = 18;
                              return test::make_sim(1, options);
                            }};
INSTANTIATE_TEST_SUITE_P(
    Fabrics, SharedCredits,
    ::testing::Values(Fabric{"sim", [] { return test::make_sim(1); }}, kSimInOneQueue,
                      Fabric{"siwarp", [] { return test::make_siwarp(false); }}),
    name_of_fabric);

// Its set-up begins while another connection is there, and goes on when that one has gone: nothing
// else tells that there are other connections than before.
TEST(SharedCreditsOverTcp, ConnectionThatTakesTheTurnOfAnotherGetsItsShare) {
  const auto provider = std::move(rdma::siwarp::make_provider({}).value());
  ServerOptions options = sharing(64);
  options.connection.credits = 8;
  auto listening = ServerImpl::listen_on(*provider, "127.0.0.1:0", options);
  ASSERT_TRUE(listening);
  Server& server = *listening;
  TestService service;
  ASSERT_TRUE(server.add(TestService::kProgram, TestService::kVersion, service));
  const auto connect = [&] {
    return test::RawPeer::connect(server.address(), [&] { server.progress(); });
  };
  auto first = connect();
  ASSERT_FALSE(first->initiate(test::RawTalk::mpa(true)).empty());
  auto second = connect();
  for (int i = 0; i < 10; ++i) server.progress();  // it is accepted as a TCP connection
  first.reset();
  while (server.connections() > 0) server.progress();
  ASSERT_FALSE(second->initiate(test::RawTalk::mpa(true)).empty());
  test::RawTalk talk(std::move(second), true);
  ASSERT_TRUE(talk.send(test::join(
      {test::raw_header(9, 0), test::words({0, 0, 0}), test::raw_call(9, TestService::kNull)})));
  const auto reply = talk.next_message();
  ASSERT_TRUE(reply);
  EXPECT_EQ(test::to_words(*reply).at(2), 8U) << "credits";
}

}  // namespace
}  // namespace rpcrdma::test
