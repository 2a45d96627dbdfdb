// Clients of a server that outlive their connection, and make their calls again over the next one
// (RFC 8167 section 5.4).
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "rpc/call/connecting_client.h"
#include "rpc/serve/server_impl.h"
#include "support/checked_reply.h"
#include "system/backward_fixture.h"

namespace rpcrdma::test {
namespace {

// B-10: its calls wait for the next connection, and for the word of the upper layer on it.
class BackwardThatOutlives : public Backward {
 protected:
  static constexpr std::size_t kCalls = 3;
  void connect_and_call(std::chrono::nanoseconds timeout = std::chrono::seconds(60)) {
    ready.options.outlives_connection = true;
    connect(client_options(4, true));
    announce();
    ASSERT_TRUE(ready.client);
    for (std::size_t i = 0; i < kCalls; ++i) {
      Call call = backward_call(i == 0 ? TestService::kHold : TestService::kEcho);
      call.time_out_after(timeout);
      if (i > 0) call.arguments().bulk(data_);
      start(i, std::move(call));
    }
    EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  }
  void start(std::size_t number, Call call) {
    ASSERT_TRUE(ready.client->start(std::move(call), [this, number](Expected<Reply, Error> reply) {
      ++ends_[number];
      if (!reply) {
        errors_[number] = reply.error();
        return;
      }
      if (number > 0) {
        EXPECT_TRUE(std::ranges::equal(read(*reply)->bulk(1U << 20U, "data"), data_));
      }
    }));
  }
  // The client comes back to the same server.
  void lose_connection() {
    pair->client->close();
    EXPECT_TRUE(pair->run_until([&] { return pair->server->connections() == 0; }));
    come_back();
  }
  void come_back() {
    pair->client->close();
    EXPECT_TRUE(pair->run_until([&] { return !pair->client->connected(); }));
    for (CallContext* context : on_client.held) context->succeed();
    on_client.held.clear();
    pair->client.reset();
    auto next = ConnectingClient::connect_on(pair->network->client_side(), pair->server->address(),
                                             client_options(4, true));
    ASSERT_TRUE(next);
    pair->client = std::move(*next);
    EXPECT_TRUE(pair->run_until([&] { return pair->client->connected(); }));
    ASSERT_TRUE(
        Reverse::serve(*pair->client, TestService::kProgram, TestService::kVersion, on_client));
  }
  const std::vector<std::byte> data_ = pattern(1000, 3);
  std::array<int, kCalls> ends_{};
  std::array<std::optional<Error>, kCalls> errors_;
};

TEST_P(BackwardThatOutlives, MakesItsCallsAgainOverTheConnectionThatIsAnnouncedNext) {
  connect_and_call();
  lose_connection();
  EXPECT_EQ(ends_, (std::array<int, kCalls>{}));
  Client* const before = &*ready.client;
  ready.resumes = true;
  announce();
  ASSERT_FALSE(ready.refused) << ready.refused->message();
  EXPECT_EQ(&*ready.client, before);
  EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  on_client.held[0]->succeed();
  on_client.held.clear();
  EXPECT_TRUE(pair->run_until([&] { return ends_ == std::array<int, kCalls>{1, 1, 1}; }));
  for (const auto& error : errors_) EXPECT_FALSE(error) << error->message();
  EXPECT_FALSE(echo(700, 4));
  announce();
  ASSERT_TRUE(ready.refused) << "it has a connection";
}

// A service that waits for a backward call keeps the session of the lost connection, and the call
// is not to wait for that in turn.
TEST_P(BackwardThatOutlives, ItsCallsGoOnWhileCallsOfTheLostConnectionAreInService) {
  TestService on_server;
  ready.options.outlives_connection = true;
  connect(client_options(4, true));
  ASSERT_TRUE(pair->server->add(77, 1, on_server));
  announce();
  ASSERT_TRUE(ready.client);
  auto forward = pair->client->prepare({77, 1, TestService::kHold});
  ASSERT_TRUE(forward);
  ASSERT_TRUE(pair->client->start(std::move(*forward), [](auto) {}));
  EXPECT_TRUE(pair->run_until([&] { return !on_server.held.empty(); }));
  start(0, backward_call(TestService::kHold));
  Call short_call = backward_call(TestService::kHold);
  short_call.time_out_after(std::chrono::milliseconds(300));
  start(1, std::move(short_call));
  EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  come_back();
  EXPECT_TRUE(pair->run_until([&] { return ends_[1] == 1; })) << "its time counts";
  EXPECT_EQ(errors_[1]->code, Errc::kTimedOut);
  ready.resumes = true;
  announce();
  ASSERT_FALSE(ready.refused) << ready.refused->message();
  EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  on_client.held[0]->succeed();
  on_client.held.clear();
  EXPECT_TRUE(pair->run_until([&] { return ends_[0] == 1; }));
  EXPECT_FALSE(errors_[0]) << errors_[0]->message();
  on_server.held[0]->succeed();
  EXPECT_TRUE(pair->run_until([&] { return pair->server->connections() == 1; }));
}

TEST_P(BackwardThatOutlives, CallsMadeWithoutAConnectionWaitAsWell) {
  connect_and_call();
  Call prepared = backward_call(TestService::kEcho);
  prepared.arguments().bulk(data_);
  lose_connection();
  const auto started = ready.client->start(std::move(prepared), [&](Expected<Reply, Error> reply) {
    ASSERT_TRUE(reply) << reply.error().message();
    EXPECT_TRUE(std::ranges::equal(read(*reply)->bulk(1U << 20U, "data"), data_));
    ++ends_[0];
  });
  ASSERT_TRUE(started) << started.error().message();
  Call made = backward_call(TestService::kEcho);
  made.arguments().bulk(data_);
  start(1, std::move(made));
  ready.resumes = true;
  announce();
  EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  on_client.held[0]->succeed();
  on_client.held.clear();
  EXPECT_TRUE(pair->run_until([&] { return ends_ == std::array<int, kCalls>{2, 2, 1}; }));
}

TEST_P(BackwardThatOutlives, ItsCallsTimeOutWithoutAConnection) {
  connect_and_call(std::chrono::milliseconds(200));
  lose_connection();
  EXPECT_TRUE(pair->run_until([&] { return ends_ == std::array<int, kCalls>{1, 1, 1}; }));
  for (const auto& error : errors_) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, Errc::kTimedOut) << error->message();
  }
}

TEST_P(BackwardThatOutlives, EachOfItsCallsTimesOutInItsTimeWithoutAConnection) {
  connect_and_call();
  lose_connection();
  for (std::size_t i = 0; i < 2; ++i) {
    Call call = backward_call(TestService::kEcho);
    call.time_out_after(i == 0 ? std::chrono::milliseconds(100) : std::chrono::seconds(2));
    start(i, std::move(call));
  }
  EXPECT_TRUE(pair->run_until([&] { return ends_[0] == 1; }));
  EXPECT_EQ(ends_[1], 0);
  EXPECT_TRUE(pair->run_until([&] { return ends_[1] == 1; }));
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(errors_[i]->code, Errc::kTimedOut) << i;
  ready.client.reset();
  EXPECT_EQ(ends_, (std::array<int, kCalls>{2, 2, 1}));
}

TEST_P(BackwardThatOutlives, ItsCallsEndWithTheServer) {
  connect_and_call();
  lose_connection();
  pair->kill_server();
  EXPECT_EQ(ends_, (std::array<int, kCalls>{1, 1, 1}));
  for (const auto& error : errors_) EXPECT_EQ(error->code, Errc::kConnectionLost);
}

// It lies in memory of the server's.
TEST_P(BackwardThatOutlives, RefusesToReadAReplyBehindTheEndOfTheServer) {
  connect(client_options(4, true));
  for (const bool outlives : {false, true}) {
    ready.options.outlives_connection = outlives;
    if (outlives) {
      pair->start_server();
      ASSERT_TRUE(pair->server->add(ReadyService::kProgram, 1, ready));
      come_back();
    }
    announce();
    ASSERT_TRUE(ready.client);
    Call call = backward_call(TestService::kEcho);
    call.arguments().bulk(data_);
    std::optional<Reply> kept;
    ASSERT_TRUE(ready.client->start(std::move(call), [&kept](Expected<Reply, Error> reply) {
      ASSERT_TRUE(reply) << reply.error().message();
      kept.emplace(std::move(*reply));
    }));
    EXPECT_TRUE(pair->run_until([&] { return kept.has_value(); }));
    pair->kill_server();
    const auto decoded = kept->decode([](MessageReader& results) {
      const Bytes data = results.bulk(1U << 20U, "data");
      return std::vector<std::byte>(data.begin(), data.end());
    });
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, Errc::kBadReply) << decoded.error().message();
    kept.reset();
    ready.client.reset();
  }
}

TEST_P(BackwardThatOutlives, ItsCallsEndWithItself) {
  connect_and_call();
  lose_connection();
  ready.client.reset();
  EXPECT_EQ(ends_, (std::array<int, kCalls>{1, 1, 1}));
  for (const auto& error : errors_) EXPECT_EQ(error->code, Errc::kCanceled);
  expect_forward_works();
}

INSTANTIATE_TEST_SUITE_P(Fabrics, BackwardThatOutlives,
                         ::testing::Values(Fabric{"sim", [] { return test::make_sim(1); }},
                                           Fabric{"siwarp",
                                                  [] { return test::make_siwarp(true); }}),
                         name_of_fabric);

}  // namespace
}  // namespace rpcrdma::test
