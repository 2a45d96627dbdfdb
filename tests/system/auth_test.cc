// A security flavor of the application's own (rpcrdma/auth.h), over both transports, with steps
// that end at once and steps that go on elsewhere.
#include "rpcrdma/auth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "support/test_bed.h"

namespace rpcrdma::test {
namespace {

constexpr AuthFlavor kStamped{0x5a5a};

// Where steps go on. Without a thread, the test runs them.
class Elsewhere {
 public:
  explicit Elsewhere(bool is_late) : is_late_(is_late) {}
  ~Elsewhere() { stop(); }

  StepEnd take(std::function<void()> work, AuthStep& step) {
    if (!is_late_) {
      work();
      return StepEnd::kDone;
    }
    const std::lock_guard lock(mutex_);
    jobs_.emplace_back([work = std::move(work), &step] {
      work();
      step.finish();
    });
    wake_.notify_one();
    return StepEnd::kPending;
  }
  // False: there was nothing to do.
  bool run_one() {
    std::function<void()> job;
    {
      const std::lock_guard lock(mutex_);
      if (jobs_.empty()) return false;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
    return true;
  }
  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return jobs_.size();
  }
  void start_thread() {
    thread_ = std::thread([this] {
      while (true) {
        {
          std::unique_lock lock(mutex_);
          wake_.wait(lock, [this] { return !jobs_.empty() || stops_; });
          if (jobs_.empty()) return;
        }
        run_one();
      }
    });
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
      wake_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  const bool is_late_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;  // guarded by mutex_
  bool stops_ = false;                      // guarded by mutex_
  std::thread thread_;
};

// A wrapped item: its size, and its bytes changed one by one.
Message wrap(std::span<const Bytes> runs) {
  Message whole;
  for (const Bytes run : runs) whole.insert(whole.end(), run.begin(), run.end());
  for (std::byte& each : whole) each ^= std::byte{0x3c};
  return join({words({static_cast<std::uint32_t>(whole.size())}), whole});
}
std::optional<Message> unwrap(Bytes bytes) {
  if (bytes.size() < 4 || xdr::load_word(bytes.data()) != bytes.size() - 4) return std::nullopt;
  Message whole(bytes.begin() + 4, bytes.end());
  for (std::byte& each : whole) each ^= std::byte{0x3c};
  return whole;
}

// Either side keeps this of one call.
struct Kept {
  Message credential, verifier, wrapped, unwrapped;
};

// Each transmission has a number of its own, in the credential; verifiers are numbers that belong
// to it.
class StampingClient final : public ClientAuth {
 public:
  StampingClient(Elsewhere& elsewhere, bool wraps) : elsewhere_(elsewhere), wraps_(wraps) {}
  ~StampingClient() override { EXPECT_EQ(kept_, 0) << "calls that were not forgotten"; }

  StepEnd seal(CallSeal& call, AuthStep& step) override {
    ++seals;
    if (call.state == nullptr) {
      call.state = new Kept;
      ++kept_;
    }
    return elsewhere_.take(
        [this, &call] {
          if (fails_to_seal) {
            call.failure = Error{Errc::kDenied, "sealing", "", "no ticket"};
            return;
          }
          auto& kept = *static_cast<Kept*>(call.state);
          const std::uint32_t stamp = ++last_stamp_;
          kept.credential = words({stamp});
          kept.verifier = words({stamp ^ call.xid});
          call.credential = {kStamped, kept.credential};
          call.verifier = {kStamped, kept.verifier};
          if (!wraps_) return;
          kept.wrapped = wrap(call.arguments);
          call.wrapped = kept.wrapped;
        },
        step);
  }
  StepEnd open(CallSeal& call, AuthStep& step) override {
    ++opens;
    return elsewhere_.take(
        [this, &call] {
          auto& kept = *static_cast<Kept*>(call.state);
          const auto stamp = to_words(kept.credential).at(0);
          if (call.reply_verifier != Credential{kStamped, words({~stamp})}) {
            call.failure = Error{Errc::kBadReply, "opening", "", "a wrong verifier"};
            return;
          }
          if (!wraps_) return;
          auto unwrapped = unwrap(call.results);
          if (!unwrapped) {
            call.failure = Error{Errc::kBadReply, "opening", "", "wrongly wrapped"};
            return;
          }
          kept.unwrapped = std::move(*unwrapped);
          call.results = kept.unwrapped;
        },
        step);
  }
  void forget(CallSeal& call) noexcept override {
    delete static_cast<Kept*>(call.state);
    --kept_;
  }
  std::optional<std::uint32_t> wrap_growth() const noexcept override {
    return wraps_ ? std::optional<std::uint32_t>(4) : std::nullopt;
  }

  int seals = 0, opens = 0;
  std::atomic<bool> fails_to_seal = false;

 private:
  Elsewhere& elsewhere_;
  const bool wraps_;
  std::uint32_t last_stamp_ = 0;
  int kept_ = 0;
};

class StampingServer final : public ServerAuth {
 public:
  StampingServer(Elsewhere& elsewhere, bool wraps) : elsewhere_(elsewhere), wraps_(wraps) {}
  ~StampingServer() override { EXPECT_EQ(kept_, 0) << "calls that were not forgotten"; }

  StepEnd accept(CallAcceptance& call, AuthStep& step) override {
    ++accepts;
    call.state = new Kept;
    ++kept_;
    return elsewhere_.take(
        [this, &call] {
          call.is_wrapped = wraps_;
          call.identity = Bytes{};  // there is one user
          const auto stamp = to_words(call.credential.body);
          const auto check = to_words(call.verifier.body);
          // A checksum would cover this: eight words and the body of the credential.
          const auto header = to_words(call.header);
          if (ends_at_accept) {
            call.ends_connection = "it was seen before";
            return;
          }
          const bool is_right = stamp.size() == 1 && check.size() == 1 && header.size() == 9 &&
                                header[0] == call.xid && header[8] == stamp[0] &&
                                check[0] == (stamp[0] ^ call.xid);
          if (!is_right || !seen_.insert(stamp[0]).second) {
            call.status = AuthStatus::kRejectedVerifier;
          }
        },
        step);
  }
  StepEnd unwrap(CallAcceptance& call, AuthStep& step) override {
    return elsewhere_.take(
        [this, &call] {
          if (ends_at_unwrap) call.ends_connection = "it cannot be unwrapped";
          auto& kept = *static_cast<Kept*>(call.state);
          auto unwrapped = test::unwrap(*call.arguments);
          call.arguments.reset();
          if (!unwrapped) return;
          kept.unwrapped = std::move(*unwrapped);
          call.arguments = kept.unwrapped;
        },
        step);
  }
  StepEnd seal(CallAcceptance& call, AuthStep& step) override {
    ++seals;
    return elsewhere_.take(
        [this, &call] {
          auto& kept = *static_cast<Kept*>(call.state);
          const auto stamp = to_words(call.credential.body).at(0);
          if (ends_at_seal) call.ends_connection = "it cannot be sealed";
          kept.verifier = words({lies ? 0 : ~stamp});
          call.reply_verifier = {kStamped, kept.verifier};
          if (!wraps_ || fails_to_wrap) return;
          kept.wrapped = wrap(call.results);
          call.wrapped = kept.wrapped;
        },
        step);
  }
  void forget(CallAcceptance& call) noexcept override {
    delete static_cast<Kept*>(call.state);
    --kept_;
  }

  int accepts = 0, seals = 0;
  std::atomic<bool> lies = false, fails_to_wrap = false;
  std::atomic<bool> ends_at_accept = false, ends_at_unwrap = false, ends_at_seal = false;

 private:
  Elsewhere& elsewhere_;
  const bool wraps_;
  std::set<std::uint32_t> seen_;
  int kept_ = 0;
};

// Over TCP or not; with steps that go on elsewhere or not.
class Stamped : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  Stamped() : elsewhere_(std::get<1>(GetParam())), bed_(make_bed(is_tcp())) {}
  ~Stamped() override {
    while (elsewhere_.run_one()) {
    }
    client_.reset();
    server_.reset();
  }
  bool is_tcp() const { return std::get<0>(GetParam()); }

  void start(bool wraps, ClientOptions options = {}, const ServerOptions& server_options = {}) {
    server_auth_ = std::make_unique<StampingServer>(elsewhere_, wraps);
    server_.emplace(bed_->listen(server_options));
    ASSERT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
    ASSERT_TRUE(server_->accept_flavor(kStamped, *server_auth_));
    client_auth_ = std::make_unique<StampingClient>(elsewhere_, wraps);
    options.auth = client_auth_.get();
    options_ = options;
    client_.emplace(bed_->connect(*server_, options));
    ASSERT_TRUE(run_until([this] { return client_->connected(); }));
  }
  bool run_until(const std::function<bool()>& condition) {
    return bed_->run_until(condition, [this] {
      if (server_) server_->progress();
      client_->progress();
      (void)elsewhere_.run_one();
    });
  }
  Call prepare(std::uint32_t procedure) {
    auto call = client_->prepare({TestService::kProgram, TestService::kVersion, procedure});
    EXPECT_TRUE(call) << call.error().message();
    return std::move(*call);
  }
  std::optional<Error> finish(Call call, const std::function<void(Reply&)>& read = {}) {
    bool done = false;
    std::optional<Error> error;
    const auto started = client_->start(std::move(call), [&](Expected<Reply, Error> reply) {
      EXPECT_FALSE(done) << "a call ends twice";
      done = true;
      if (!reply) {
        error = reply.error();
      } else if (read) {
        read(*reply);
        reply->ignore_rest();
      }
    });
    if (!started) return started.error();
    EXPECT_TRUE(run_until([&] { return done; })) << "the call never ended";
    return error;
  }
  void expect_echo(std::size_t size) {
    const Message data = pattern(size, 3);
    Message place(size);
    Call call = prepare(TestService::kEcho);
    call.arguments().bulk(data);
    call.place_result(place);
    const auto error = finish(std::move(call), [&](Reply& reply) {
      EXPECT_TRUE(std::ranges::equal(reply.results().bulk(1U << 20U, "data"), data));
      EXPECT_EQ(reply.finish(), std::nullopt);
    });
    EXPECT_EQ(error, std::nullopt);
    EXPECT_TRUE(place == data);
  }

  Elsewhere elsewhere_;
  std::unique_ptr<Bed> bed_;
  TestService service_;
  std::unique_ptr<StampingServer> server_auth_;
  std::unique_ptr<StampingClient> client_auth_;
  ClientOptions options_;
  std::optional<Server> server_;
  std::optional<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(OverEach, Stamped,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param) ? "tcp" : "rdma") +
                                  (std::get<1>(each.param) ? "_later" : "_at_once");
                         });

// A step that ends at once takes no time: what happens meanwhile is for the others.
class StampedLater : public Stamped {};
INSTANTIATE_TEST_SUITE_P(OverEach, StampedLater,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(true)),
                         [](const auto& each) { return std::get<0>(each.param) ? "tcp" : "rdma"; });
// With a thread that ends the step; the simulated network has one thread only.
class StampedLaterInRealTime : public Stamped {};
INSTANTIATE_TEST_SUITE_P(OverTcp, StampedLaterInRealTime,
                         ::testing::Values(std::tuple(true, true)));

TEST_P(Stamped, CallsAndRepliesAreSealedAndChecked) {
  start(false);
  expect_echo(100);
  expect_echo(300'001);
  EXPECT_EQ(client_auth_->seals, 2);
  EXPECT_EQ(client_auth_->opens, 2);
  EXPECT_EQ(server_auth_->accepts, 2) << "a header was judged more than once";
  EXPECT_EQ(server_auth_->seals, 2);
  if (!is_tcp()) {
    EXPECT_GT(client_->counters().write_chunk_bytes, 0U);
  }
}

// Arguments of 100 KB in the message: the header comes by a Read chunk, and is read twice.
TEST_P(Stamped, LongCallsAreJudgedOnce) {
  start(false);
  const Message text = pattern(100'000, 4);
  auto call = client_->prepare({TestService::kProgram, TestService::kVersion, TestService::kAbsorb},
                               110'000);
  ASSERT_TRUE(call);
  call->arguments().xdr().opaque(text);
  EXPECT_EQ(finish(std::move(*call)), std::nullopt);
  EXPECT_EQ(server_auth_->accepts, 1);
}

TEST_P(Stamped, WrappedCallsAndRepliesMoveWhole) {
  start(true);
  expect_echo(100);
  expect_echo(300'001);
  if (!is_tcp()) {
    EXPECT_EQ(client_->counters().write_chunk_bytes, 0U);
    EXPECT_EQ(client_->counters().long_calls, 1U);
    EXPECT_EQ(client_->counters().long_replies, 1U);
  }
}

TEST_P(Stamped, ResultsThatCannotBeWrappedAreNotSent) {
  start(true);
  server_auth_->fails_to_wrap = true;
  const auto error = finish(prepare(TestService::kWhoAmI));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kServerFault) << error->message();
}

TEST_P(Stamped, CallThatIsNotAcceptedIsDenied) {
  start(false);
  // A credential of the flavor without a verifier.
  auto call = client_->prepare_message();
  ASSERT_TRUE(call);
  call->arguments().xdr().opaque_fixed(words({5, 0, 2, TestService::kProgram, TestService::kVersion,
                                              TestService::kEcho, 0x5a5a, 4, 77, 0, 0, 0}));
  EXPECT_EQ(finish(std::move(*call),
                   [](Reply& reply) {  // MSG_DENIED, AUTH_ERROR, AUTH_REJECTEDVERF
                     const Bytes rest = reply.results().xdr().rest();
                     EXPECT_EQ(to_words(rest), (std::vector<std::uint32_t>{5, 1, 1, 1, 4}));
                   }),
            std::nullopt);
  EXPECT_EQ(service_.calls, 0U);
}

// No reply goes out, and the server reports why.
TEST_P(Stamped, AuthenticatorEndsTheConnectionAtEachStep) {
  using Flag = std::atomic<bool> StampingServer::*;
  const std::pair<Flag, std::string> steps[] = {
      {&StampingServer::ends_at_accept, "it was seen before"},
      {&StampingServer::ends_at_unwrap, "it cannot be unwrapped"},
      {&StampingServer::ends_at_seal, "it cannot be sealed"}};
  std::vector<std::string> causes;
  ServerOptions server_options;
  server_options.on_connection = [&causes](const ConnectionEvent& event) {
    if (event.kind != ConnectionEvent::Kind::kEnded) return;
    causes.push_back(event.error != nullptr ? event.error->cause : "");
  };
  start(true, {}, server_options);
  for (const auto& [flag, why] : steps) {
    for (const std::size_t size : {std::size_t{100}, std::size_t{100'000}}) {
      const std::uint64_t calls = service_.calls;
      (*server_auth_).*flag = true;
      const Message data = pattern(size, 3);
      Call call = prepare(TestService::kEcho);
      call.arguments().bulk(data);
      const auto error = finish(std::move(call));
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code, Errc::kConnectionLost) << error->message();
      ASSERT_TRUE(run_until([this] { return server_->connections() == 0; }));
      ASSERT_FALSE(causes.empty());
      EXPECT_EQ(causes.back(), why);
      EXPECT_EQ(service_.calls - calls, flag == &StampingServer::ends_at_seal ? 1U : 0U);
      EXPECT_EQ(server_->memory_in_use(), 0U);
      (*server_auth_).*flag = false;
      client_.reset();
      client_.emplace(bed_->connect(*server_, options_));
      ASSERT_TRUE(run_until([this] { return client_->connected(); }));
    }
  }
  expect_echo(100);
}

TEST_P(Stamped, RefusalsOfAcceptedCallsAreSealedAsWell) {
  start(false);
  const auto error = finish(prepare(99));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kNotAvailable) << error->message();
  auto call = client_->prepare_message();
  ASSERT_TRUE(call);
  constexpr std::uint32_t kXid = 5, kStamp = 1000;
  call->arguments().xdr().opaque_fixed(words(
      {kXid, 0, 2, TestService::kProgram, 99, 1, 0x5a5a, 4, kStamp, 0x5a5a, 4, kStamp ^ kXid}));
  EXPECT_EQ(finish(std::move(*call),
                   [](Reply& reply) {  // MSG_ACCEPTED, its verifier, PROG_MISMATCH
                     const Bytes rest = reply.results().xdr().rest();
                     EXPECT_EQ(to_words(rest), (std::vector<std::uint32_t>{kXid, 1, 0, 0x5a5a, 4,
                                                                           ~kStamp, 2, 3, 3}));
                   }),
            std::nullopt);
  EXPECT_EQ(server_auth_->seals, 2);
}

TEST_P(Stamped, ReplyWithAWrongVerifierIsNotShown) {
  start(false);
  server_auth_->lies = true;
  const auto error = finish(prepare(TestService::kWhoAmI));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->cause, "a wrong verifier");
}

TEST_P(Stamped, CallThatCannotBeSealedFailsWithTheReason) {
  start(false);
  client_auth_->fails_to_seal = true;
  const auto error = finish(prepare(TestService::kWhoAmI));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->cause, "no ticket");
  client_auth_->fails_to_seal = false;
  expect_echo(100);
}

// The step may still use what it was shown: the call ends behind it.
TEST_P(StampedLater, TimeLimitWaitsForTheStep) {
  start(false);
  Call call = prepare(TestService::kWhoAmI);
  call.time_out_after(std::chrono::nanoseconds(1));
  std::optional<Error> error;
  ASSERT_TRUE(client_->start(std::move(call), [&](Expected<Reply, Error> reply) {
    ASSERT_FALSE(reply);
    error = reply.error();
  }));
  client_->progress();
  EXPECT_FALSE(error) << "it ended while its step was under way";
  EXPECT_EQ(client_->calls_in_flight(), 1U);
  ASSERT_TRUE(run_until([&] { return error.has_value(); }));
  EXPECT_EQ(error->code, Errc::kTimedOut) << error->message();
}

// Nothing is left that would end it later.
TEST_P(StampedLater, CallWhoseSealEndsBehindItsConnectionFails) {
  start(false);
  std::optional<Error> error;
  ASSERT_TRUE(client_->start(prepare(TestService::kWhoAmI), [&](Expected<Reply, Error> reply) {
    ASSERT_FALSE(reply);
    error = reply.error();
  }));
  ASSERT_EQ(elsewhere_.waiting(), 1U);
  client_->close();
  for (int i = 0; i < 100; ++i) {
    server_->progress();
    client_->progress();
    if (!is_tcp()) (void)dynamic_cast<SimulatedBed&>(*bed_).network.step();
  }
  EXPECT_FALSE(error) << "it ended while its step was under way";
  ASSERT_TRUE(run_until([&] { return error.has_value(); }));
  EXPECT_EQ(error->code, Errc::kCanceled) << error->message();
  EXPECT_EQ(client_->calls_in_flight(), 0U);
  EXPECT_EQ(service_.calls, 0U);
}

TEST_P(StampedLater, LostConnectionWaitsForTheStepsOfEachSide) {
  start(false);
  std::optional<Error> error;
  ASSERT_TRUE(client_->start(prepare(TestService::kWhoAmI), [&](Expected<Reply, Error> reply) {
    ASSERT_FALSE(reply);
    error = reply.error();
  }));
  // The server's accept() is under way.
  ASSERT_TRUE(bed_->run_until([&] { return server_auth_->accepts == 1; },
                              [&] {
                                server_->progress();
                                client_->progress();
                                if (server_auth_->accepts == 0) (void)elsewhere_.run_one();
                              }));
  client_->close();
  ASSERT_TRUE(bed_->run_until([&] { return error.has_value(); },
                              [&] {
                                client_->progress();
                                server_->progress();
                              }));
  EXPECT_EQ(error->code, Errc::kCanceled) << error->message();
  for (int i = 0; i < 100; ++i) {
    server_->progress();
    if (!is_tcp()) (void)dynamic_cast<SimulatedBed&>(*bed_).network.step();
  }
  EXPECT_EQ(server_->connections(), 1U) << "its call's step is under way";
  ASSERT_TRUE(run_until([&] { return server_->connections() == 0; }));
  EXPECT_EQ(server_->memory_in_use(), 0U);
  // Over TCP the peer may have closed its half only, and waits for the reply.
  EXPECT_EQ(service_.calls, is_tcp() ? 1U : 0U);
}

TEST(StampedOverRdma, EachTransmissionIsSealedAnew) {
  for (const bool is_late : {false, true}) {
    Elsewhere elsewhere(is_late);
    SimulatedBed bed;
    TestService service;
    StampingServer server_auth(elsewhere, false);
    const auto make_server = [&](const std::string& address) {
      Server server = bed.network.listen(address).value();
      EXPECT_TRUE(server.add(TestService::kProgram, TestService::kVersion, service));
      EXPECT_TRUE(server.accept_flavor(kStamped, server_auth));
      return server;
    };
    std::optional<Server> server = make_server("storage:2049");
    StampingClient client_auth(elsewhere, false);
    ClientOptions options;
    options.reconnect.enabled = true;
    options.auth = &client_auth;
    Client client = bed.connect(*server, options);
    const auto run = [&](const std::function<bool()>& condition) {
      return bed.run_until(condition, [&] {
        if (server) server->progress();
        client.progress();
        (void)elsewhere.run_one();
      });
    };
    ASSERT_TRUE(run([&] { return client.connected(); }));
    auto call = client.prepare({TestService::kProgram, TestService::kVersion, TestService::kHold});
    ASSERT_TRUE(call);
    bool done = false;
    ASSERT_TRUE(client.start(std::move(*call), [&](Expected<Reply, Error> reply) {
      EXPECT_TRUE(reply) << reply.error().message();
      done = true;
    }));
    ASSERT_TRUE(run([&] { return !service.held.empty(); }));
    service.held.clear();
    server.reset();
    server = make_server("storage:2049");
    ASSERT_TRUE(run([&] { return !service.held.empty(); }));
    service.held[0]->succeed();
    ASSERT_TRUE(run([&] { return done; }));
    EXPECT_EQ(client_auth.seals, 2);
    EXPECT_EQ(server_auth.accepts, 2);
  }
}

// Also the library's own call, which configures a connection of RFC 5666.
TEST(StampedOverRdma, CallsThatNobodyAnswersAreForgotten) {
  Elsewhere elsewhere(false);
  SimulatedBed bed;
  ServerOptions server_options;
  server_options.connection.profile = Profile::kRfc5666;
  Server server = bed.network.listen("storage:2049", server_options).value();
  StampingClient client_auth(elsewhere, true);
  {
    ClientOptions options;
    options.connection.profile = Profile::kRfc5666;
    options.auth = &client_auth;
    Client client = bed.connect(server, options);
    ASSERT_TRUE(bed.run_until([&] { return client_auth.seals > 0; },
                              [&] {
                                client.progress();
                                server.progress();
                              }));
    EXPECT_FALSE(client.connected());
  }
  EXPECT_EQ(client_auth.seals, 1);
}

// The reply cache knows a call by who makes it, and not by the credential of one transmission.
TEST(StampedOverRdma, CallsThatAreMadeAgainAreExecutedOnce) {
  for (const bool is_late : {false, true}) {
    Elsewhere elsewhere(is_late);
    testing::NetworkOptions faults;
    faults.connection_lost_every = 60;
    testing::Network network(11, faults);
    TestService service;
    StampingServer server_auth(elsewhere, false);
    Server server = network.listen("storage").value();
    ASSERT_TRUE(server.add(TestService::kProgram, TestService::kVersion, service));
    ASSERT_TRUE(server.accept_flavor(kStamped, server_auth));
    StampingClient client_auth(elsewhere, false);
    ClientOptions options;
    options.reconnect.enabled = true;
    options.auth = &client_auth;
    Client client = network.connect(server.address(), options).value();
    int ended = 0;
    const auto run = [&](const std::function<bool()>& condition) {
      for (int left = 1'000'000; left > 0 && !condition(); --left) {
        server.progress();
        client.progress();
        if (!elsewhere.run_one()) (void)network.step();
      }
      return condition();
    };
    constexpr std::uint32_t kCalls = 50;
    for (std::uint32_t id = 0; id < kCalls; ++id) {
      ASSERT_TRUE(run([&] { return client.connected(); }));
      auto call =
          client.prepare({TestService::kProgram, TestService::kVersion, TestService::kOnce});
      ASSERT_TRUE(call) << call.error().message();
      call->arguments().xdr().u32(id);
      call->arguments().xdr().u32(10);
      ASSERT_TRUE(client.start(std::move(*call), [&](Expected<Reply, Error> reply) {
        EXPECT_TRUE(reply) << reply.error().message();
        ++ended;
      }));
      ASSERT_TRUE(run([&] { return ended == static_cast<int>(id) + 1; }));
    }
    network.stop_faults();
    for (const auto& [id, times] : service.executed) EXPECT_EQ(times, 1U) << id;
    EXPECT_EQ(service.executed.size(), kCalls);
    EXPECT_GT(server.counters().cached_replies, 0U);
    EXPECT_TRUE(network.violations().empty());
    client.close();
    ASSERT_TRUE(run([&] { return server.connections() == 0; }));
  }
}

// Steps on a thread of their own, and real time.
TEST(StampedByWorkers, ManyCallsAtATime) {
  Elsewhere elsewhere(true);
  elsewhere.start_thread();
  TestService service;
  for (const std::string scheme : {"rdma", "tcp"}) {
    StampingServer server_auth(elsewhere, true);
    ServerOptions server_options;
    server_options.provider.name = "siwarp";
    auto server = Server::listen(scheme + "://127.0.0.1:0", server_options);
    ASSERT_TRUE(server) << server.error().message();
    ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
    ASSERT_TRUE(server->accept_flavor(kStamped, server_auth));
    const std::string url = scheme + "://" + std::string(server->address());
    std::thread serving([&] { server->run(); });
    {
      StampingClient client_auth(elsewhere, true);
      ClientOptions options;
      options.provider.name = "siwarp";
      options.auth = &client_auth;
      auto client = Client::connect(url, options);
      ASSERT_TRUE(client) << client.error().message();
      int done = 0;
      for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 10; ++i) {
          auto call =
              client->prepare({TestService::kProgram, TestService::kVersion, TestService::kWhoAmI});
          ASSERT_TRUE(call);
          ASSERT_TRUE(client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
            EXPECT_TRUE(reply) << reply.error().message();
            ++done;
          }));
        }
        client->drain();
      }
      EXPECT_EQ(done, 200);
      // Goes with steps under way.
      auto last =
          client->prepare({TestService::kProgram, TestService::kVersion, TestService::kWhoAmI});
      ASSERT_TRUE(last);
      ASSERT_TRUE(client->start(std::move(*last), [](Expected<Reply, Error>) {}));
    }
    server->stop();
    serving.join();
  }
}

// A server that goes while a step of its is under way.
TEST_P(StampedLaterInRealTime, ServerThatGoesWaitsForItsSteps) {
  start(false);
  ASSERT_TRUE(client_->start(prepare(TestService::kWhoAmI), [](Expected<Reply, Error>) {}));
  ASSERT_TRUE(bed_->run_until([&] { return server_auth_->accepts == 1; },
                              [&] {
                                server_->progress();
                                client_->progress();
                                if (server_auth_->accepts == 0) (void)elsewhere_.run_one();
                              }));
  ASSERT_EQ(elsewhere_.waiting(), 1U);
  elsewhere_.start_thread();
  server_.reset();
  EXPECT_EQ(elsewhere_.waiting(), 0U);
  EXPECT_EQ(service_.calls, 0U);
  elsewhere_.stop();
}

}  // namespace
}  // namespace rpcrdma::test
