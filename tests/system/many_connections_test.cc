// A server with many connections: what it does in a round grows with those that have news.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/forwarding_provider.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

// Has all that was polled since it was last cleared.
using Polled = std::set<const rdma::QueuePair*>;

class WatchedQueuePair final : public test::ForwardingQueuePair {
 public:
  WatchedQueuePair(std::unique_ptr<rdma::QueuePair> inner, Polled& polled, bool tells)
      : ForwardingQueuePair(std::move(inner)), polled_(polled), tells_(tells) {}
  std::size_t poll(std::span<rdma::Completion> out) override {
    polled_.insert(this);
    return ForwardingQueuePair::poll(out);
  }
  bool set_ready_listener(rdma::NewsListener& listener) noexcept override {
    return tells_ && ForwardingQueuePair::set_ready_listener(listener);
  }

 private:
  Polled& polled_;
  const bool tells_;
};

class WatchedProvider final : public test::ForwardingProvider {
 public:
  WatchedProvider(rdma::Provider& inner, bool tells) : ForwardingProvider(inner), tells_(tells) {}
  Polled polled;

 private:
  std::unique_ptr<rdma::QueuePair> wrap(std::unique_ptr<rdma::QueuePair> inner) override {
    return std::make_unique<WatchedQueuePair>(std::move(inner), polled, tells_);
  }
  const bool tells_;
};

// Watches the connections of its server.
class WatchedNetwork final : public test::Network {
 public:
  WatchedNetwork(std::unique_ptr<test::Network> inner, bool tells)
      : inner_(std::move(inner)), server_(inner_->server_side(), tells) {}
  rdma::Provider& server_side() override { return server_; }
  rdma::Provider& client_side() override { return inner_->client_side(); }
  std::string listen_address() const override { return inner_->listen_address(); }
  rdma::Provider& add_provider(const std::string& name) override {
    return inner_->add_provider(name);
  }
  void wait() override { inner_->wait(); }
  std::vector<std::string> violations() const override { return inner_->violations(); }
  Polled& polled() noexcept { return server_.polled; }

 private:
  const std::unique_ptr<test::Network> inner_;
  WatchedProvider server_;
};

class ManyConnections : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr std::size_t kIdle = 20;

  void connect(bool tells = true, const ServerOptions& options = {}) {
    auto network = std::make_unique<WatchedNetwork>(
        GetParam() ? test::make_siwarp(false) : test::make_sim(1), tells);
    network_ = network.get();
    pair_ = std::make_unique<RpcPair>(std::move(network), ClientOptions{}, options);
    for (std::size_t i = 0; i < kIdle; ++i) others_.push_back(RpcPair::connect_another(*pair_));
    for (Client& other : others_) null_call(other);
  }
  void null_call(Client& client) {
    auto call = client.prepare({TestService::kProgram, TestService::kVersion, TestService::kNull});
    ASSERT_TRUE(call);
    bool done = false;
    ASSERT_TRUE(client.start(std::move(*call), [&](const auto& reply) {
      EXPECT_TRUE(reply);
      done = true;
    }));
    pair_->run_until([&] {
      client.progress();
      return done;
    });
  }
  // Until nothing of what was done before comes to the server any more.
  void let_it_rest() {
    for (int quiet = 0, rounds = 0; quiet < 5 && rounds < 10'000; ++rounds) {
      network_->polled().clear();
      pair_->server->progress();
      for (Client& other : others_) other.progress();
      pair_->client->progress();
      quiet = network_->polled().empty() ? quiet + 1 : 0;
      if (!GetParam()) network_->wait();  // of virtual time
    }
    network_->polled().clear();
  }

  WatchedNetwork* network_ = nullptr;
  std::unique_ptr<RpcPair> pair_;
  std::vector<Client> others_;
};

TEST_P(ManyConnections, OnlyThoseWithNewsAreLookedAt) {
  connect();
  let_it_rest();
  for (int i = 0; i < 10; ++i) null_call(*pair_->client);
  EXPECT_EQ(network_->polled().size(), 1U);
  null_call(others_[7]);
  EXPECT_EQ(network_->polled().size(), 2U);
}

// A reply that is given between two rounds is sent in the next one, though the peer is silent.
TEST_P(ManyConnections, AnswersFromOutsideOfARoundGoOut) {
  connect();
  auto call =
      others_[3].prepare({TestService::kProgram, TestService::kVersion, TestService::kHold});
  ASSERT_TRUE(call);
  bool done = false;
  ASSERT_TRUE(others_[3].start(std::move(*call), [&](const auto& reply) { done = !!reply; }));
  pair_->run_until([&] {
    others_[3].progress();
    return !pair_->service.held.empty();
  });
  let_it_rest();
  pair_->service.held[0]->succeed();
  pair_->service.held.clear();
  pair_->run_until([&] {
    others_[3].progress();
    return done;
  });
}

// One turn is bounded, and the rest of it waits for no news.
TEST_P(ManyConnections, MoreCallsThanATurnIsForAreAnswered) {
  constexpr std::uint32_t kCalls = 500;
  ClientOptions options;
  options.connection.credits = options.calls_max = kCalls;
  ServerOptions server_options;
  server_options.connection.credits = kCalls;
  RpcPair pair(GetParam() ? test::make_siwarp(false) : test::make_sim(1), options, server_options);
  const auto start = [&](std::uint32_t& done) {
    auto call =
        pair.client->prepare({TestService::kProgram, TestService::kVersion, TestService::kNull});
    ASSERT_TRUE(call);
    ASSERT_TRUE(pair.client->start(std::move(*call), [&](const auto& reply) { done += !!reply; }));
  };
  std::uint32_t first = 0, done = 0;
  start(first);  // its reply brings all credits
  pair.run_until([&] { return first == 1; });
  for (std::uint32_t i = 0; i < kCalls; ++i) start(done);
  pair.run_until([&] { return done == kCalls; });
}

// So that a provider of the user's need not know of it.
TEST_P(ManyConnections, AreAllLookedAtWhereTheProviderDoesNotTell) {
  connect(false);
  network_->polled().clear();
  null_call(others_[7]);
  EXPECT_EQ(network_->polled().size(), kIdle + 1);
}

// Clients that go do so one by one, in any order: each is let go, and the others are served.
TEST_P(ManyConnections, ComeAndGo) {
  connect();
  while (!others_.empty()) {
    others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(others_.size() / 2));
    pair_->run_until([&] { return pair_->server->connections() == others_.size() + 1; });
    null_call(*pair_->client);
    if (!others_.empty()) null_call(others_.back());
  }
}

// Keeps the Calls, and their arguments with them.
class KeepingService final : public Service {
 public:
  static constexpr std::uint32_t kProgram = 0x20010077, kVersion = 1, kTake = 1;
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr std::array<ProcedureTraits, 2> kTable{
        ProcedureTraits{.number = 0},
        ProcedureTraits{.number = kTake, .bulk_argument_size_max = 1U << 20U}};
    return find_traits(kTable, procedure);
  }
  void call(CallContext& context) override {
    sizes.push_back(context.arguments().bulk(1U << 20U, "data").size());
    kept.push_back(&context);
  }
  void answer_all() {
    for (CallContext* context : std::exchange(kept, {})) context->succeed();
  }
  std::vector<CallContext*> kept;
  std::vector<std::size_t> sizes;  // in the order of execution
};

// A small call would have memory at once; behind a large one that has not, it waits all the same,
// or small ones could keep the large one waiting for ever. Those of a few KiB have memory of their
// own, which large ones cannot take.
TEST_P(ManyConnections, CallsHaveMemoryInTheOrderOfTheirArrival) {
  KeepingService service;
  ServerOptions options;
  options.memory_max = 1U << 20U;  // seven eighths of it for large buffers
  connect(true, options);
  ASSERT_TRUE(pair_->server->add(KeepingService::kProgram, KeepingService::kVersion, service));
  std::size_t done = 0;
  const std::vector<std::byte> data(512U << 10U);
  const auto send = [&](Client& client, std::size_t size) {
    auto call =
        client.prepare({KeepingService::kProgram, KeepingService::kVersion, KeepingService::kTake});
    ASSERT_TRUE(call);
    call->arguments().bulk(Bytes(data).first(size));
    ASSERT_TRUE(client.start(std::move(*call), [&](const auto& reply) { done += !!reply; }));
    let_it_rest();
  };
  send(others_[0], 512U << 10U);
  send(others_[1], 512U << 10U);
  send(others_[2], 256U << 10U);
  EXPECT_EQ(service.sizes, std::vector<std::size_t>({512U << 10U}));
  send(others_[3], 4U << 10U);
  EXPECT_EQ(service.sizes, std::vector<std::size_t>({512U << 10U, 4U << 10U}));
  pair_->run_until([&] {
    service.answer_all();
    for (Client& other : others_) other.progress();
    return done == 4;
  });
  EXPECT_EQ(service.sizes.size(), 4U);
}

INSTANTIATE_TEST_SUITE_P(Providers, ManyConnections, ::testing::Values(false, true),
                         [](const auto& each) { return each.param ? "Siwarp" : "Sim"; });

}  // namespace
}  // namespace rpcrdma::test
