// Calls and services in coroutines, over every provider.
#include "rpcrdma/coroutine.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "rpc/call/connecting_client.h"
#include "rpc/serve/server_impl.h"
#include "support/checked_reply.h"
#include "support/fabric.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

// The length of `data` as the server sees it.
Task<Expected<std::uint32_t, Error>> length(Client& client, Bytes data) {
  auto call = client.prepare({TestService::kProgram, TestService::kVersion, TestService::kLength});
  if (!call) co_return Unexpected<Error>(std::move(call.error()));
  call->arguments().bulk(data);
  auto reply = co_await client.call_async(std::move(*call));
  if (!reply) co_return Unexpected<Error>(std::move(reply.error()));
  const std::uint32_t size = read(*reply)->xdr().u32("size");
  if (auto error = reply->finish()) co_return Unexpected<Error>(std::move(*error));
  co_return size;
}

// A call that the server holds; gives the code of its error, or nullopt for an answer.
Task<std::optional<Errc>> hold(Client& client, std::chrono::nanoseconds timeout) {
  auto call = client.prepare({TestService::kProgram, TestService::kVersion, TestService::kHold});
  if (!call) co_return call.error().code;
  call->time_out_after(timeout);
  auto reply = co_await client.call_async(std::move(*call));
  if (!reply) co_return reply.error().code;
  co_return std::nullopt;
}

constexpr std::chrono::seconds kLong{60};

// --- Tasks alone -------------------------------------------------------------------------------

Task<int> add(int a, int b) {
  co_return a + b;
}
Task<int> fail_with(std::string text) {
  throw std::runtime_error(text);
  co_return 0;
}

TEST(Task, DoesNothingUntilItIsStarted) {
  bool ran = false;
  auto body = [](bool& flag) -> Task<void> {
    flag = true;
    co_return;
  };
  Task<void> task = body(ran);
  EXPECT_FALSE(ran);
  EXPECT_FALSE(task.done());
  task.start();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(task.done());
}

TEST(Task, GivesItsResultToTheAwaiter) {
  auto body = []() -> Task<int> { co_return co_await add(1, 2) + co_await add(3, 4); };
  Task<int> task = body();
  task.start();
  ASSERT_TRUE(task.done());
  EXPECT_EQ(std::move(task).result(), 10);
}

TEST(Task, CarriesAnExceptionToTheAwaiter) {
  auto body = []() -> Task<std::string> {
    try {
      co_await fail_with("no such thing");
    } catch (const std::runtime_error& error) {
      co_return error.what();
    }
    co_return "nothing was thrown";
  };
  Task<std::string> task = body();
  task.start();
  EXPECT_EQ(std::move(task).result(), "no such thing");
  Task<int> failing = fail_with("again");
  failing.start();
  EXPECT_THROW(std::move(failing).result(), std::runtime_error);
}

// Tasks that end at once take no stack, whether the compiler makes tail calls or not.
TEST(Task, AwaitsManyOthersInALoop) {
  auto body = []() -> Task<int> {
    int sum = 0;
    for (int i = 0; i < 100'000; ++i) sum += co_await add(i % 2, 0);
    co_return sum;
  };
  Task<int> task = body();
  task.start();
  EXPECT_EQ(std::move(task).result(), 50'000);
}

TEST(TaskDeathTest, EndsTheProgramWhenADetachedOneThrows) {
  auto body = []() -> Task<void> { co_await fail_with("unseen"); };
  EXPECT_DEATH(start_detached(body()), "");
}

TEST(TaskDeathTest, SaysThatItIsStartedTwice) {
  EXPECT_DEATH(
      {
        Task<int> task = add(1, 2);
        task.start();
        task.start();
      },
      "a Task is started twice");
}

// --- Calls -------------------------------------------------------------------------------------

class Coroutine : public ::testing::TestWithParam<Fabric> {
 protected:
  RpcPair make(ClientOptions client = {}) { return RpcPair(GetParam().make(), client, {}); }
};

TEST_P(Coroutine, AwaitsACallAndSeesItsResults) {
  RpcPair pair = make();
  const auto data = pattern(70'001, 1);
  auto task = length(*pair.client, data);
  task.start();
  EXPECT_FALSE(task.done());
  ASSERT_TRUE(pair.run_until([&] { return task.done(); }));
  EXPECT_EQ(std::move(task).result().value(), 70'001U);
}

TEST_P(Coroutine, RunsManyAtOnceWithManyCallsEach) {
  RpcPair pair = make();
  std::uint64_t calls = 0;
  std::uint32_t ended = 0;
  auto body = [](Client& client, std::uint32_t number, std::uint64_t& sum,
                 std::uint32_t& count) -> Task<void> {
    for (std::uint32_t i = 0; i < 20; ++i) {
      const auto data = pattern(1 + number * 61 + i * 97, number);
      const auto size = co_await length(client, data);
      EXPECT_EQ(size.value(), data.size());
      ++sum;
    }
    ++count;
  };
  for (std::uint32_t i = 0; i < 100; ++i) start_detached(body(*pair.client, i, calls, ended));
  ASSERT_TRUE(pair.run_until([&] { return ended == 100; }));
  EXPECT_EQ(calls, 2000U);
  EXPECT_EQ(pair.client->calls_in_flight(), 0U);
}

TEST_P(Coroutine, StartsSeveralTasksAndAwaitsEach) {
  RpcPair pair = make();
  auto body = [](Client& client) -> Task<std::uint32_t> {
    const auto data = pattern(5000, 9);
    auto first = length(client, Bytes(data).first(1000));
    auto second = length(client, data);
    first.start();
    second.start();
    EXPECT_EQ(client.calls_in_flight(), 2U);
    const auto b = co_await std::move(second);
    const auto a = co_await std::move(first);
    co_return a.value() + b.value();
  };
  auto task = body(*pair.client);
  task.start();
  ASSERT_TRUE(pair.run_until([&] { return task.done(); }));
  EXPECT_EQ(std::move(task).result(), 6000U);
}

TEST_P(Coroutine, GetsTheErrorAtOnceWhenACallCannotBeStarted) {
  RpcPair pair = make();
  auto body = [](Client& client) -> Task<Errc> {
    auto call =
        client.prepare({TestService::kProgram, TestService::kVersion, TestService::kLength});
    call->place_result({});
    auto reply = co_await client.call_async(std::move(*call));
    co_return reply.error().code;
  };
  auto task = body(*pair.client);
  task.start();
  ASSERT_TRUE(task.done()) << "nothing was to be waited for";
  EXPECT_EQ(std::move(task).result(), Errc::kTooLarge);
}

TEST_P(Coroutine, EndsWithTimedOutWhenNoReplyComes) {
  RpcPair pair = make();
  auto task = hold(*pair.client, std::chrono::milliseconds(20));
  task.start();
  ASSERT_TRUE(pair.run_until([&] { return task.done(); }));
  EXPECT_EQ(std::move(task).result(), Errc::kTimedOut);
}

TEST_P(Coroutine, EndsWithCanceledWhenTheClientIsClosed) {
  RpcPair pair = make();
  auto task = hold(*pair.client, kLong);
  task.start();
  ASSERT_TRUE(pair.run_until([&] { return pair.service.held.size() == 1; }));
  pair.client->close();
  ASSERT_TRUE(pair.run_until([&] { return task.done(); }));
  EXPECT_EQ(std::move(task).result(), Errc::kCanceled);
}

TEST_P(Coroutine, EndsWithCanceledWhenTheClientIsDestroyed) {
  RpcPair pair = make();
  Client another = RpcPair::connect_another(pair);
  auto task = hold(another, kLong);
  task.start();
  { const Client gone = std::move(another); }
  ASSERT_TRUE(task.done());
  EXPECT_EQ(std::move(task).result(), Errc::kCanceled);
}

TEST_P(Coroutine, SaysThatACallIsUnderWayWhenItIsDestroyed) {
  EXPECT_DEATH(
      {
        RpcPair pair = make();
        auto task = hold(*pair.client, kLong);
        task.start();
        { const auto gone = std::move(task); }
      },
      "a coroutine is destroyed while a call that it awaits is under way");
}

TEST_P(Coroutine, SaysThatItDestroysTheClientThatResumedIt) {
  auto body = [](std::optional<Client>& client) -> Task<void> {
    co_await length(*client, pattern(100, 1));
    client.reset();
  };
  EXPECT_DEATH(
      {
        RpcPair pair = make();
        start_detached(body(pair.client));
        pair.run_until([&] { return !pair.client.has_value(); });
      },
      "a client is destroyed inside of one of its callbacks");
}

// --- Services ----------------------------------------------------------------------------------

// Forwards its calls to another server by the client that it is given.
class Proxy final : public CoroutineService {
 public:
  enum Procedure : std::uint32_t { kEcho = 1, kText = 2, kThrow = 3, kRefuse = 4, kHold = 5 };
  static constexpr std::uint32_t kProgram = 0x20010002;

  explicit Proxy(Client& client) : client_(client) {}
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr ProcedureTraits kEchoes{.bulk_argument_size_max = TestService::kBulkMax};
    static constexpr ProcedureTraits kOthers{};
    if (procedure > kHold) return nullptr;
    return procedure == kEcho ? &kEchoes : &kOthers;
  }
  Task<AcceptStatus> serve(CallContext& context) override {
    switch (context.procedure().number) {
      case kEcho:
        return echo(context);
      case kText:
        return text(context);
      case kHold:
        return hold_and_answer(context);
      case kThrow:
        return fails(true);
      default:
        return fails(false);
    }
  }

 private:
  // The bulk argument goes to the other server from where it was placed, and what comes back is
  // placed in memory of this reply, which is taken after the first co_await.
  Task<AcceptStatus> echo(CallContext& context) {
    const Bytes data = context.arguments().bulk(TestService::kBulkMax, "data");
    if (!context.arguments().finish()) co_return AcceptStatus::kGarbageArgs;
    const auto size = co_await length(client_, data);
    if (!size) co_return AcceptStatus::kSystemErr;
    const MutableBytes memory = context.result_memory(*size);
    if (memory.size() != *size) co_return AcceptStatus::kSystemErr;
    auto call = client_.prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
    if (!call) co_return AcceptStatus::kSystemErr;
    call->arguments().bulk(data);
    call->place_result(memory);
    auto reply = co_await client_.call_async(std::move(*call));
    if (!reply) co_return AcceptStatus::kSystemErr;
    const Bytes back = read(*reply)->bulk(TestService::kBulkMax, "data");
    if (reply->finish()) co_return AcceptStatus::kSystemErr;
    if (back.data() != memory.data()) std::ranges::copy(back, memory.begin());
    context.results().bulk(memory.first(back.size()));
    co_return AcceptStatus::kSuccess;
  }
  // Results longer than the room that a call begins with.
  Task<AcceptStatus> text(CallContext& context) {
    const std::uint32_t size = context.arguments().xdr().u32("size");
    const auto seen = co_await length(client_, pattern(10, 1));
    if (!seen || !context.reserve_results(size + 4)) co_return AcceptStatus::kSystemErr;
    context.results().xdr().opaque(pattern(size, size));
    co_return AcceptStatus::kSuccess;
  }
  // Takes memory and answers, whatever became of the call that it awaits.
  Task<AcceptStatus> hold_and_answer(CallContext& context) {
    const auto error = co_await hold(client_, kLong);
    const MutableBytes memory = context.result_memory(5000);
    std::ranges::fill(memory, std::byte{7});
    context.results().bulk(memory);
    co_return error || memory.empty() ? AcceptStatus::kSystemErr : AcceptStatus::kSuccess;
  }
  Task<AcceptStatus> fails(bool by_exception) {
    const auto seen = co_await length(client_, pattern(10, 1));
    if (by_exception) throw std::runtime_error("the service is ill");
    co_return seen ? AcceptStatus::kGarbageArgs : AcceptStatus::kSystemErr;
  }

  Client& client_;
};

// front -> proxy (client and server on one thread) -> the pair's server.
struct Chain {
  explicit Chain(std::unique_ptr<test::Network> made, ServerOptions options = {})
      : pair(std::move(made)) {
    test::Network& network = *pair.network;
    back = ConnectingClient::connect_on(network.add_provider("proxy-client"),
                                        pair.server->address(), {})
               .value();
    proxy.emplace(*back);
    const bool is_sim = network.listen_address() == "server:0";
    server = ServerImpl::listen_on(network.add_provider("proxy"),
                                   is_sim ? "proxy:0" : network.listen_address(), options)
                 .value();
    EXPECT_TRUE(server->add(Proxy::kProgram, 1, *proxy));
    front =
        ConnectingClient::connect_on(network.add_provider("front"), server->address(), {}).value();
    run_until([this] { return back->connected() && front->connected(); });
  }
  ~Chain() {
    front.reset();
    back.reset();  // what the proxy still awaits ends
    server.reset();
  }
  bool run_until(const std::function<bool()>& condition) {
    return pair.run_until([&] {
      if (server) server->progress();
      if (back) back->progress();
      if (front) front->progress();
      return condition();
    });
  }
  Expected<Call, Error> prepare(std::uint32_t procedure) {
    return front->prepare({Proxy::kProgram, 1, procedure});
  }
  // The code of the error that the call ends with, if any.
  std::optional<Errc> call(std::uint32_t procedure) {
    auto call = prepare(procedure);
    std::optional<std::optional<Errc>> end;
    EXPECT_TRUE(front->start(std::move(*call), [&](Expected<Reply, Error> reply) {
      end.emplace(reply ? std::nullopt : std::optional(reply.error().code));
    }));
    EXPECT_TRUE(run_until([&] { return end.has_value(); }));
    return *end;
  }
  // Starts a call that the last server holds, and waits until it is there.
  void hold_one() {
    auto call = prepare(Proxy::kHold);
    call->place_result(place);
    ASSERT_TRUE(front->start(std::move(*call), [this](Expected<Reply, Error> reply) {
      ended = true;
      if (reply) answer = read(*reply)->bulk(5000, "data").size();
    }));
    ASSERT_TRUE(run_until([this] { return pair.service.held.size() == 1; }));
    EXPECT_EQ(proxy->calls_in_service(), 1U);
  }
  void let_go() {
    for (CallContext* context : pair.service.held) context->succeed();
    pair.service.held.clear();
  }

  RpcPair pair;
  std::optional<Client> back;
  std::optional<Proxy> proxy;
  std::optional<Server> server;
  std::optional<Client> front;
  std::vector<std::byte> place = std::vector<std::byte>(5000);
  bool ended = false;
  std::size_t answer = 0;
};

TEST_P(Coroutine, ServesByAwaitingAnotherServer) {
  Chain chain(GetParam().make());
  const auto data = pattern(300'001, 5);
  std::vector<std::byte> place(data.size());
  for (int i = 0; i < 3; ++i) {
    std::ranges::fill(place, std::byte{0});
    auto call = chain.prepare(Proxy::kEcho);
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    call->place_result(place);
    bool ended = false;
    ASSERT_TRUE(chain.front->start(std::move(*call), [&](Expected<Reply, Error> reply) {
      ended = true;
      ASSERT_TRUE(reply) << reply.error().message();
      EXPECT_EQ(read(*reply)->bulk(TestService::kBulkMax, "data").data(), place.data());
    }));
    ASSERT_TRUE(chain.run_until([&] { return ended; }));
    EXPECT_EQ(place, data);
  }
  ASSERT_TRUE(chain.run_until([&] { return chain.server->memory_in_use() == 0; }));
  EXPECT_EQ(chain.proxy->calls_in_service(), 0U);
}

TEST_P(Coroutine, ReservesRoomForLongResultsAfterAwaiting) {
  Chain chain(GetParam().make());
  for (const std::uint32_t size : {100U, 60'000U}) {
    auto call = chain.prepare(Proxy::kText);
    call->arguments().xdr().u32(size);
    call->expect_results(size + 8);
    bool ended = false;
    ASSERT_TRUE(chain.front->start(std::move(*call), [&](Expected<Reply, Error> reply) {
      ended = true;
      ASSERT_TRUE(reply) << reply.error().message();
      EXPECT_TRUE(
          std::ranges::equal(read(*reply)->xdr().opaque(size, "text"), pattern(size, size)));
    }));
    ASSERT_TRUE(chain.run_until([&] { return ended; }));
  }
}

TEST_P(Coroutine, AnswersWithTheStatusThatServeReturns) {
  Chain chain(GetParam().make());
  EXPECT_EQ(chain.call(Proxy::kRefuse), Errc::kBadArguments);
}

TEST_P(Coroutine, AnswersSystemErrWhenAnExceptionLeavesServe) {
  Chain chain(GetParam().make());
  EXPECT_EQ(chain.call(Proxy::kThrow), Errc::kServerFault);
  EXPECT_EQ(chain.call(Proxy::kRefuse), Errc::kBadArguments) << "it goes on serving";
}

TEST_P(Coroutine, SurvivesTheEndOfTheConnectionThatItServes) {
  Chain chain(GetParam().make());
  chain.hold_one();
  chain.front->close();
  ASSERT_TRUE(chain.run_until([&] { return chain.ended; }));
  EXPECT_EQ(chain.proxy->calls_in_service(), 1U);
  chain.let_go();
  ASSERT_TRUE(chain.run_until([&] { return chain.server->connections() == 0; }));
  EXPECT_EQ(chain.proxy->calls_in_service(), 0U);
  EXPECT_EQ(chain.server->memory_in_use(), 0U);
}

TEST_P(Coroutine, AnswersWhileTheServerDrains) {
  Chain chain(GetParam().make());
  chain.hold_one();
  chain.server->stop();
  ASSERT_TRUE(chain.run_until([&] { return !chain.server->drained(); }));
  chain.let_go();
  ASSERT_TRUE(chain.run_until([&] { return chain.server->drained() && chain.ended; }));
  EXPECT_EQ(chain.answer, 5000U);
}

TEST_P(Coroutine, IsLeftBehindByADrainAndEndsWithItsClient) {
  ServerOptions options;
  options.drain_timeout = std::chrono::milliseconds(20);
  Chain chain(GetParam().make(), options);
  chain.hold_one();
  chain.server->stop();
  ASSERT_TRUE(chain.run_until([&] { return chain.server->drained() && chain.ended; }));
  EXPECT_EQ(chain.proxy->calls_in_service(), 1U);
  chain.back.reset();
  EXPECT_EQ(chain.proxy->calls_in_service(), 0U);
  chain.server->progress();
  EXPECT_EQ(chain.server->connections(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Providers, Coroutine,
                         ::testing::Values(Fabric{"sim", [] { return test::make_sim(1, {}); }},
                                           Fabric{"siwarp",
                                                  [] { return test::make_siwarp(true); }}),
                         name_of_fabric);

}  // namespace
}  // namespace rpcrdma::test
