// RPCSEC_GSS of a server, over both transports: what a client says byte by byte, and what it is
// answered. The mechanism is a fake one.
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gss/server_auth.h"
#include "support/checked_reply.h"
#include "support/fake_mechanism.h"
#include "support/gss_body.h"
#include "support/gss_caller.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "support/test_bed.h"

namespace rpcrdma::test {
namespace {

using std::chrono::seconds;

constexpr std::uint32_t kWindow = 64;

class GssServer : public ::testing::TestWithParam<bool>, protected GssCaller {
 protected:
  GssServer() : GssCaller(kWindow), bed_(make_bed(GetParam())) {}
  ~GssServer() override {
    client_.reset();
    server_.reset();
  }

  void start(const FakeSettings& settings = {}) {
    mechanism_ = std::make_unique<FakeMechanism>(settings);
    auth_ = std::make_unique<gss::ServerGss>(
        *mechanism_, executor_,
        gss::ContextTable::Limits{.contexts_max = 4, .making_max = 2, .window = kWindow},
        counted_handles(77), [this] { return now_; },
        [this](std::string_view why) { reported_.emplace_back(why); });
    ServerOptions options;
    options.on_connection = [this](const ConnectionEvent& event) {
      if (event.error != nullptr) why_ended_ = event.error->cause;
    };
    server_.emplace(bed_->listen(options));
    ASSERT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
    ASSERT_TRUE(server_->accept_flavor(AuthFlavor::kRpcsecGss, *auth_));
    connect();
  }
  void connect() {
    client_.reset();
    client_.emplace(bed_->connect(*server_, {}));
    ASSERT_TRUE(run_until([this] { return client_->connected(); }));
  }
  bool run_until(const std::function<bool()>& condition) {
    return bed_->run_until(condition, [this] {
      server_->progress();
      if (client_) client_->progress();
    });
  }

  // The reply behind its XID; nullopt: the connection ended instead.
  std::optional<Message> exchange(const Message& call) override {
    auto made = client_->prepare_message(static_cast<std::uint32_t>(call.size()));
    EXPECT_TRUE(made) << made.error().message();
    if (!made) return std::nullopt;
    made->arguments().xdr().opaque_fixed(call);
    made->expect_results(static_cast<std::uint32_t>(call.size()) + 4096);
    std::optional<Message> answer;
    bool done = false;
    EXPECT_TRUE(client_->start(std::move(*made), [&](Expected<Reply, Error> reply) {
      done = true;
      if (!reply) return;
      const Bytes rest = read(*reply)->xdr().rest();
      answer = Message(rest.begin() + 4, rest.end());
    }));
    EXPECT_TRUE(run_until([&] { return done; }));
    return answer;
  }

  void make_context() { GssCaller::make_context(*mechanism_); }

  const std::unique_ptr<Bed> bed_;
  AtOnce executor_;
  Instant now_{};
  std::unique_ptr<FakeMechanism> mechanism_;
  std::unique_ptr<gss::ServerGss> auth_;
  TestService service_;
  std::string why_ended_;
  std::vector<std::string> reported_;
  std::optional<Server> server_;
  std::optional<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(OverEach, GssServer, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "tcp" : "rdma"; });

TEST_P(GssServer, AnswersCallsOfEachService) {
  start();
  make_context();
  std::uint32_t sequence = 0;
  for (const gss::Service service :
       {gss::Service::kNone, gss::Service::kIntegrity, gss::Service::kPrivacy}) {
    for (const std::size_t size : {0U, 1U, 3U, 1000U, 100'001U}) {
      expect_echo({.sequence = ++sequence, .service = service, .handle = handle}, pattern(size, 5));
    }
  }
  EXPECT_LE(auth_->bytes_kept(), 64U << 10U) << "long replies keep nothing";
  // DATA of NULL is a call like any other (gss.md G-29).
  const Said null{.sequence = ++sequence,
                  .service = gss::Service::kIntegrity,
                  .handle = handle,
                  .procedure = 0};
  const auto reply = call(null, {});
  ASSERT_TRUE(reply);
  const auto results = unwrap_body(*ours, null.service, sequence, accepted(*reply, sequence, 0));
  ASSERT_TRUE(results);
  EXPECT_TRUE(results->empty());
}

TEST_P(GssServer, TakesAsManyTokensAsTheMechanismWants) {
  start({.exchanges = 3});
  make_context();
  expect_echo({.handle = handle}, pattern(10, 1));
  expect_denied(exchange(join({header(said_init(handle)), words({0, 0}), opaque({})})),
                AuthStatus::kGssCredentialProblem);  // it is complete
}

// A context belongs to no connection.
TEST_P(GssServer, KnowsAContextOnAnotherConnection) {
  start();
  make_context();
  expect_echo({.sequence = 1, .handle = handle}, pattern(10, 1));
  connect();
  expect_echo({.sequence = 2, .handle = handle}, pattern(10, 1));
}

TEST_P(GssServer, DeniesWhatTheTableSays) {
  start();
  make_context();
  const auto denied = [&](Said said, AuthStatus why) {
    SCOPED_TRACE(static_cast<int>(why));
    if (said.handle.empty()) said.handle = handle;
    expect_denied(call(said, opaque({})), why);
  };
  denied({.version = 2}, AuthStatus::kBadCredential);
  denied({.control = 4}, AuthStatus::kBadCredential);
  denied({.service = gss::Service{0}}, AuthStatus::kBadCredential);
  denied({.service = gss::Service{4}}, AuthStatus::kBadCredential);
  denied({.control = 3, .procedure = TestService::kEcho}, AuthStatus::kBadCredential);
  denied({.handle = words({0, 1})}, AuthStatus::kGssCredentialProblem);
  denied({.handle = words({0})}, AuthStatus::kGssCredentialProblem);
  denied({.sequence = 0x80000001}, AuthStatus::kGssContextProblem);
  denied({.verifier = words({0, 0})}, AuthStatus::kBadVerifier);
  denied({.verifier = words({kGss, 0})}, AuthStatus::kBadVerifier);
  denied({.verifier = verifier_of(pattern(10, 9))}, AuthStatus::kGssCredentialProblem);
  EXPECT_EQ(service_.calls, 0U);
  // None of that has moved the window.
  expect_echo({.sequence = 1, .handle = handle}, pattern(3, 1));
  expect_echo({.sequence = 0x80000000, .handle = handle}, pattern(3, 1));
}

TEST_P(GssServer, DeniesControlMessagesThatAreNone) {
  start();
  const Message token = opaque(pattern(30, 1));
  const auto said = [&](const Said& of, const Message& verifier) {
    return exchange(join({header(of), verifier, token}));
  };
  Said init = said_init();
  init.procedure = TestService::kEcho;
  expect_denied(said(init, words({0, 0})), AuthStatus::kBadCredential);
  init = said_init();
  init.handle = words({1, 2});
  expect_denied(said(init, words({0, 0})), AuthStatus::kBadCredential);
  expect_denied(said(said_init(), verifier_of(pattern(10, 1))), AuthStatus::kBadVerifier);
  // AUTH_NONE, whose body is empty (RFC 2203 §5.2.2), with one of four bytes.
  expect_denied(said(said_init(), words({0, 4, 7})), AuthStatus::kBadVerifier);
  expect_denied(said(said_init(words({1, 2})), words({0, 0})), AuthStatus::kGssCredentialProblem);
  EXPECT_EQ(auth_->contexts().size(), 0U);
}

TEST_P(GssServer, TellsWhatTheMechanismSaysOfBadTokens) {
  start();
  auto made = init(said_init(), pattern(30, 1));
  ASSERT_TRUE(made);
  EXPECT_EQ(made->major, gss::Status::kDefectiveToken);
  EXPECT_TRUE(made->handle.empty());
  EXPECT_TRUE(made->token.empty());
  EXPECT_TRUE(made->verifier.empty());
  mechanism_->has_no_key = true;
  made = init(said_init(), pattern(30, 1));
  ASSERT_TRUE(made);
  EXPECT_EQ(made->major, gss::Status::kFailure);
  EXPECT_EQ(auth_->contexts().size(), 0U);
  ASSERT_EQ(reported_.size(), 2U) << "for the server's log";
  EXPECT_EQ(reported_[1], "there is no key");
  // No token at all, as far as XDR goes.
  const auto reply = exchange(join({header(said_init()), words({0, 0}), words({50})}));
  ASSERT_TRUE(reply);
  EXPECT_EQ(to_words(*reply), (std::vector<std::uint32_t>{1, 0, 0, 0, 4}));  // GARBAGE_ARGS
}

TEST_P(GssServer, EndsTheConnectionOfWhoRepeatsANumber) {
  for (const std::uint32_t number : {100U, 36U, 1U}) {
    start();
    make_context();
    expect_echo({.sequence = 100, .handle = handle}, pattern(3, 1));
    const std::uint64_t calls = service_.calls;
    EXPECT_FALSE(call({.sequence = number, .handle = handle}, opaque({}))) << number;
    ASSERT_TRUE(run_until([this] { return server_->connections() == 0; }));
    EXPECT_NE(why_ended_.find("sequence number of RPCSEC_GSS"), std::string::npos) << why_ended_;
    EXPECT_EQ(service_.calls, calls);
    connect();  // the context is as good as before
    expect_echo({.sequence = 37, .handle = handle}, pattern(3, 1));
    client_.reset();
    server_.reset();
  }
}

TEST_P(GssServer, AnswersGarbageArgsToBodiesThatAreNotTheClients) {
  start();
  make_context();
  std::uint32_t sequence = 0;
  for (const gss::Service service : {gss::Service::kIntegrity, gss::Service::kPrivacy}) {
    Said said{.sequence = ++sequence, .service = service, .handle = handle, .body_sequence = 999};
    auto reply = call(said, opaque({}));
    ASSERT_TRUE(reply);
    EXPECT_TRUE(accepted(*reply, sequence, 4).empty()) << "another number is under the checksum";
    // Not wrapped at all, and cut off.
    for (const Message& body : {opaque({}), words({3}), Message{}, opaque(pattern(40, 1))}) {
      said = {.sequence = ++sequence, .service = service, .handle = handle, .is_bare = true};
      reply = call(said, body);
      ASSERT_TRUE(reply);
      EXPECT_TRUE(accepted(*reply, sequence, 4).empty());
    }
  }
  EXPECT_EQ(service_.calls, 0U);
}

TEST_P(GssServer, AnswersErrorsInClearWithAGoodVerifier) {
  start();
  make_context();
  const auto reply = call(
      {.sequence = 1, .service = gss::Service::kPrivacy, .handle = handle, .procedure = 99}, {});
  ASSERT_TRUE(reply);
  EXPECT_TRUE(accepted(*reply, 1, 3).empty());  // PROC_UNAVAIL
}

TEST_P(GssServer, ForgetsAContextThatItsClientDestroys) {
  start();
  make_context();
  // Its body is not looked at (gss.md G-16).
  std::uint32_t sequence = 0;
  for (const Message& body : {Message{}, pattern(8, 1)}) {
    make_context();
    const auto reply = call({.control = 3,
                             .sequence = ++sequence,
                             .service = gss::Service::kPrivacy,
                             .handle = handle,
                             .procedure = 0},
                            body);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(accepted(*reply, sequence, 0).empty());
    expect_denied(call({.sequence = ++sequence, .handle = handle}, opaque({})),
                  AuthStatus::kGssCredentialProblem);
  }
  EXPECT_EQ(auth_->contexts().size(), 1U);
  // A forged one does nothing.
  make_context();
  expect_denied(
      call(
          {.control = 3, .handle = handle, .procedure = 0, .verifier = verifier_of(pattern(10, 9))},
          {}),
      AuthStatus::kGssCredentialProblem);
  expect_echo({.sequence = 1, .handle = handle}, pattern(3, 1));
}

TEST_P(GssServer, ForgetsAContextWhoseTimeIsOver) {
  start({.lifetime = seconds(100)});
  make_context();
  now_ += seconds(99);
  expect_echo({.sequence = 1, .handle = handle}, pattern(3, 1));
  now_ += seconds(1);
  expect_denied(call({.sequence = 2, .handle = handle}, opaque({})),
                AuthStatus::kGssCredentialProblem);
}

TEST_P(GssServer, EndsTheConnectionWhenItCannotSeal) {
  start();
  make_context();
  mechanism_->last_accepted.load()->fails = true;
  EXPECT_FALSE(
      call({.sequence = 1, .service = gss::Service::kIntegrity, .handle = handle}, opaque({})));
  ASSERT_TRUE(run_until([this] { return server_->connections() == 0; }));
  EXPECT_NE(why_ended_.find("cannot seal"), std::string::npos) << why_ended_;
}

// Twice the calls that 16 connections of one context may have under way (gss.md G-34).
TEST(ContextTableLimits, WindowIsEnoughForManyConnections) {
  constexpr gss::ContextTable::Limits kLimits;
  EXPECT_TRUE(std::has_single_bit(kLimits.window));
  EXPECT_GE(kLimits.window, 2 * 16 * ConnectionOptions{}.credits);
}

}  // namespace
}  // namespace rpcrdma::test
