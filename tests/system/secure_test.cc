// Tests what applications ask for with ClientOptions::auth, Server::secure() and
// Server::require(), over both transports. The mechanism is a fake one, whose steps end at once.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpcrdma/function_service.h"
#include "rpcrdma/gss.h"
#include "support/fake_mechanism.h"
#include "support/test_bed.h"

namespace rpcrdma::test {
namespace {

constexpr std::uint32_t kSecuredProgram = 0x20010077, kSecuredVersion = 1, kWho = 1, kGuarded = 2;

class Secure : public ::testing::TestWithParam<bool> {
 protected:
  Secure() : bed_(make_bed(GetParam())) {
    service_.on(kWho, [this](CallContext& context) {
      const Caller caller = context.caller();
      seen_ = {caller.protection, std::string(caller.principal),
               caller.user != nullptr ? std::optional(*caller.user) : std::nullopt};
      return AcceptStatus::kSuccess;
    });
    service_.on(kGuarded, [](CallContext&) { return AcceptStatus::kSuccess; });
  }
  ~Secure() override {
    client_.reset();
    server_.reset();
  }

  void listen(const std::string& user = "alice@FAKE") {
    client_.reset();
    server_.reset();
    mechanism_ = std::make_unique<FakeMechanism>(FakeSettings{.user = user});
    server_.emplace(bed_->listen({}));
    ASSERT_TRUE(server_->add(kSecuredProgram, kSecuredVersion, service_));
    gss::ServerSecurity security;
    security.mechanism = mechanism_.get();
    security.executor = &executor_;
    ASSERT_TRUE(server_->secure(security));
  }
  void connect(std::optional<gss::Service> service) {
    client_.reset();
    ClientOptions options;
    if (service) {
      auto& security = options.auth.emplace<gss::ClientSecurity>();
      security.service = *service;
      security.mechanism = mechanism_.get();
      security.executor = &executor_;
    }
    client_.emplace(bed_->connect(*server_, options));
    ASSERT_TRUE(run_until([this] { return client_->connected(); }));
  }
  bool run_until(const std::function<bool()>& condition) {
    return bed_->run_until(condition, [this] {
      server_->progress();
      client_->progress();
    });
  }
  std::optional<Error> call(std::uint32_t procedure) {
    std::optional<Error> error;
    bool is_done = false;
    auto made = client_->prepare({kSecuredProgram, kSecuredVersion, procedure});
    EXPECT_TRUE(made) << made.error().message();
    EXPECT_TRUE(client_->start(std::move(*made), [&](Expected<Reply, Error> reply) {
      is_done = true;
      if (!reply) error = reply.error();
    }));
    EXPECT_TRUE(run_until([&] { return is_done; }));
    return error;
  }

  struct Seen {
    Protection protection{};
    std::string principal{};
    std::optional<LocalUser> user{};
  };
  std::unique_ptr<Bed> bed_;
  AtOnce executor_;
  std::unique_ptr<FakeMechanism> mechanism_;
  FunctionService service_;
  Seen seen_;
  std::optional<Server> server_;
  std::optional<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(OverEach, Secure, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "tcp" : "rdma"; });

TEST_P(Secure, ServicesSeeWhoCallsAndHowThatIsProved) {
  listen();
  const std::pair<std::optional<gss::Service>, Protection> cases[] = {
      {std::nullopt, Protection::kNone},
      {gss::Service::kNone, Protection::kKrb5},
      {gss::Service::kIntegrity, Protection::kKrb5i},
      {gss::Service::kPrivacy, Protection::kKrb5p}};
  for (const auto& [service, protection] : cases) {
    connect(service);
    EXPECT_EQ(call(kWho), std::nullopt);
    EXPECT_EQ(seen_.protection, protection);
    EXPECT_EQ(seen_.principal, service ? "alice@FAKE" : "");
    EXPECT_FALSE(seen_.user) << "there is no such user here";
  }
}

TEST_P(Secure, PrincipalsAreUsersOfTheMachineWhereTheyAre) {
  listen("root@FAKE");
  connect(gss::Service::kNone);
  EXPECT_EQ(call(kWho), std::nullopt);
  ASSERT_TRUE(seen_.user);
  EXPECT_EQ(seen_.user->name, "root");
  EXPECT_EQ(seen_.user->uid, 0U);
}

TEST_P(Secure, AsksForWhatAProcedureRequires) {
  listen();
  ASSERT_TRUE(server_->require(kSecuredProgram, kSecuredVersion,
                               {Protection::kKrb5, Protection::kKrb5i, Protection::kKrb5p}));
  ASSERT_TRUE(server_->require(kSecuredProgram, kSecuredVersion, {Protection::kKrb5p}, kGuarded));
  EXPECT_FALSE(server_->require(kSecuredProgram, kSecuredVersion, {Protection::kNone}));
  EXPECT_FALSE(server_->require(kSecuredProgram, kSecuredVersion, {Protection::kNone}, kGuarded));
  const auto expect = [this](std::uint32_t procedure, bool is_allowed) {
    const auto error = call(procedure);
    EXPECT_EQ(!error, is_allowed);
    if (!error) return;
    EXPECT_EQ(error->code, Errc::kDenied) << error->message();
    EXPECT_NE(error->cause.find(to_string(AuthStatus::kTooWeak)), std::string::npos);
  };
  connect(std::nullopt);
  expect(kWho, false);
  expect(kGuarded, false);
  expect(0, true);  // NULL is for everybody
  connect(gss::Service::kNone);
  expect(kWho, true);
  expect(kGuarded, false);
  connect(gss::Service::kPrivacy);
  expect(kWho, true);
  expect(kGuarded, true);
}

TEST_P(Secure, OtherProgramsRequireNothing) {
  listen();
  FunctionService other;
  other.on(kWho, [](CallContext&) { return AcceptStatus::kSuccess; });
  ASSERT_TRUE(server_->add(kSecuredProgram + 1, kSecuredVersion, other));
  ASSERT_TRUE(server_->require(kSecuredProgram + 1, kSecuredVersion, {Protection::kKrb5}));
  connect(std::nullopt);
  EXPECT_EQ(call(kWho), std::nullopt);
}

TEST_P(Secure, FlavorIsAcceptedOnce) {
  listen();
  gss::ServerSecurity security;
  security.mechanism = mechanism_.get();
  const auto second = server_->secure(security);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kUnsupported);
}

// The server has no RPCSEC_GSS: a flavor that nobody checks must not pass for a proof.
TEST_P(Secure, ServerWithoutItDoesNotLookLikeOneWithIt) {
  listen();
  Server plain = bed_->listen({});
  ASSERT_TRUE(plain.add(kSecuredProgram, kSecuredVersion, service_));
  std::swap(plain, *server_);
  connect(gss::Service::kNone);
  const auto error = call(kWho);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kDenied) << error->message();
  client_.reset();
}

// Keeps the work until the test runs it.
class Later final : public gss::Executor {
 public:
  void submit(Work work) override { kept.push_back(std::move(work)); }
  std::vector<Work> kept;
};

// The server ends its connections and then waits for the step, which asks for the time meanwhile.
TEST(SecureServer, GoesWhileAStepOfACallIsUnderWayElsewhere) {
  FakeMechanism mechanism(FakeSettings{.lifetime = std::chrono::hours(1)});
  FunctionService service;
  AtOnce of_client;
  Later of_server;
  TcpBed bed;
  auto server = std::make_optional(bed.listen({}));
  ASSERT_TRUE(server->add(kSecuredProgram, kSecuredVersion, service));
  gss::ServerSecurity security;
  security.mechanism = &mechanism;
  security.executor = &of_server;
  ASSERT_TRUE(server->secure(security));
  ClientOptions options;
  auto& wanted = options.auth.emplace<gss::ClientSecurity>();
  wanted.mechanism = &mechanism;
  wanted.executor = &of_client;
  std::optional<Error> error;
  std::thread elsewhere([&, url = "tcp://" + std::string(server->address())] {
    auto client = Client::connect(url, options).value();
    auto reply = client.call(client.prepare({kSecuredProgram, kSecuredVersion, kWho}).value());
    if (!reply) error = reply.error();
    for (gss::Executor::Work& work : of_server.kept) work();
  });
  EXPECT_TRUE(bed.run_until([&] { return !of_server.kept.empty(); }, [&] { server->progress(); }));
  server.reset();
  elsewhere.join();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kConnectionLost) << error->message();
}

}  // namespace
}  // namespace rpcrdma::test
