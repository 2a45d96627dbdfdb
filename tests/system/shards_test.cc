// A server of several threads (ServerOptions::shards): connections are dealt in turn, every service
// runs on all of them, and what they share is right. Runs under ThreadSanitizer, too (make
// check-tsan).
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rdma/siwarp/provider.h"
#include "rpc/serve/server_state.h"
#include "rpc/serve/shard_inbox.h"
#include "rpcrdma/backward.h"
#include "rpcrdma/client.h"
#include "rpcrdma/coroutine.h"
#include "rpcrdma/server.h"
#include "rpcrdma/statistics.h"
#include "rpcrdma/take_over.h"
#include "support/checked_reply.h"
#include "support/forwarding_provider.h"
#include "support/raw_peer.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::test {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

enum ShardProcedure : std::uint32_t {
  kWhere = 1,     // () -> u32: a number of the thread
  kRead = 2,      // u32 size -> bulk
  kOnce = 3,      // () -> u32: how often it was executed; not idempotent, and held until release()
  kAskCalls = 4,  // () -> u32: of the server's counters
  kStop = 5,      // () -> (): stops the server
  kStepUp = 6,    // () -> (): and the connection steps up
  kCallBack = 7,  // () -> (): the server may call the client, over later connections as well
  kSignals = 8,   // () -> u32: 1 where SIGTERM is blocked, and 2 where SIGBUS is
};
constexpr std::uint32_t kSizeMax = 1U << 20U;

class ShardService final : public rpcrdma::Service {
 public:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr ProcedureTraits kOthers{.number = 0};
    static constexpr ProcedureTraits kIsOnce{.number = kOnce, .is_idempotent = false};
    return procedure == kOnce ? &kIsOnce : procedure <= kSignals ? &kOthers : nullptr;
  }
  void call(CallContext& context) override {
    xdr::Writer& results = context.results().xdr();
    switch (context.procedure().number) {
      case kWhere:
        results.u32(thread_number());
        break;
      case kRead:
        context.results().bulk(Bytes(data_).first(context.arguments().xdr().u32("size")));
        break;
      case kOnce:
        results.u32(static_cast<std::uint32_t>(++executed));
        held = &context;
        return;
      case kAskCalls:
        results.u32(static_cast<std::uint32_t>(server->counters().calls));
        break;
      case kStop:
        server->stop();
        break;
      case kStepUp:
        if (context.step_up() != StepUp::kNow) return context.fail(AcceptStatus::kSystemErr);
        break;
      case kCallBack: {
        auto made = Backward::client_of(context, {.outlives_connection = true});
        if (!made) return context.fail(AcceptStatus::kSystemErr);
        to_client.emplace(std::move(*made));
        break;
      }
      case kSignals: {
        sigset_t blocked{};
        pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
        results.u32((sigismember(&blocked, SIGTERM) == 1 ? 1U : 0U) +
                    (sigismember(&blocked, SIGBUS) == 1 ? 2U : 0U));
        break;
      }
      default:
        break;
    }
    context.succeed();
  }
  std::size_t threads() {
    const std::lock_guard lock(mutex_);
    return threads_.size();
  }

  Server* server = nullptr;
  std::optional<Client> to_client;  // of the shard that has made it
  std::atomic<int> executed = 0;
  std::atomic<CallContext*> held = nullptr;

 private:
  std::uint32_t thread_number() {
    const std::lock_guard lock(mutex_);
    const auto number = static_cast<std::uint32_t>(threads_.size());
    return threads_.try_emplace(std::this_thread::get_id(), number).first->second;
  }

  const std::vector<std::byte> data_ = std::vector<std::byte>(kSizeMax, std::byte{0x5a});
  std::mutex mutex_;
  std::map<std::thread::id, std::uint32_t> threads_;
};

// The server is driven by a thread of its own, and the clients by that of the test.
class Shards : public ::testing::Test {
 protected:
  void start(std::uint32_t shards, ServerOptions options = {}) {
    options.shards = shards;
    options.provider.name = "siwarp";
    auto made = Server::listen("rdma://127.0.0.1:0", options);
    ASSERT_TRUE(made) << made.error().message();
    server_.emplace(std::move(*made));
    service_.server = &*server_;
    ASSERT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
    rdma_ = "rdma://" + std::string(server_->address());
    const auto tcp = server_->add_listener("tcp://127.0.0.1:0");
    ASSERT_TRUE(tcp) << tcp.error().message();
    tcp_ = *tcp;
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Shards() override { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
  }
  Client connect(const std::string& url) {
    ClientOptions options;
    options.provider.name = "siwarp";
    if (url.starts_with("rdma://")) options.backward_calls = 1;
    auto client = Client::connect(url, options);
    EXPECT_TRUE(client) << client.error().message();
    return std::move(*client);
  }
  static std::uint32_t number(Client& client, std::uint32_t procedure) {
    auto reply = client.call(
        client.prepare({TestService::kProgram, TestService::kVersion, procedure}).value());
    EXPECT_TRUE(reply) << reply.error().message();
    return reply ? read(*reply)->xdr().u32("number") : ~0U;
  }
  static void expect_data(Client& client, std::uint32_t size) {
    std::vector<std::byte> place(size);
    auto call = client.prepare({TestService::kProgram, TestService::kVersion, kRead}).value();
    call.arguments().xdr().u32(size);
    call.place_result(place);
    auto reply = client.call(std::move(call));
    ASSERT_TRUE(reply) << reply.error().message();
    const Bytes data = read(*reply)->bulk(size, "data");  // `place` where it could be placed
    ASSERT_THAT(data, SizeIs(size));
    EXPECT_EQ(data.back(), std::byte{0x5a});
  }
  std::unique_ptr<RawPeer> raw() {
    return RawPeer::connect(tcp_, [] { std::this_thread::yield(); });
  }

  std::mutex mutex_;
  std::vector<std::string> refused_;  // guarded by mutex_
  ShardService service_;
  std::optional<Server> server_;
  std::string rdma_, tcp_;
  std::thread thread_;
};

TEST_F(Shards, AreDealtTheConnectionsInTurn) {
  start(4);
  std::vector<Client> clients;
  std::map<std::uint32_t, int> of_shard;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(connect(rdma_));
    ++of_shard[number(clients.back(), kWhere)];
  }
  EXPECT_THAT(of_shard, SizeIs(4));
  for (const auto& [shard, count] : of_shard) EXPECT_EQ(count, 2) << shard;
  EXPECT_EQ(server_->connections(), 8U);
  for (Client& client : clients) expect_data(client, kSizeMax);
}

TEST_F(Shards, AreDealtTcpConnectionsAsWell) {
  start(3);
  std::vector<Client> clients;
  std::set<std::uint32_t> shards;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(connect("tcp://" + tcp_));
    shards.insert(number(clients.back(), kWhere));
    expect_data(clients.back(), 100'000);
  }
  EXPECT_THAT(shards, SizeIs(3));
}

TEST_F(Shards, AreOneServerToItsCounters) {
  start(3);
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(connect(rdma_));
  for (Client& client : clients) (void)number(client, kWhere);
  // Each asks on a shard of its own, for all.
  std::uint32_t before = 3;
  for (Client& client : clients) EXPECT_EQ(number(client, kAskCalls), before++);
  clients.clear();
  stop();
  EXPECT_EQ(server_->counters().calls, 6U);
}

TEST_F(Shards, GiveTheirStatisticsToAnyThread) {
  std::atomic<int> reports = 0;
  ServerOptions options;
  options.measures_calls = true;
  options.on_call = [&reports](const CallReport& call) {
    EXPECT_EQ(call.procedure.program, TestService::kProgram);
    EXPECT_GT(call.arguments_size, 0U);
    EXPECT_GE(call.time, call.service_time);
    ++reports;
  };
  start(3, options);
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(connect(rdma_));
  clients.push_back(connect("tcp://" + tcp_));
  for (Client& client : clients) expect_data(client, 100'000);
  const ServerStatistics found = server_->statistics(true);  // the server has a thread of its own
  ASSERT_THAT(found.procedures, SizeIs(1));
  EXPECT_EQ(found.procedures[0].number, kRead);
  EXPECT_EQ(found.procedures[0].calls, 4U);
  EXPECT_EQ(found.procedures[0].times.count(), 4U);
  EXPECT_EQ(found.service_times.count(), 4U);
  EXPECT_EQ(reports, 4);
  EXPECT_EQ(found.rdma_connections, 3U);
  EXPECT_EQ(found.tcp_connections, 1U);
  EXPECT_EQ(found.connections_opened, 4U);
  EXPECT_GT(found.memory_registered, 0U);
  EXPECT_EQ(found.counters.write_chunks, 3U);
  ASSERT_THAT(found.connections, SizeIs(4));
  for (const ConnectionStatistics& each : found.connections) {
    EXPECT_EQ(each.times.count(), 1U) << each.peer;
    EXPECT_GT(each.credits, 0U) << each.peer;
  }
  EXPECT_THAT(server_->statistics().connections, SizeIs(0)) << "nobody has asked for them";
}

TEST_F(Shards, CountNoProceduresWhereCallsAreNotMeasured) {
  start(2);
  Client client = connect(rdma_);
  (void)number(client, kWhere);
  const ServerStatistics found = server_->statistics(true);
  EXPECT_THAT(found.procedures, SizeIs(0));
  ASSERT_THAT(found.connections, SizeIs(1));
  EXPECT_EQ(found.connections[0].times.count(), 0U);
  EXPECT_EQ(found.counters.messages_received, 1U);
}

// All of them ask all others at the same time, again and again.
TEST_F(Shards, DoNotWaitForEachOthersFigures) {
  start(3);
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(connect(rdma_));
  std::vector<std::thread> threads;
  for (Client& client : clients) {
    threads.emplace_back([&client] {
      for (int i = 0; i < 20; ++i) EXPECT_LE(number(client, kAskCalls), 60U);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Two connections, on two shards, with the same Call: the second one waits for the first, learns of
// its end, and has the same results.
TEST_F(Shards, ExecuteACallOnceThatIsMadeAgainElsewhere) {
  start(2);
  const auto peer = raw(), again = raw();
  const Message call = test::record(test::raw_call(77, kOnce));
  const Message ask = test::record(test::raw_call(78, kWhere));
  ASSERT_TRUE(peer->send(call));
  while (service_.held == nullptr) std::this_thread::yield();
  ASSERT_TRUE(again->send(join({call, ask})));
  EXPECT_EQ(test::to_words(again->receive(32)).at(1), 78U) << "what is behind it goes on";
  service_.held.load()->succeed();
  const Message reply = test::record(join({test::raw_reply(77), words({1})}));
  EXPECT_EQ(peer->receive(reply.size()), reply);
  EXPECT_EQ(again->receive(reply.size()), reply);
  EXPECT_EQ(service_.executed, 1);
  stop();
  EXPECT_EQ(server_->counters().cached_replies, 1U);
}

TEST_F(Shards, TogetherHaveNoMoreConnectionsThanTheyMay) {
  ServerOptions options;
  options.connections_max = 3;
  options.on_connection = [this](const ConnectionEvent& event) {
    const std::lock_guard lock(mutex_);
    if (event.kind == ConnectionEvent::Kind::kRefused) refused_.push_back(event.error->message());
  };
  start(2, options);
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(connect(rdma_));
    (void)number(clients.back(), kWhere);
  }
  EXPECT_FALSE(Client::connect(rdma_));
  {
    const std::lock_guard lock(mutex_);
    ASSERT_THAT(refused_, SizeIs(1));
    EXPECT_THAT(refused_[0], HasSubstr("there are 3 connections"));
  }
  clients.pop_back();
  while (server_->connections() == 3) std::this_thread::yield();
  clients.push_back(connect(rdma_));
  (void)number(clients.back(), kWhere);
}

// Wherever it is asked for, all connections are closed behind their calls, and run() returns.
TEST_F(Shards, AllStopWhenOneOfThemIsStopped) {
  start(3);
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(connect(rdma_));
    (void)number(clients.back(), kWhere);
  }
  auto stopped = clients[1].call(
      clients[1].prepare({TestService::kProgram, TestService::kVersion, kStop}).value());
  EXPECT_TRUE(stopped) << "the call itself is answered";
  thread_.join();
  EXPECT_TRUE(server_->drained());
  EXPECT_EQ(service_.threads(), 3U);
}

// One that has drained goes on while another still has calls: what its peers do is noticed, and
// their connections come back.
TEST_F(Shards, ServeUntilTheLastOneHasDrained) {
  start(2);
  const auto busy = raw(), idle = raw();
  ASSERT_TRUE(busy->send(test::record(test::raw_call(1, kOnce))));
  ASSERT_TRUE(idle->send(test::record(test::raw_call(2, kWhere))));
  while (service_.held == nullptr) std::this_thread::yield();
  const Message reply = test::record(join({test::raw_reply(2), words({0})}));
  EXPECT_EQ(idle->receive(reply.size()).size(), reply.size());
  server_->stop();
  EXPECT_TRUE(idle->receive_to_end()) << "its shard has drained";
  idle->reset();
  EXPECT_TRUE(idle->pump_until([this] { return server_->connections() == 1; }));
  service_.held.load()->succeed();
  EXPECT_TRUE(busy->receive_to_end());
}

TEST_F(Shards, GoWithTheServerWithoutAStop) {
  ServerOptions options;
  options.shards = 3;
  options.provider.name = "siwarp";
  auto server = Server::listen("rdma://127.0.0.1:0", options);
  ASSERT_TRUE(server);
  server->progress();  // they run from here on
  auto client = Client::begin_connect("rdma://" + std::string(server->address()), {});
  ASSERT_TRUE(client);
  for (int i = 0; i < 100; ++i) server->progress();
}

TEST_F(Shards, ServeWhatWasAddedBeforeTheyRun) {
  start(2);
  Client client = connect(rdma_);
  (void)number(client, kWhere);
  ShardService other;
  const auto added = server_->add(TestService::kProgram + 1, TestService::kVersion, other);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::kUnsupported);
  EXPECT_THAT(added.error().message(), HasSubstr("before run()"));
  EXPECT_FALSE(server_->add_listener("tcp://127.0.0.1:0"));
}

// A TCP connection of the second shard steps up, which is the first one's to accept.
TEST_F(Shards, TakeOverConnectionsThatStepUp) {
  start(2);
  std::vector<Client> clients;
  std::set<std::uint32_t> shards;
  for (int i = 0; i < 4; ++i) {
    Client client = connect("tcp://" + tcp_);
    auto agreed = client.call(
        client.prepare({TestService::kProgram, TestService::kVersion, kStepUp}).value());
    ASSERT_TRUE(agreed) << agreed.error().message();
    ASSERT_TRUE(agreed->finish() == std::nullopt);
    auto stepped = TakeOver::step_up(client);
    ASSERT_TRUE(stepped) << stepped.error().message();
    expect_data(*stepped, kSizeMax);
    shards.insert(number(*stepped, kWhere));
    clients.push_back(std::move(*stepped));
  }
  EXPECT_EQ(server_->connections(), 4U);
  EXPECT_THAT(shards, SizeIs(2)) << "those that step up one after the other are dealt as well";
}

// Calls to a client wait on the shard that had its connection: there the next one goes.
TEST_F(Shards, HaveTheConnectionsOfAClientThatIsCalledBack) {
  ServerOptions options;
  options.backward_calls = 1;
  start(3, options);
  Client first = connect(rdma_);
  Client second = connect(rdma_);
  const std::uint32_t home = number(second, kWhere);
  auto called = second.call(
      second.prepare({TestService::kProgram, TestService::kVersion, kCallBack}).value());
  ASSERT_TRUE(called) << called.error().message();
  for (int i = 0; i < 4; ++i) {
    Client again = connect(rdma_);
    EXPECT_EQ(number(again, kWhere), home);
  }
  stop();
  service_.to_client.reset();
}

TEST_F(Shards, LeaveSignalsToTheApplicationButTheirOwnFaults) {
  start(2);
  std::vector<Client> clients;
  std::multiset<std::uint32_t> found;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(connect(rdma_));
    found.insert(number(clients.back(), kSignals));
  }
  EXPECT_THAT(found, UnorderedElementsAre(0U, 1U)) << "the application's thread, and another";
}

// Each shard has what one call takes, however many there are.
TEST(ShardsOfAServer, HaveMemoryForTheLargestCall) {
  ServerOptions options;
  options.shards = 64;
  options.bulk_size_max = 16U << 20U;
  options.tcp.connections_max = 64;
  const rpc::ServerState state(options);
  EXPECT_GE(transport::BufferPool::large_bytes_max(state.options.memory_max), 16U << 20U);
  EXPECT_GE(state.options.tcp.connections_max, 8U);
  EXPECT_LE(state.options.memory_max, options.memory_max);
}

// A server that is driven by the thread of another one is not waited for.
TEST(ShardsOfAServer, TellTheirFiguresToServicesOfOtherServers) {
  ServerOptions options;
  options.provider.name = "siwarp";
  ShardService asks, asked;
  auto of_asks = Server::listen("rdma://127.0.0.1:0", options);
  auto of_asked = Server::listen("rdma://127.0.0.1:0", options);
  ASSERT_TRUE(of_asks && of_asked);
  asks.server = &*of_asked;
  ASSERT_TRUE(of_asks->add(TestService::kProgram, TestService::kVersion, asks));
  ASSERT_TRUE(of_asked->add(TestService::kProgram, TestService::kVersion, asked));
  const auto call = [&](const Server& server, std::uint32_t procedure) {
    auto client = Client::begin_connect("rdma://" + std::string(server.address()), {}).value();
    while (!client.connected()) {
      client.progress();
      of_asks->progress();
      of_asked->progress();
    }
    std::optional<std::uint32_t> result;
    EXPECT_TRUE(client.start(
        client.prepare({TestService::kProgram, TestService::kVersion, procedure}).value(),
        [&](Expected<Reply, Error> reply) {
          result = reply ? read(*reply)->xdr().u32("number") : ~0U;
        }));
    while (!result) {
      client.progress();
      of_asks->progress();
      of_asked->progress();
    }
    return *result;
  };
  (void)call(*of_asked, kWhere);
  EXPECT_EQ(call(*of_asks, kAskCalls), 1U);
}

// Answers each call by a coroutine that ends at once.
class PromptService final : public CoroutineService {
 public:
  const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
    static constexpr ProcedureTraits kAny{};
    return &kAny;
  }
  Task<AcceptStatus> serve(CallContext& /*context*/) override { co_return AcceptStatus::kSuccess; }
};

TEST(ShardsOfAServer, CountTheCallsOfACoroutineServiceTogether) {
  constexpr std::uint32_t kShards = 4, kCalls = 500;
  ServerOptions options;
  options.shards = kShards;
  auto server = Server::listen("tcp://127.0.0.1:0", options);
  ASSERT_TRUE(server) << server.error().message();
  PromptService service;
  ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
  std::vector<std::unique_ptr<RawPeer>> peers;
  std::thread thread([&] { server->run(); });
  for (std::uint32_t i = 0; i < kShards; ++i) {
    peers.push_back(RawPeer::connect(server->address(), [] { std::this_thread::yield(); }));
  }
  Message calls;
  for (std::uint32_t i = 0; i < kCalls; ++i) calls = join({calls, record(raw_call(i + 1, kWhere))});
  for (int round = 0; round < 20; ++round) {
    for (const auto& peer : peers) EXPECT_TRUE(peer->send(calls));
    const std::size_t size = kCalls * record(raw_reply(1)).size();
    for (const auto& peer : peers) EXPECT_EQ(peer->receive(size).size(), size);
  }
  server->stop();
  thread.join();
  EXPECT_EQ(service.calls_in_service(), 0U);
}

// A shard that has ended takes nothing any more.
TEST(ShardInbox, GivesBackWhatComesBehindItsEnd) {
  rpc::ServerLoop loop(nullptr);
  ASSERT_TRUE(loop.reactor());
  rpc::ShardInbox inbox(loop);
  tcp::Accepted first{posix::Fd(::dup(0)), "first"}, second{posix::Fd(::dup(0)), "second"};
  EXPECT_TRUE(inbox.put(first));
  EXPECT_FALSE(first.socket);
  EXPECT_THAT(inbox.close().sockets, SizeIs(1));
  EXPECT_FALSE(inbox.put(second));
  EXPECT_TRUE(second.socket);
  EXPECT_TRUE(inbox.take().empty());
}

// --- A provider whose device goes --------------------------------------------------------------

class FailingListener final : public rdma::Listener {
 public:
  FailingListener(std::unique_ptr<rdma::Listener> inner, const std::atomic<bool>& fails)
      : inner_(std::move(inner)), fails_(fails) {}
  std::unique_ptr<rdma::Incoming> poll_incoming() override { return inner_->poll_incoming(); }
  std::string_view address() const noexcept override { return inner_->address(); }
  std::optional<rdma::Error> failure() const noexcept override {
    if (!fails_) return std::nullopt;
    return rdma::Error{rdma::Errc::kProvider, ENODEV, "the test's removal"};
  }

 private:
  const std::unique_ptr<rdma::Listener> inner_;
  const std::atomic<bool>& fails_;
};

class FailingProvider final : public test::ForwardingProvider {
 public:
  FailingProvider(std::unique_ptr<rdma::Provider> inner, const std::atomic<bool>& fails)
      : ForwardingProvider(*inner), owned_(std::move(inner)), fails_(fails) {}
  Expected<std::unique_ptr<rdma::Listener>, rdma::Error> listen(std::string_view address) override {
    auto inner = owned_->listen(address);
    if (!inner) return inner;
    return std::make_unique<FailingListener>(std::move(*inner), fails_);
  }
  Expected<std::unique_ptr<rdma::Provider>, rdma::Error> make_shard() override {
    return owned_->make_shard();
  }

 private:
  const std::unique_ptr<rdma::Provider> owned_;
  const std::atomic<bool>& fails_;
};

// The first shard rests, and has nobody: the end of the last connection elsewhere wakes it.
TEST(ShardsOfAProvider, EndWithTheLastConnectionWhenItsDeviceHasGone) {
  std::atomic<bool> fails = false;
  ServerOptions options;
  options.shards = 2;
  rdma::siwarp::Options siwarp;
  siwarp.linger = siwarp.setup_timeout_responder = std::chrono::minutes(1);  // no timer wakes it
  auto server = Server::listen(
      std::make_unique<FailingProvider>(rdma::siwarp::make_provider(siwarp).value(), fails),
      "127.0.0.1:0", options);
  ASSERT_TRUE(server) << server.error().message();
  ShardService service;
  service.server = &*server;
  ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
  const std::string url = "rdma://" + std::string(server->address());
  std::atomic<bool> has_ended = false;
  std::thread thread([&] {
    server->run();
    has_ended = true;
  });
  std::optional<Client> of_first(Client::connect(url).value());
  std::optional<Client> of_second(Client::connect(url).value());
  for (auto* client : {&of_first, &of_second}) {
    auto reply = (*client)->call(
        (*client)->prepare({TestService::kProgram, TestService::kVersion, kWhere}).value());
    ASSERT_TRUE(reply);
  }
  fails = true;
  of_first.reset();
  while (server->connections() > 1) std::this_thread::yield();
  // Meanwhile the first shard comes to rest.
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(of_second->call(
        of_second->prepare({TestService::kProgram, TestService::kVersion, kWhere}).value()));
  }
  of_second.reset();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!has_ended && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(has_ended);
  if (!has_ended) server->stop();
  thread.join();
  EXPECT_TRUE(server->failure());
}

TEST(ShardsOfAProvider, AreRefusedWhereItIsForOneThread) {
  const auto network = test::make_siwarp(false);
  ServerOptions options;
  options.shards = 2;
  auto server = Server::listen(std::make_unique<test::ForwardingProvider>(network->server_side()),
                               "127.0.0.1:0", options);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Errc::kUnsupported);
  EXPECT_THAT(server.error().message(), HasSubstr("one thread"));
}

}  // namespace
}  // namespace rpcrdma::test
