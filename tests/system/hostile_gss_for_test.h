// A server on a thread of its own, and peers of it on real connections that speak RPCSEC_GSS byte
// by byte, or are clients of ours: what the tests of hostile_gss_test.cc,
// hostile_gss_client_test.cc and gss_transports_test.cc share. The mechanism is a fake one.
#ifndef RPCRDMA_TESTS_SYSTEM_HOSTILE_GSS_FOR_TEST_H_
#define RPCRDMA_TESTS_SYSTEM_HOSTILE_GSS_FOR_TEST_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gss/executor.h"
#include "gss/message.h"
#include "gss/server_auth.h"
#include "support/checked_reply.h"
#include "support/fake_mechanism.h"
#include "support/gss_caller.h"
#include "support/rpc_fixture.h"
#include "support/tampered_auth.h"

namespace rpcrdma::test {
inline constexpr std::uint32_t kWindow = 64;
inline constexpr gss::Service kServices[] = {gss::Service::kNone, gss::Service::kIntegrity,
                                             gss::Service::kPrivacy};

// The TestService, which the test looks at while the server is on another thread.
class WatchedService final : public rpcrdma::Service {
 public:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    return inner_.traits(procedure);
  }
  void call(CallContext& context) override {
    ++calls;
    if (context.procedure().number == TestService::kGarbage) release();
    inner_.call(context);
    held = inner_.held.size();
  }
  // On the server's thread, or when it has ended.
  std::uint32_t times_executed(std::uint32_t id) { return inner_.executed[id]; }

  std::atomic<std::uint64_t> calls = 0;
  std::atomic<std::size_t> held = 0;

 private:
  // A call of kGarbage ends those of kHold.
  void release() {
    for (CallContext* const each : std::exchange(inner_.held, {})) each->succeed();
  }
  TestService inner_;
};

// Steps end at once, or, while it is closed, when it is opened again.
class Gate final : public gss::Executor {
 public:
  void submit(Work work) override {
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_) {
        waiting_.push_back(std::move(work));
        ++count;
        return;
      }
    }
    work();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  void open() {
    std::vector<Work> ready;
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = false;
      ready.swap(waiting_);
    }
    for (Work& work : ready) work();
  }

  std::atomic<std::size_t> count = 0;  // of those that had to wait

 private:
  std::mutex mutex_;
  bool is_closed_ = false;     // guarded by mutex_
  std::vector<Work> waiting_;  // guarded by mutex_
};

// Why connections ended, as the server tells its application.
class Endings {
 public:
  void tell(const ConnectionEvent& event) {
    if (event.kind != ConnectionEvent::Kind::kEnded || event.error == nullptr) return;
    const std::lock_guard lock(mutex_);
    causes_.push_back(event.error->cause);
    changed_.notify_all();
  }
  // The one after those that were asked for before; empty: there is none.
  std::string next() {
    std::unique_lock lock(mutex_);
    const bool is_there = changed_.wait_for(lock, std::chrono::seconds(20),
                                            [this] { return seen_ < causes_.size(); });
    return is_there ? causes_[seen_++] : std::string();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> causes_;  // guarded by mutex_
  std::size_t seen_ = 0;             // guarded by mutex_
};

class HostileGss : public ::testing::TestWithParam<const char*> {
 protected:
  ~HostileGss() override { stop(); }
  static bool is_tcp() { return std::string_view(GetParam()) == "tcp"; }

  struct Settings {
    FakeSettings mechanism{};
    std::size_t contexts_max = 64, making_max = 8;
    std::uint64_t first_handle = 0x7700000000;
    gss::Executor* executor = nullptr;
    std::uint64_t memory_max = ServerOptions{}.memory_max;
  };
  void start() { start(Settings{}); }
  void start(const Settings& settings) {
    stop();
    mechanism_ = std::make_unique<FakeMechanism>(settings.mechanism);
    gss_ = std::make_unique<gss::ServerGss>(
        *mechanism_, settings.executor != nullptr ? *settings.executor : workers_,
        gss::ContextTable::Limits{.contexts_max = settings.contexts_max,
                                  .making_max = settings.making_max,
                                  .window = kWindow},
        counted_handles(settings.first_handle), [] { return Instant{}; });
    auth_ = std::make_unique<Tampered>(*gss_);
    auth_->at_accept = [this](CallAcceptance& call) { watch(call); };
    ServerOptions options;
    options.provider.name = "siwarp";
    options.connection.inline_size = 4096;
    options.memory_max = settings.memory_max;
    options.on_connection = [this](const ConnectionEvent& event) { endings_.tell(event); };
    auto server = Server::listen("rdma://127.0.0.1:0", options);
    ASSERT_TRUE(server) << server.error().message();
    server_.emplace(std::move(*server));
    const auto records = server_->add_listener("tcp://127.0.0.1:0");
    ASSERT_TRUE(records) << records.error().message();
    ASSERT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
    ASSERT_TRUE(server_->accept_flavor(AuthFlavor::kRpcsecGss, *auth_));
    address_ = std::string(server_->address());
    other_address_ = *records;
    if (is_tcp()) address_.swap(other_address_);
    thread_ = std::thread([this] { server_->run(); });
  }
  // No peer may be left: what calls have lent is back then.
  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
    EXPECT_EQ(server_->memory_in_use(), 0U);
    server_.reset();
  }

  RawCaller peer() { return RawCaller(is_tcp(), address_, kWindow); }
  // One that has a context.
  RawCaller user() {
    RawCaller made = peer();
    made.make_context(*mechanism_);
    return made;
  }
  // Another connection of the same.
  RawCaller again(const RawCaller& of) {
    RawCaller made = peer();
    made.ours = of.ours;
    made.handle = of.handle;
    return made;
  }
  // A client of ours, with contexts of its own.
  Client connect(gss::Service service) {
    ClientOptions options;
    options.provider.name = "siwarp";
    auto& security = options.auth.emplace<gss::ClientSecurity>();
    security.service = service;
    security.mechanism = mechanism_.get();
    options.call_timeout = std::chrono::seconds(20);
    auto client = Client::connect(std::string(GetParam()) + "://" + address_, options);
    EXPECT_TRUE(client) << client.error().message();
    return std::move(*client);
  }
  static Call echo_of(Client& client, const Message& data) {
    Call call =
        client.prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho}).value();
    call.arguments().bulk(data);
    call.expect_results(static_cast<std::uint32_t>(data.size()) + 100);
    return call;
  }
  static std::optional<Error> echo(Client& client) {
    const Message data = pattern(500, 5);
    auto reply = client.call(echo_of(client, data));
    if (!reply) return reply.error();
    EXPECT_TRUE(std::ranges::equal(read(*reply)->bulk(1000, "data"), data));
    return std::nullopt;
  }
  static void expect_echo(Client& client) {
    const auto error = echo(client);
    EXPECT_EQ(error, std::nullopt) << error->message();
  }
  void expect_replayed(RawCaller& peer, const Message& call) {
    ASSERT_TRUE(peer.send(call));
    ASSERT_TRUE(peer.ends());
    EXPECT_NE(endings_.next().find("sequence number of RPCSEC_GSS"), std::string::npos);
  }
  // Expects what the client of a call that is executed once learns: how often it was.
  static void expect_once(RawCaller& peer, const Message& call, std::uint32_t number) {
    const auto reply = peer.exchange(call);
    ASSERT_TRUE(reply);
    EXPECT_EQ(to_words(peer.accepted(*reply, number, 0)).at(0), 1U);
  }
  // So many at a time, each on a thread with a connection.
  void flood(int peers, const std::function<void(RawCaller& peer)>& act) {
    std::vector<std::thread> threads;
    for (int i = 0; i < peers; ++i) {
      threads.emplace_back([&] {
        RawCaller peer = this->peer();
        act(peer);
      });
    }
    for (std::thread& each : threads) each.join();
  }

  // Denies and counts; on the server's thread.
  void watch(CallAcceptance& call) {
    const bool is_data = control_of(call) == gss::Control::kData;
    ++(is_data ? data_seen_ : inits_seen_);
    const std::lock_guard lock(denials_mutex_);
    const auto& denials = is_data ? denials_ : denials_of_init_;
    if (!denials.empty()) call.status = denials[next_denial_++ % denials.size()];
  }
  void deny(std::vector<AuthStatus> data, std::vector<AuthStatus> inits = {}) {
    const std::lock_guard lock(denials_mutex_);
    denials_ = std::move(data);
    denials_of_init_ = std::move(inits);
    next_denial_ = 0;
    data_seen_ = inits_seen_ = 0;
  }

  gss::Workers workers_{2};
  std::unique_ptr<FakeMechanism> mechanism_;
  std::unique_ptr<gss::ServerGss> gss_;
  std::unique_ptr<Tampered> auth_;
  WatchedService service_;
  Endings endings_;
  std::mutex denials_mutex_;
  std::vector<AuthStatus> denials_, denials_of_init_;  // in turn; guarded by denials_mutex_
  std::size_t next_denial_ = 0;                        // guarded by denials_mutex_
  std::atomic<std::uint32_t> data_seen_ = 0, inits_seen_ = 0;
  std::optional<Server> server_;
  std::string address_, other_address_;  // of the other transport
  std::thread thread_;
};

inline const auto kTransportName = [](const ::testing::TestParamInfo<const char*>& test) {
  return std::string(test.param);
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SYSTEM_HOSTILE_GSS_FOR_TEST_H_
