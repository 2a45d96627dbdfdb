// A server of several threads (ServerOptions::shards): connections are dealt in turn, every service
// runs on all of them, and what they share is right. Runs under ThreadSanitizer, too (make
// check-tsan).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "support/forwarding_provider.h"
#include "support/raw_peer.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"

namespace rpcrdma {
namespace {

using test::join;
using test::Message;
using test::RawPeer;
using test::words;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr std::uint32_t kProgram = test::TestService::kProgram;
constexpr std::uint32_t kVersion = test::TestService::kVersion;
enum Procedure : std::uint32_t {
  kWhere = 1,   // () -> u32: a number of the thread
  kRead = 2,    // u32 size -> bulk
  kOnce = 3,    // () -> u32: how often it was executed; not idempotent, and held until release()
  kCalls = 4,   // () -> u32: of the server's counters
  kStop = 5,    // () -> (): stops the server
  kStepUp = 6,  // () -> (): and the connection steps up
};
constexpr std::uint32_t kSizeMax = 1U << 20U;

class Service final : public rpcrdma::Service {
 public:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr ProcedureTraits kOthers{.number = 0};
    static constexpr ProcedureTraits kIsOnce{.number = kOnce, .is_idempotent = false};
    return procedure == kOnce ? &kIsOnce : procedure <= kStepUp ? &kOthers : nullptr;
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
      case kCalls:
        results.u32(static_cast<std::uint32_t>(server->counters().calls));
        break;
      case kStop:
        server->stop();
        break;
      case kStepUp:
        if (context.step_up() != StepUp::kNow) return context.fail(AcceptStatus::kSystemErr);
        break;
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
class Shards : public testing::Test {
 protected:
  void start(std::uint32_t shards, ServerOptions options = {}) {
    options.shards = shards;
    options.provider.name = "siwarp";
    auto made = Server::listen("rdma://127.0.0.1:0", options);
    ASSERT_TRUE(made) << made.error().message();
    server_.emplace(std::move(*made));
    service_.server = &*server_;
    ASSERT_TRUE(server_->add(kProgram, kVersion, service_));
    rdma_ = "rdma://" + std::string(server_->address());
    const auto tcp = server_->also_listen("tcp://127.0.0.1:0");
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
    auto client = Client::connect(url, options);
    EXPECT_TRUE(client) << client.error().message();
    return std::move(*client);
  }
  static std::uint32_t number(Client& client, std::uint32_t procedure) {
    auto reply = client.call(client.prepare({kProgram, kVersion, procedure}).value());
    EXPECT_TRUE(reply) << reply.error().message();
    return reply ? reply->results().xdr().u32("number") : ~0U;
  }
  static void expect_data(Client& client, std::uint32_t size) {
    std::vector<std::byte> place(size);
    auto call = client.prepare({kProgram, kVersion, kRead}).value();
    call.arguments().xdr().u32(size);
    call.place_result(place);
    auto reply = client.call(std::move(call));
    ASSERT_TRUE(reply) << reply.error().message();
    const Bytes data = reply->results().bulk(size, "data");  // `place` where it could be placed
    ASSERT_THAT(data, SizeIs(size));
    EXPECT_EQ(data.back(), std::byte{0x5a});
  }
  std::unique_ptr<RawPeer> raw() {
    return RawPeer::connect(tcp_, [] { std::this_thread::yield(); });
  }

  std::mutex mutex_;
  std::vector<std::string> refused_;  // guarded by mutex_
  Service service_;
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
  for (Client& client : clients) EXPECT_EQ(number(client, kCalls), before++);
  clients.clear();
  stop();
  EXPECT_EQ(server_->counters().calls, 6U);
}

// All of them ask all others at the same time, again and again.
TEST_F(Shards, DoNotWaitForEachOthersFigures) {
  start(3);
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(connect(rdma_));
  std::vector<std::thread> threads;
  for (Client& client : clients) {
    threads.emplace_back([&client] {
      for (int i = 0; i < 20; ++i) EXPECT_LE(number(client, kCalls), 60U);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Two connections, on two shards, with the same Call: the second one waits for the first, is told
// of its end, and has the same results.
TEST_F(Shards, ExecuteACallOnceThatIsMadeAgainElsewhere) {
  start(2);
  const auto peer = raw(), again = raw();
  const Message call = test::raw_call(77, kOnce);
  const Message record =
      join({words({0x80000000U | static_cast<std::uint32_t>(call.size())}), call});
  const Message null_call = test::raw_call(78, kWhere);
  const Message ask =
      join({words({0x80000000U | static_cast<std::uint32_t>(null_call.size())}), null_call});
  ASSERT_TRUE(peer->send(record));
  while (service_.held == nullptr) std::this_thread::yield();
  ASSERT_TRUE(again->send(join({record, ask})));
  EXPECT_EQ(test::to_words(again->receive(32)).at(1), 78U) << "what is behind it goes on";
  service_.held.load()->succeed();
  const Message reply = join({words({0x80000000U | 28U}), test::raw_reply(77), words({1})});
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
TEST_F(Shards, AllStopWhenOneOfThemIsToldTo) {
  start(3);
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(connect(rdma_));
    (void)number(clients.back(), kWhere);
  }
  auto stopped = clients[1].call(clients[1].prepare({kProgram, kVersion, kStop}).value());
  EXPECT_TRUE(stopped) << "the call itself is answered";
  thread_.join();
  EXPECT_TRUE(server_->drained());
  EXPECT_EQ(service_.threads(), 3U);
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
  Service other;
  const auto added = server_->add(kProgram + 1, kVersion, other);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::kUnsupported);
  EXPECT_THAT(added.error().message(), HasSubstr("before run()"));
  EXPECT_FALSE(server_->also_listen("tcp://127.0.0.1:0"));
}

// A TCP connection of the second shard steps up, which is the first one's to accept.
TEST_F(Shards, TakeOverConnectionsThatStepUp) {
  start(2);
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) {
    Client client = connect("tcp://" + tcp_);
    auto agreed = client.call(client.prepare({kProgram, kVersion, kStepUp}).value());
    ASSERT_TRUE(agreed) << agreed.error().message();
    ASSERT_TRUE(agreed->finish() == std::nullopt);
    auto stepped = client.step_up();
    ASSERT_TRUE(stepped) << stepped.error().message();
    expect_data(*stepped, kSizeMax);
    clients.push_back(std::move(*stepped));
  }
  EXPECT_EQ(server_->connections(), 4U);
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
}  // namespace rpcrdma
