// Calls from the server to the client on the connection that the client made (RFC 8167), over every
// provider.
#include "rpcrdma/backward.h"

#include <gtest/gtest.h>

#include <thread>

#include "rpc/call/connecting_client.h"
#include "rpc/serve/server_impl.h"
#include "rpcrdma/coroutine.h"
#include "rpcrdma/version_two.h"
#include "support/checked_reply.h"
#include "support/fabric.h"
#include "support/rpc_fixture.h"
#include "system/backward_fixture.h"

namespace rpcrdma::test {
namespace {

TEST_P(Backward, TheServerCallsTheClient) {
  connect_both_ways();
  EXPECT_FALSE(echo(1000, 1));
  EXPECT_FALSE(echo(1, 2)) << "odd sizes have their padding";
  EXPECT_FALSE(echo(0, 3));
  EXPECT_FALSE(echo(3000, 4)) << "more than a message room";
  EXPECT_EQ(on_client.calls, 4U);
  EXPECT_EQ(pair->client->counters().read_chunks, 0U);
  EXPECT_EQ(pair->client->counters().write_chunks, 0U);
  expect_forward_works();
}

// XCHAR_BRS GENL: what fits no message moves by chunks, which the client reads and writes.
TEST_P(Backward, AClientOfVersionTwoTakesChunks) {
  connect_in_version_two();
  EXPECT_EQ(pair->client->version_two().characteristics()->own.backward, BackwardSupport::kGeneral);
  ASSERT_TRUE(ready.client) << (ready.refused ? ready.refused->message() : "");
  for (const std::size_t size : {100U, 3900U, 4096U, 5000U, 70'000U, 900'000U}) {
    const auto error = echo(size, 1);
    EXPECT_FALSE(error) << size << ' ' << error->message();
  }
  EXPECT_GE(pair->client->counters().long_calls, 4U);
  EXPECT_EQ(ready.client->connection().protocol_version, 2U);
  expect_forward_works();
}

// The client's memory is held by a reply that the application looks at.
TEST_P(Backward, CallsWithChunksWaitForMemoryOfTheClient) {
  ClientOptions options = client_options();
  options.memory_max = 120'000;
  connect_in_version_two(options);
  ASSERT_TRUE(ready.client);
  EXPECT_FALSE(echo(100, 1)) << "whose reply grants more than one credit";
  std::optional<Reply> kept;
  auto produce = pair->prepare(TestService::kProduce);
  ASSERT_TRUE(produce);
  produce->arguments().xdr().u32(60'000);
  produce->expect_results(60'008);
  ASSERT_TRUE(pair->client->start(std::move(*produce), [&](Expected<Reply, Error> reply) {
    ASSERT_TRUE(reply);
    kept.emplace(std::move(*reply));
  }));
  ASSERT_TRUE(pair->run_until([&] { return kept.has_value(); }));
  Call call = backward_call(TestService::kLength);
  const auto data = pattern(60'000, 3);
  call.arguments().bulk(data);
  std::optional<bool> ended;
  ASSERT_TRUE(ready.client->start(
      std::move(call), [&](Expected<Reply, Error> reply) { ended = reply.has_value(); }));
  ASSERT_TRUE(pair->run_until([&] { return pair->client->counters().long_calls == 1; }));
  EXPECT_FALSE(echo(100, 1)) << "others do not wait";
  EXPECT_FALSE(ended);
  kept.reset();
  EXPECT_TRUE(pair->run_until([&] { return ended.has_value(); }));
  EXPECT_EQ(ended, true);
}

// In version 2 the client says so, where in version 1 its calls come to nothing.
TEST_P(Backward, AClientOfVersionTwoThatTakesNoneIsCalledByNobody) {
  connect_in_version_two(client_options(0));
  EXPECT_FALSE(ready.client);
  ASSERT_TRUE(ready.refused);
  EXPECT_EQ(ready.refused->cause, "it takes no calls (XCHAR_BRS NONE)");
}

// The calls of both directions go their ways at the same time, each with credits of its own.
TEST_P(Backward, BothDirectionsAreLoadedAtTheSameTime) {
  connect_both_ways();
  constexpr int kCalls = 300;
  int forward_started = 0, forward_ended = 0, backward_started = 0, backward_ended = 0;
  const auto data = pattern(600, 5);
  const auto check = [&](Expected<Reply, Error>& reply) {
    ASSERT_TRUE(reply) << reply.error().message();
    EXPECT_TRUE(std::ranges::equal(read(*reply)->bulk(1U << 20U, "data"), data));
    EXPECT_FALSE(reply->finish());
  };
  const auto more = [&] {
    while (forward_started < kCalls && forward_started - forward_ended < 20) {
      auto call = pair->prepare(TestService::kEcho);
      if (!call) break;
      call->arguments().bulk(data);
      call->expect_results(700);
      ++forward_started;
      ASSERT_TRUE(pair->client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
        ++forward_ended;
        check(reply);
      }));
    }
    while (backward_started < kCalls && backward_started - backward_ended < 8) {
      Call call = backward_call(TestService::kEcho);
      call.arguments().bulk(data);
      call.expect_results(700);
      ++backward_started;
      ASSERT_TRUE(ready.client->start(std::move(call), [&](Expected<Reply, Error> reply) {
        ++backward_ended;
        check(reply);
      }));
    }
  };
  EXPECT_TRUE(pair->run_until([&] {
    more();
    return forward_ended == kCalls && backward_ended == kCalls;
  }));
}

// A service of the server asks the client before it answers the client's call.
TEST_P(Backward, ACallMayBeAnsweredWithTheHelpOfItsCaller) {
  connect_both_ways();
  auto call = pair->prepare(TestService::kHold);
  ASSERT_TRUE(call);
  bool ended = false;
  ASSERT_TRUE(pair->client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
    EXPECT_TRUE(reply);
    ended = true;
  }));
  EXPECT_TRUE(pair->run_until([&] { return !pair->service.held.empty(); }));
  EXPECT_FALSE(echo(100, 1));
  pair->service.held.front()->succeed();
  pair->service.held.clear();
  EXPECT_TRUE(pair->run_until([&] { return ended; }));
}

Task<bool> ask(Client& client, Bytes data) {
  auto call = client.prepare({TestService::kProgram, TestService::kVersion, TestService::kLength});
  if (!call) co_return false;
  call->arguments().bulk(data);
  auto reply = co_await client.call_async(std::move(*call));
  co_return reply&& read(*reply)->xdr().u32("size") == data.size();
}

TEST_P(Backward, CoroutinesAwaitBackwardCalls) {
  connect_both_ways();
  const auto data = pattern(123, 1);
  auto asked = ask(*ready.client, data);
  asked.start();
  EXPECT_TRUE(pair->run_until([&] { return asked.done(); }));
  EXPECT_TRUE(std::move(asked).result());
}

// B-11: a call goes over the connection that its client object is for.
TEST_P(Backward, EachClientGetsItsOwnCalls) {
  connect_both_ways();
  TestService on_second;
  Client first = std::move(*ready.client);
  auto connecting = ConnectingClient::connect_on(pair->network->client_side(),
                                                 pair->server->address(), client_options());
  ASSERT_TRUE(connecting);
  ASSERT_TRUE(Reverse::serve(*connecting, TestService::kProgram, TestService::kVersion, on_second));
  std::swap(*pair->client, *connecting);
  Client& first_caller = *connecting;
  EXPECT_TRUE(pair->run_until([&] {
    first_caller.progress();
    return pair->client->connected();
  }));
  announce();
  ASSERT_TRUE(ready.client);
  EXPECT_FALSE(echo(100, 1));
  EXPECT_EQ(on_second.calls, 1U);
  EXPECT_EQ(on_client.calls, 0U);
  std::swap(*ready.client, first);
  std::swap(*pair->client, *connecting);
  EXPECT_FALSE(echo(100, 2));
  EXPECT_EQ(on_second.calls, 1U);
  EXPECT_EQ(on_client.calls, 1U);
  connecting->close();
  EXPECT_TRUE(pair->run_until([&] {
    connecting->progress();
    return pair->server->connections() == 1;
  }));
}

// --- What goes wrong

TEST_P(Backward, NobodyWaitsForABackwardCall) {
  connect_both_ways();
  const auto reply = ready.client->call(backward_call(TestService::kNull));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kUnsupported);
}

TEST_P(Backward, BothSidesHaveToAllowThem) {
  connect(client_options(), server_options(0));
  announce();
  EXPECT_FALSE(ready.client);
  ASSERT_TRUE(ready.refused);
  EXPECT_EQ(ready.refused->code, Errc::kUnsupported);
}

// B-1: a client that was not told to takes no calls, and lives on.
TEST_P(Backward, AClientThatTakesNoneDropsThem) {
  connect(client_options(0));
  const auto refused = Reverse::serve(*pair->client, 1, 1, on_client);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
  announce();
  ASSERT_TRUE(ready.client);
  Call call = backward_call(TestService::kEcho);
  call.arguments().bulk(Bytes{});
  call.time_out_after(std::chrono::milliseconds(20));
  const auto error = finish(std::move(call));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kTimedOut);
  expect_forward_works();
}

TEST_P(Backward, ProgramsThatTheClientDoesNotServeAreUnavailable) {
  connect_both_ways();
  auto call = ready.client->prepare({77, 1, 1});
  ASSERT_TRUE(call);
  const auto error = finish(std::move(*call));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kNotAvailable);
}

TEST_P(Backward, CallsHaveTheTimeOfTheirOptions) {
  ready.options.call_timeout = std::chrono::milliseconds(100);
  connect_both_ways();
  const rdma::Provider& clock = pair->network->server_side();
  const Instant start = clock.now();
  const auto error = finish(backward_call(TestService::kHold));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kTimedOut) << error->message();
  EXPECT_LT(clock.now() - start, std::chrono::seconds(10));
  on_client.held[0]->succeed();
}

// In version 1, and where the client of version 2 takes no chunks (XCHAR_BRS INLINE).
TEST_P(Backward, ArgumentsThatFitNoMessageFail) {
  ClientOptions options = client_options();
  options.backward_support = BackwardSupport::kInline;
  for (const auto version : {ProtocolVersion::kOne, ProtocolVersion::kTwo}) {
    options.version = version;
    connect(options);
    announce();
    const auto too_large = echo(5000, 1);
    ASSERT_TRUE(too_large);
    EXPECT_EQ(too_large->code, Errc::kTooLarge);
    Call produce = backward_call(TestService::kProduce);
    produce.arguments().xdr().u32(5000);
    const auto no_answer = finish(std::move(produce));
    ASSERT_TRUE(no_answer);
    EXPECT_EQ(no_answer->code, Errc::kChunk);
    EXPECT_FALSE(echo(100, 2)) << "the connection lives on";
    expect_forward_works();
  }
}

TEST_P(Backward, OneClientForEachConnection) {
  connect_both_ways();
  Client first = std::move(*ready.client);
  announce();
  ASSERT_TRUE(ready.refused);
  EXPECT_EQ(ready.refused->code, Errc::kUnsupported);
  ready.client.emplace(std::move(first));
  EXPECT_FALSE(echo(100, 1));
}

// --- The end

TEST_P(Backward, TheEndOfTheConnectionEndsThem) {
  connect_both_ways();
  int ends = 0;
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(
        ready.client->start(backward_call(TestService::kHold), [&](Expected<Reply, Error> reply) {
          ++ends;
          ASSERT_FALSE(reply);
          EXPECT_EQ(reply.error().code, Errc::kConnectionLost);
        }));
  }
  EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  pair->client->close();
  EXPECT_TRUE(pair->run_until([&] { return ends == 6; }));
  EXPECT_FALSE(ready.client->prepare({1, 1, 1}));
  for (CallContext* context : on_client.held) context->succeed();  // for nobody
  EXPECT_TRUE(pair->run_until([&] { return pair->server->connections() == 0; }));
}

TEST_P(Backward, TheEndOfTheClientObjectCancelsThem) {
  connect_both_ways();
  int canceled = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        ready.client->start(backward_call(TestService::kHold), [&](Expected<Reply, Error> reply) {
          EXPECT_EQ(reply.error().code, Errc::kCanceled);
          ++canceled;
        }));
  }
  EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  ready.client.reset();
  EXPECT_EQ(canceled, 3) << "at once";
  for (CallContext* context : on_client.held) context->succeed();
  on_client.held.clear();
  expect_forward_works();
  announce();  // what was under way has ended by now
  ASSERT_TRUE(ready.client) << ready.refused->message();
  EXPECT_FALSE(echo(100, 1));
}

TEST_P(Backward, TheServerMayGoFirst) {
  connect_both_ways();
  int ends = 0;
  ASSERT_TRUE(
      ready.client->start(backward_call(TestService::kHold), [&](Expected<Reply, Error> reply) {
        EXPECT_FALSE(reply);
        ++ends;
      }));
  EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  pair->kill_server();
  EXPECT_EQ(ends, 1);
  EXPECT_FALSE(ready.client->prepare({1, 1, 1}));
}

// A reply that is looked at keeps its Receive, and the connection's memory.
TEST_P(Backward, RepliesOutliveTheConnection) {
  connect_both_ways();
  const auto data = pattern(500, 1);
  Call call = backward_call(TestService::kEcho);
  call.arguments().bulk(data);
  std::optional<Reply> kept;
  ASSERT_TRUE(ready.client->start(std::move(call), [&](Expected<Reply, Error> reply) {
    ASSERT_TRUE(reply);
    kept.emplace(std::move(*reply));
  }));
  EXPECT_TRUE(pair->run_until([&] { return kept.has_value(); }));
  pair->client->close();
  EXPECT_TRUE(pair->run_until([&] { return !ready.client->connected(); }));
  EXPECT_TRUE(std::ranges::equal(read(*kept)->bulk(1U << 20U, "data"), data));
  kept.reset();
  EXPECT_TRUE(pair->run_until([&] { return pair->server->connections() == 0; }));
}

// B-10: a new connection, and a new word of the upper layer.
TEST_P(Backward, AfterReconnectionTheClientAnnouncesItselfAgain) {
  connect(client_options(4, true));
  announce();
  ASSERT_TRUE(ready.client);
  std::optional<Errc> lost;
  ASSERT_TRUE(
      ready.client->start(backward_call(TestService::kHold),
                          [&](Expected<Reply, Error> reply) { lost = reply.error().code; }));
  EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  pair->kill_server();
  EXPECT_TRUE(lost);
  ready.client.reset();
  EXPECT_TRUE(pair->run_until([&] { return !pair->client->connected(); }));
  pair->start_server();
  ASSERT_TRUE(pair->server->add(ReadyService::kProgram, 1, ready));
  announce();
  ASSERT_TRUE(ready.client);
  for (CallContext* context : on_client.held)
    context->succeed();  // of the connection that was lost
  on_client.held.clear();
  EXPECT_FALSE(echo(1000, 7));
}

// close() is for good: also for who tries again when a call has failed.
TEST_P(Backward, AClosedClientStartsNoMoreCalls) {
  connect_both_ways();
  int ends = 0;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(
        ready.client->start(backward_call(TestService::kHold), [&](Expected<Reply, Error> reply) {
          ++ends;
          EXPECT_EQ(reply.error().code, Errc::kCanceled);
          EXPECT_FALSE(ready.client->prepare({1, 1, 1}));
          ready.client->close();
        }));
  }
  Call prepared = backward_call(TestService::kNull);
  EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  ready.client->close();
  EXPECT_EQ(ends, 4);
  EXPECT_TRUE(ready.client->ended());
  EXPECT_FALSE(ready.client->prepare({1, 1, 1}));
  EXPECT_FALSE(ready.client->start(std::move(prepared), [](Expected<Reply, Error>) {}));
  for (CallContext* context : on_client.held) context->succeed();
  on_client.held.clear();
  expect_forward_works();
  ready.client.reset();
  EXPECT_EQ(ends, 4);
  announce();
  ASSERT_TRUE(ready.client) << ready.refused->message();
  EXPECT_FALSE(echo(100, 1));
}

// Prepared calls lie in memory of the client's own when the connection has gone with its memory.
TEST_P(Backward, PreparedCallsOutliveTheConnection) {
  connect_both_ways();
  Call lost = backward_call(TestService::kAbsorb);
  pair->client->close();
  EXPECT_TRUE(pair->run_until([&] { return pair->server->connections() == 0; }));
  lost.arguments().xdr().opaque(pattern(500, 1));
  const auto started = ready.client->start(std::move(lost), [](Expected<Reply, Error>) {});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::kConnectionLost);
}

TEST_P(Backward, PreparedCallsOutliveTheServer) {
  connect_both_ways();
  Call lost = backward_call(TestService::kAbsorb);
  pair->kill_server();
  lost.arguments().xdr().opaque(pattern(500, 1));
  EXPECT_FALSE(ready.client->start(std::move(lost), [](Expected<Reply, Error>) {}));
}

// A service that waits for the client's answer hears that there is none, and answers its own call
// as it always does, though nobody is there any more.
TEST_P(Backward, ServicesMayAnswerWhileTheirServerGoes) {
  connect_both_ways();
  auto forward = pair->prepare(TestService::kHold);
  ASSERT_TRUE(forward);
  ASSERT_TRUE(pair->client->start(std::move(*forward), [](Expected<Reply, Error>) {}));
  EXPECT_TRUE(pair->run_until([&] { return !pair->service.held.empty(); }));
  CallContext* const waiting = pair->service.held.front();
  int ends = 0;
  ASSERT_TRUE(
      ready.client->start(backward_call(TestService::kHold), [&](Expected<Reply, Error> reply) {
        ++ends;
        EXPECT_FALSE(reply);
        EXPECT_FALSE(ready.client->prepare({1, 1, 1})) << "nor does anybody try again";
        waiting->results().xdr().u32(1);
        EXPECT_TRUE(waiting->reserve_results(10'000));
        EXPECT_FALSE(waiting->result_memory(10'000).empty());
        waiting->results().xdr().opaque(pattern(9'000, 1));
        waiting->succeed();
      }));
  EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  pair->kill_server();
  EXPECT_EQ(ends, 1);
}

// After reconnection the slots of the two connections have the same numbers.
TEST_P(Backward, ResultsOfALostConnectionAreNotThoseOfTheNext) {
  connect(client_options(1, true));
  announce();
  ASSERT_TRUE(ready.client);
  ASSERT_TRUE(
      ready.client->start(backward_call(TestService::kHold), [](Expected<Reply, Error>) {}));
  EXPECT_TRUE(pair->run_until([&] { return on_client.held.size() == 1; }));
  pair->kill_server();
  ready.client.reset();
  EXPECT_TRUE(pair->run_until([&] { return !pair->client->connected(); }));
  pair->start_server();
  ASSERT_TRUE(pair->server->add(ReadyService::kProgram, 1, ready));
  announce();
  ASSERT_TRUE(ready.client);
  std::optional<std::uint32_t> number;
  ASSERT_TRUE(
      ready.client->start(backward_call(TestService::kHold), [&](Expected<Reply, Error> reply) {
        ASSERT_TRUE(reply) << reply.error().message();
        number = read(*reply)->xdr().u32("number");
      }));
  EXPECT_TRUE(pair->run_until([&] { return on_client.held.size() == 2; }));
  CallContext *const of_lost = on_client.held[0], *const current = on_client.held[1];
  on_client.held.clear();
  current->results().xdr().u32(0x600d);
  of_lost->results().xdr().u32(0xbad);
  of_lost->fail(AcceptStatus::kSystemErr);
  pair->client->progress();
  current->succeed();
  EXPECT_TRUE(pair->run_until([&] { return number.has_value(); }));
  EXPECT_EQ(number, 0x600dU);
}

// The next client's XIDs are not those of calls that the peer may still answer, though each client
// takes its first one from the clock.
TEST_P(Backward, ClientsOfAConnectionDoNotShareXids) {
  connect();
  ready.clock = &pair->network->server_side();
  const auto first_xid = [&] { return ready.made_at.time_since_epoch().count() >> 10; };
  announce();
  ASSERT_TRUE(ready.client);
  EXPECT_FALSE(echo(1, 1)) << "the first reply grants more than one";
  constexpr std::int64_t kAhead = 1'000'000;
  for (int i = 0; i < kAhead; ++i) (void)backward_call(TestService::kNull);  // an XID each
  ASSERT_TRUE(
      ready.client->start(backward_call(TestService::kHold), [](Expected<Reply, Error>) {}));
  const std::int64_t held = first_xid() + kAhead + 2;
  EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  ready.client.reset();
  expect_forward_works();
  announce();
  ASSERT_TRUE(ready.client) << ready.refused->message();
  for (auto i = first_xid(); i < held - 1; ++i) (void)backward_call(TestService::kNull);
  int ends = 0;
  ASSERT_TRUE(
      ready.client->start(backward_call(TestService::kHold), [&](Expected<Reply, Error> reply) {
        EXPECT_TRUE(reply) << reply.error().message();
        ++ends;
      }));
  EXPECT_TRUE(pair->run_until([&] { return on_client.held.size() == 2; }));
  on_client.held.front()->fail(AcceptStatus::kSystemErr);
  expect_forward_works();
  EXPECT_EQ(ends, 0) << "that was the answer to another call";
  on_client.held.back()->succeed();
  on_client.held.clear();
  EXPECT_TRUE(pair->run_until([&] { return ends == 1; }));
}

// Where a thread can wake the client: not in virtual time.
class BackwardThreads : public Backward {};

TEST_P(BackwardThreads, TheClientsServicesMayAnswerFromOtherThreads) {
  connect_both_ways();
  int ends = 0;
  ASSERT_TRUE(
      ready.client->start(backward_call(TestService::kHold), [&](Expected<Reply, Error> reply) {
        EXPECT_TRUE(reply);
        ++ends;
      }));
  EXPECT_TRUE(pair->run_until([&] { return !on_client.held.empty(); }));
  std::thread([context = on_client.held.front()] { context->succeed(); }).join();
  on_client.held.clear();
  EXPECT_TRUE(pair->run_until([&] { return ends == 1; }));
}

// The server has a provider of its own here, which goes with it.
TEST(BackwardEnd, AClientOutlivesItsServer) {
  std::optional<Client> client;
  ReadyService ready;
  TestService on_client;
  {
    auto server = Server::listen("rdma://127.0.0.1:0", server_options());
    ASSERT_TRUE(server) << server.error().message();
    ASSERT_TRUE(server->add(ReadyService::kProgram, 1, ready));
    client.emplace(std::move(
        Client::begin_connect("rdma://" + std::string(server->address()), client_options())
            .value()));
    ASSERT_TRUE(Reverse::serve(*client, TestService::kProgram, TestService::kVersion, on_client));
    const auto run_until = [&](const auto& condition) {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!condition() && std::chrono::steady_clock::now() < limit) {
        server->progress();
        client->progress();
      }
      ASSERT_TRUE(condition());
    };
    run_until([&] { return client->connected(); });
    ASSERT_TRUE(client->start(std::move(client->prepare({ReadyService::kProgram, 1, 1}).value()),
                              [](Expected<Reply, Error> reply) { EXPECT_TRUE(reply); }));
    run_until([&] { return ready.client.has_value(); });
  }
  EXPECT_TRUE(ready.client->ended());
  EXPECT_EQ(ready.client->wait_fd(), -1);
  EXPECT_EQ(ready.client->connection().provider_name, "");
  ready.client->close();
  ready.client->progress();
  ready.client->wait();
  ready.client->drain();
}

// A backward client that waits for the next connection, and the end of its server.
class LastingBackwardClient : public ::testing::Test {
 protected:
  void begin() {
    ready.options.outlives_connection = true;
    server.emplace(std::move(Server::listen("rdma://127.0.0.1:0", server_options()).value()));
    ASSERT_TRUE(server->add(ReadyService::kProgram, 1, ready));
    client.emplace(std::move(
        Client::begin_connect("rdma://" + std::string(server->address()), client_options())
            .value()));
    ASSERT_TRUE(Reverse::serve(*client, TestService::kProgram, TestService::kVersion, on_client));
    run_until([&] { return client->connected(); });
    ASSERT_TRUE(client->start(std::move(client->prepare({ReadyService::kProgram, 1, 1}).value()),
                              [](Expected<Reply, Error> reply) { EXPECT_TRUE(reply); }));
    run_until([&] { return ready.client.has_value(); });
  }
  template <class Condition>
  void run_until(const Condition& condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < limit) {
      server->progress();
      if (client) client->progress();
    }
    ASSERT_TRUE(condition());
  }
  Call prepared() {
    return std::move(
        ready.client->prepare({TestService::kProgram, TestService::kVersion, TestService::kNull})
            .value());
  }
  std::optional<Client> client;
  ReadyService ready;
  TestService on_client;
  std::optional<Server> server;
};
TEST_F(LastingBackwardClient, MayBeClosedAfterItsServer) {
  begin();
  server.reset();
  ready.client->close();
}
TEST_F(LastingBackwardClient, StartsNothingAfterItsServer) {
  begin();
  Call call = prepared();
  server.reset();
  EXPECT_FALSE(ready.client->start(std::move(call), [](Expected<Reply, Error>) {}));
}
TEST_F(LastingBackwardClient, StartsNothingAfterTheServerThatKeptIt) {
  begin();
  Call call = prepared();
  client->close();
  run_until([&] { return server->connections() == 0; });
  server.reset();
  EXPECT_FALSE(ready.client->start(std::move(call), [](Expected<Reply, Error>) {}));
}

class RegionService final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t) const noexcept override {
    static constexpr ProcedureTraits kTraits{.number = 1, .name = "REGION"};
    return &kTraits;
  }
  void call(CallContext& context) override {
    context.results().bulk(data);
    context.succeed();
  }
  Bytes data;
};
TEST_F(LastingBackwardClient, IsAnsweredFromMemoryAsItIsNow) {
  begin();
  RegionService regions;
  ASSERT_TRUE(Reverse::serve(*client, 777, 1, regions));
  const auto ask = [&](std::byte expected) {
    bool done = false;
    ASSERT_TRUE(ready.client->start(std::move(ready.client->prepare({777, 1, 1}).value()),
                                    [&](Expected<Reply, Error> reply) {
                                      done = true;
                                      ASSERT_TRUE(reply) << reply.error().message();
                                      const Bytes got = read(*reply)->bulk(1000, "x");
                                      ASSERT_EQ(got.size(), 400U);
                                      EXPECT_EQ(got[0], expected);
                                    }));
    run_until([&] { return done; });
  };
  {
    auto one = std::make_unique<std::vector<std::byte>>(4096, std::byte{1});
    auto registered = client->register_memory(*one);
    ASSERT_TRUE(registered) << registered.error().message();
    regions.data = Bytes(*one).first(400);
    ask(std::byte{1});
    { auto gone = std::move(*registered); }
    one.reset();
  }
  std::vector<std::byte> two(4096, std::byte{2});
  auto registered = client->register_memory(two);
  ASSERT_TRUE(registered);
  regions.data = Bytes(two).first(400);
  ask(std::byte{2});
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Backward,
                         ::testing::Values(Fabric{"sim", [] { return test::make_sim(1); }},
                                           Fabric{"siwarp",
                                                  [] { return test::make_siwarp(true); }}),
                         name_of_fabric);
INSTANTIATE_TEST_SUITE_P(Fabrics, BackwardThreads,
                         ::testing::Values(Fabric{"siwarp",
                                                  [] { return test::make_siwarp(true); }}),
                         name_of_fabric);

// A context of the application's own, as one would make to try a service without a server.
class MadeUpContext final : public CallContext {
 public:
  const Procedure& procedure() const noexcept override { return procedure_; }
  const Credential& credential() const noexcept override { return credential_; }
  std::string_view peer_address() const noexcept override { return "nowhere"; }
  MessageReader& arguments() noexcept override { return arguments_; }
  MessageWriter& results() noexcept override { return results_; }
  bool reserve_results(std::uint32_t) override { return false; }
  MutableBytes result_memory(std::uint32_t) override { return {}; }
  void succeed() override {}
  void fail(AcceptStatus) override {}

 private:
  Procedure procedure_{};
  Credential credential_;
  MessageReader arguments_;
  MessageWriter results_;
};

TEST(BackwardClient, NeedsACallThatCameOverAConnection) {
  const MadeUpContext context;
  const auto made = Reverse::client_of(context);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::kUnsupported);
  EXPECT_EQ(made.error().cause, "the call did not come over a connection of this library");
  auto client = Client::begin_connect("tcp://127.0.0.1:1");  // nothing is asked of it
  ASSERT_TRUE(client) << client.error().message();
  const auto resumed = Reverse::resume(*client, context);
  ASSERT_FALSE(resumed);
  EXPECT_EQ(resumed.error().code, Errc::kUnsupported);
  EXPECT_EQ(resumed.error().cause, made.error().cause);
}

}  // namespace
}  // namespace rpcrdma::test
