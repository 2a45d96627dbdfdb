// Clients share a server's memory. Some of these are attackers, which have it read their data
// slowly for ever, in virtual time; an honest one beside them has to get its share soon.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rpc/call/connecting_client.h"
#include "support/forwarding_provider.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::size_t kPut = 1U << 20U;  // bytes of a Call's bulk argument

enum class Slow { kNot, kReads, kReplies };

// On the server's side of an attacker's connection: a Read, or the Send of a reply, completes when
// `kBetween` is over since the one before, so that the peer makes progress all the time.
class SlowQueuePair final : public ForwardingQueuePair {
 public:
  static constexpr nanoseconds kBetween =
      seconds(29);  // ServerOptions::peer_timeout would wait a second more

  SlowQueuePair(std::unique_ptr<rdma::QueuePair> inner, Slow slow, std::set<SlowQueuePair*>& all)
      : ForwardingQueuePair(std::move(inner)), slow_(slow), all_(all) {
    all_.insert(this);
  }
  ~SlowQueuePair() override { all_.erase(this); }

  Expected<void, rdma::Error> post(std::span<work::Request> batch) override {
    for (const work::Request& each : batch) {
      const bool is_slow = slow_ == Slow::kReads ? std::holds_alternative<work::Read>(each.work)
                                                 : std::holds_alternative<work::Send>(each.work);
      if (is_slow) slow_work_.insert(each.id);
    }
    return ForwardingQueuePair::post(batch);
  }
  std::size_t poll(std::span<rdma::Completion> out) override {
    std::size_t count = 0;
    while (count < out.size() && !ready_.empty()) {
      out[count++] = ready_.front();
      ready_.pop_front();
    }
    const std::size_t polled = ForwardingQueuePair::poll(out.subspan(count));
    for (std::size_t i = count, end = count + polled; i < end; ++i) {
      const auto found = slow_work_.find(out[i].id);
      const bool is_slow = found != slow_work_.end();
      if (is_slow) slow_work_.erase(found);
      if (is_slow && out[i].status == rdma::Status::kOk) {
        held_.push_back(out[i]);
      } else {
        out[count++] = out[i];
      }
    }
    return count;
  }
  // Work that was under way when the connection ended comes back.
  std::optional<rdma::LinkEvent> poll_link() override {
    const auto event = ForwardingQueuePair::poll_link();
    if (event == rdma::LinkEvent::kDisconnected) {
      for (rdma::Completion& each : held_) {
        each.status = rdma::Status::kFlushed;
        ready_.push_back(each);
      }
      held_.clear();
    }
    return event;
  }
  bool set_ready_listener(rdma::NewsListener& listener) noexcept override {
    listener_ = &listener;
    return ForwardingQueuePair::set_ready_listener(listener);
  }
  // When the next one is due, if any.
  std::optional<Instant> pass(Instant now) {
    if (held_.empty()) return std::nullopt;
    if (!next_) next_ = now + kBetween;
    if (*next_ > now) return next_;
    next_ = now + kBetween;
    ready_.push_back(held_.front());
    held_.pop_front();
    listener_->handle_news();
    return next_;
  }

 private:
  const Slow slow_;
  std::set<SlowQueuePair*>& all_;
  std::multiset<std::uint64_t> slow_work_;  // posted and not complete
  std::deque<rdma::Completion> held_, ready_;
  std::optional<Instant> next_;
  rdma::NewsListener* listener_ = nullptr;
};

class SlowProvider final : public ForwardingProvider {
 public:
  explicit SlowProvider(rdma::Provider& inner) : ForwardingProvider(inner) {}
  Slow slow = Slow::kNot;  // are connections that come from now on

  void progress() override {
    ForwardingProvider::progress();
    (void)pass();
  }
  void arm_timer(std::optional<Instant> when) override {
    const auto next = pass();
    if (next && (!when || *next < *when)) when = next;
    ForwardingProvider::arm_timer(when);
  }

 private:
  std::unique_ptr<rdma::QueuePair> wrap(std::unique_ptr<rdma::QueuePair> inner) override {
    if (slow == Slow::kNot) return inner;
    return std::make_unique<SlowQueuePair>(std::move(inner), slow, all_);
  }
  std::optional<Instant> pass() {
    std::optional<Instant> next;
    for (SlowQueuePair* each : all_) {
      const auto due = each->pass(now());
      if (due && (!next || *due < *next)) next = due;
    }
    return next;
  }

  std::set<SlowQueuePair*> all_;
};

class SlowNetwork final : public Network {
 public:
  explicit SlowNetwork(std::unique_ptr<Network> inner)
      : inner_(std::move(inner)), server_(inner_->server_side()) {}
  SlowProvider& server_side() override { return server_; }
  rdma::Provider& client_side() override { return inner_->client_side(); }
  std::string listen_address() const override { return inner_->listen_address(); }
  rdma::Provider& add_provider(const std::string& name) override {
    return inner_->add_provider(name);
  }
  void wait() override { inner_->wait(); }
  std::vector<std::string> violations() const override { return inner_->violations(); }

 private:
  const std::unique_ptr<Network> inner_;
  SlowProvider server_;
};

class Sharing : public ::testing::Test {
 protected:
  static std::unique_ptr<SlowNetwork> network() {
    rdma::sim::Options options;
    options.latency_max = nanoseconds(1);  // each step takes the same time
    return std::make_unique<SlowNetwork>(make_sim(1, options));
  }
  void start(std::size_t memory_max, std::uint32_t credits = 64) {
    auto made = network();
    network_ = made.get();
    ServerOptions options;
    options.memory_max = memory_max;
    options.connections_max = 2000;
    options.connection.credits = credits;
    options.on_connection = [this](const ConnectionEvent& event) {
      if (event.kind == ConnectionEvent::Kind::kEnded && event.error != nullptr)
        causes_.push_back(event.error->cause);
    };
    ClientOptions client;
    client.connection.credits = 4;
    client.call_timeout = std::chrono::hours(1);
    pair_ = std::make_unique<RpcPair>(std::move(made), client, options);
    credits_ = credits;
  }
  Instant now() { return network_->server_side().now(); }
  // Each with as many Calls as it has credits.
  void attack(std::size_t attackers) {
    connect(attackers, Slow::kReads);
    const std::uint64_t before = pair_->server->counters().read_chunks;
    for (Client& each : attackers_) {
      for (std::uint32_t i = 0; i < credits_; ++i) start_put(each, [](bool) {});
    }
    ASSERT_TRUE(pair_->run_until([&] {
      for (Client& each : attackers_) each.progress();
      return pair_->server->counters().read_chunks - before >= attackers * credits_;
    }));
  }
  void connect(std::size_t attackers, Slow slow) {
    network_->server_side().slow = slow;
    ClientOptions options;
    options.connection.credits = credits_;
    options.connection.inline_size = 4096;
    options.call_timeout = std::chrono::hours(1);
    for (std::size_t i = 0; i < attackers; ++i) {
      auto made =
          ConnectingClient::connect_on(network_->client_side(), pair_->server->address(), options);
      ASSERT_TRUE(made) << made.error().message();
      attackers_.push_back(std::move(*made));
    }
    ASSERT_TRUE(pair_->run_until([&] {
      bool are_up = true;
      for (Client& each : attackers_) {
        each.progress();
        are_up = are_up && each.connected();
      }
      return are_up;
    }));
    network_->server_side().slow = Slow::kNot;
    // Without a reply they have one credit.
    std::size_t answered = 0;
    for (Client& each : attackers_) {
      auto call = each.prepare({TestService::kProgram, TestService::kVersion, TestService::kNull});
      ASSERT_TRUE(call);
      ASSERT_TRUE(each.start(std::move(*call), [&](auto) { ++answered; }));
    }
    ASSERT_TRUE(pair_->run_until([&] {
      for (Client& each : attackers_) each.progress();
      return answered == attackers;
    }));
  }
  void start_put(Client& client, std::function<void(bool)> ended) {
    auto call =
        client.prepare({TestService::kProgram, TestService::kVersion, TestService::kLength});
    ASSERT_TRUE(call);
    call->arguments().bulk(data_);
    ASSERT_TRUE(client.start(std::move(*call), [ended](auto reply) { ended(reply.has_value()); }));
  }
  // How long an honest put takes.
  nanoseconds put() {
    const Instant begun = now();
    bool done = false;
    start_put(*pair_->client, [&](bool is_well) {
      EXPECT_TRUE(is_well);
      done = true;
    });
    EXPECT_TRUE(pair_->run_until([&] { return done; }));
    return now() - begun;
  }

  const std::vector<std::byte> data_ = std::vector<std::byte>(kPut);
  std::vector<std::string> causes_;
  SlowNetwork* network_ = nullptr;
  std::unique_ptr<RpcPair> pair_;
  std::vector<Client> attackers_;
  std::uint32_t credits_ = 0;
};

// ServerOptions::pull_timeout, and the bytes of the largest Call at pull_rate_min.
constexpr nanoseconds kHeldMax = seconds(10) + seconds(kPut / (256U << 10U));

TEST_F(Sharing, PutBesideOneAttackerTakesAsLongAsAlone) {
  start(64U << 20U);
  (void)put();
  const nanoseconds alone = put();
  attack(1);
  EXPECT_GT(pair_->server->memory_in_use(), 0U);
  EXPECT_LE(put(), 2 * alone);
}

TEST_F(Sharing, PutBesideEightAttackersTakesAsLongAsAlone) {
  start(64U << 20U);
  (void)put();
  const nanoseconds alone = put();
  attack(8);
  EXPECT_LE(put(), 2 * alone);
}

TEST_F(Sharing, PutThatComesWhenEightAttackersHaveAllMemoryWaitsForOneOfTheirCalls) {
  start(16U << 20U);
  (void)put();
  const nanoseconds alone = put();
  attack(8);
  EXPECT_GE(pair_->server->memory_in_use(), (14U << 20U) - kPut);
  const nanoseconds took = put();
  EXPECT_GT(took, 2 * alone) << "there was memory left";
  EXPECT_LE(took, kHeldMax + 2 * alone);
  ASSERT_TRUE(pair_->run_until([&] { return !causes_.empty(); }));
  EXPECT_NE(causes_[0].find("served the Read chunks of a Call too slowly"), std::string::npos)
      << causes_[0];
}

TEST_F(Sharing, PutBesideAThousandAttackersWaitsForOneOfTheirCalls) {
  start(64U << 20U, 4);
  (void)put();
  const nanoseconds alone = put();
  attack(1000);
  EXPECT_GE(pair_->server->memory_in_use(), (56U << 20U) - kPut);
  EXPECT_LE(put(), kHeldMax + 2 * alone);
}

// Receives have their memory from the beginning: what replies hold stops none of them, nor the
// short Calls of anybody.
TEST_F(Sharing, RepliesThatHoldAllMemoryStopNoShortCalls) {
  start(4U << 20U, 8);
  connect(4, Slow::kReplies);
  std::size_t ended = 0;
  for (Client& each : attackers_) {
    for (int i = 0; i < 8; ++i) {
      auto call =
          each.prepare({TestService::kProgram, TestService::kVersion, TestService::kProduce});
      ASSERT_TRUE(call);
      call->arguments().xdr().u32(kPut);
      call->expect_results(kPut + 100);
      ASSERT_TRUE(each.start(std::move(*call), [&](auto) { ++ended; }));
    }
  }
  // Calls that find no memory are refused with SYSTEM_ERR; the others stay for their time.
  ASSERT_TRUE(pair_->run_until([&] {
    for (Client& each : attackers_) each.progress();
    return pair_->server->memory_in_use() >= (2U << 20U);
  }));
  for (int i = 0; i < 100; ++i) {
    const Instant begun = now();
    bool done = false;
    auto call = pair_->prepare(TestService::kNull);
    ASSERT_TRUE(call);
    ASSERT_TRUE(pair_->client->start(std::move(*call), [&](auto reply) {
      EXPECT_TRUE(reply);
      done = true;
    }));
    ASSERT_TRUE(pair_->run_until([&] {
      for (Client& each : attackers_) each.progress();
      return done;
    }));
    EXPECT_LT(now() - begun, seconds(1));
  }
  EXPECT_GE(pair_->server->memory_in_use(), 2U << 20U) << "it was held all the time";
}

}  // namespace
}  // namespace rpcrdma::test
