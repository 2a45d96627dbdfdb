// RPCSEC_GSS of a client and a server of ours, over both transports, with steps that end at once
// and steps that go on elsewhere. The mechanism is a fake one; what a server should not do is done
// to its answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gss/client_auth.h"
#include "gss/message.h"
#include "gss/server_auth.h"
#include "support/checked_reply.h"
#include "support/fake_mechanism.h"
#include "support/gss_body.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "support/tampered_auth.h"
#include "support/test_bed.h"

namespace rpcrdma::test {
namespace {

using std::chrono::seconds;

// Without a thread: the test runs what is submitted, or it ends at once.
class TestExecutor final : public gss::Executor {
 public:
  explicit TestExecutor(bool is_late) : is_late_(is_late) {}
  void submit(Work work) override {
    if (!is_late_) return work();
    jobs_.push_back(std::move(work));
  }
  void run_one() {
    if (jobs_.size() <= kept || is_held) return;
    const auto next = jobs_.begin() + static_cast<std::ptrdiff_t>(kept);
    Work job = std::move(*next);
    jobs_.erase(next);
    job();
  }
  std::size_t waiting() const { return jobs_.size(); }

  bool is_held = false;
  std::size_t kept = 0;  // so many of the oldest ones wait

 private:
  const bool is_late_;
  std::deque<Work> jobs_;
};

// Keeps a call, whose arguments may be as long as those of the TestService, until the test answers.
class Holding final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    return TestService().traits(procedure);
  }
  void call(CallContext& context) override { held = &context; }

  CallContext* held = nullptr;
};

// Sends this in place of the results, however these were to be sent.
void replace_results(CallAcceptance& call, const Message& with) {
  call.enclosure.reset();
  call.wrapped = with;
}

// Denies what comes next so many times.
Tampered::Change denies(int& times, AuthStatus why, bool is_control = false) {
  return [&times, why, is_control](CallAcceptance& call) {
    if ((control_of(call) != gss::Control::kData) == is_control && times-- > 0) call.status = why;
  };
}

class GssClient : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  GssClient() : bed_(make_bed(is_tcp())), client_executor_(std::get<1>(GetParam())) {}
  ~GssClient() override {
    client_executor_.is_held = false;
    while (client_executor_.waiting() > 0) client_executor_.run_one();
    client_.reset();
    server_.reset();
  }
  static bool is_tcp() { return std::get<0>(GetParam()); }

  void start(gss::Service service, const FakeSettings& settings = {}, ClientOptions options = {}) {
    client_.reset();
    server_.reset();
    client_auth_.reset();
    mechanism_ = std::make_unique<FakeMechanism>(settings);
    server_gss_ = std::make_unique<gss::ServerGss>(
        *mechanism_, server_executor_,
        gss::ContextTable::Limits{.contexts_max = 8, .making_max = 2, .window = kWindow},
        counted_handles(77), [this] { return server_now_; });
    server_auth_ = std::make_unique<Tampered>(*server_gss_);
    server_.emplace(bed_->listen({}));
    ASSERT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
    ASSERT_TRUE(server_->accept_flavor(AuthFlavor::kRpcsecGss, *server_auth_));
    connect(service, std::move(options));
  }
  void connect(gss::Service service, ClientOptions options = {}, std::uint32_t first_sequence = 1) {
    client_.reset();
    client_auth_ = std::make_unique<gss::ClientGss>(
        *mechanism_, client_executor_,
        gss::ClientGss::Settings{
            .target = "nfs@server", .service = service, .first_sequence = first_sequence},
        [this] { return client_now_; });
    options.auth = client_auth_.get();
    client_.emplace(bed_->connect(*server_, options));
    ASSERT_TRUE(run_until([this] { return client_->connected(); }));
  }
  bool run_until(const std::function<bool()>& condition) {
    return bed_->run_until(condition, [this] {
      server_->progress();
      client_->progress();
      client_executor_.run_one();
    });
  }
  void pass(seconds time) {
    client_now_ += time;
    server_now_ += time;
  }

  struct Outcome {
    std::optional<Error> error;
    bool is_done = false;
  };
  // An echo that is under way; what comes back is compared.
  std::unique_ptr<Outcome> begin_echo(std::size_t size,
                                      std::chrono::nanoseconds timeout = std::chrono::seconds(60)) {
    auto outcome = std::make_unique<Outcome>();
    const Message& data = datas_.emplace_back(pattern(size, 3));
    Message& place = places_.emplace_back(size);
    auto call =
        client_->prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
    EXPECT_TRUE(call) << call.error().message();
    call->arguments().bulk(data);
    call->place_result(place);
    call->time_out_after(timeout);
    const auto started =
        client_->start(std::move(*call), [&, out = outcome.get()](Expected<Reply, Error> reply) {
          EXPECT_FALSE(out->is_done) << "a call ends twice";
          out->is_done = true;
          if (!reply) {
            out->error = reply.error();
            return;
          }
          EXPECT_TRUE(are_equal(read(*reply)->bulk(1U << 20U, "data"), data));
          EXPECT_EQ(reply->finish(), std::nullopt);
        });
    if (!started) *outcome = {started.error(), true};
    return outcome;
  }
  std::optional<Error> echo(std::size_t size = 100) {
    const auto outcome = begin_echo(size);
    EXPECT_TRUE(run_until([&] { return outcome->is_done; })) << "the call never ended";
    return outcome->error;
  }
  void expect_echo(std::size_t size = 100) {
    const auto error = echo(size);
    EXPECT_EQ(error, std::nullopt) << error->message();
  }
  void expect_error(const std::optional<Error>& error, Errc code, std::string_view text) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, code) << error->message();
    EXPECT_NE(error->cause.find(text), std::string::npos) << error->message();
  }

  static constexpr std::uint32_t kWindow = 64;
  std::unique_ptr<Bed> bed_;
  TestExecutor client_executor_, server_executor_{false};
  Instant client_now_{seconds(1000)}, server_now_{seconds(1000)};
  TestService service_;
  Holding holding_;
  std::deque<Message> datas_, places_;
  std::unique_ptr<FakeMechanism> mechanism_;
  std::unique_ptr<gss::ServerGss> server_gss_;
  std::unique_ptr<Tampered> server_auth_;
  std::unique_ptr<gss::ClientGss> client_auth_;
  std::optional<Server> server_;
  std::optional<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(OverEach, GssClient,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param) ? "tcp" : "rdma") +
                                  (std::get<1>(each.param) ? "_later" : "_at_once");
                         });

constexpr gss::Service kServices[] = {gss::Service::kNone, gss::Service::kIntegrity,
                                      gss::Service::kPrivacy};

// --- Contexts ----------------------------------------------------------------------------------

TEST_P(GssClient, OneContextServesAllCalls) {
  for (const gss::Service service : kServices) {
    start(service);
    for (const std::size_t size : {1U, 100U, 5'001U, 300'001U}) expect_echo(size);
    EXPECT_EQ(mechanism_->initiated, 1);
    EXPECT_EQ(server_gss_->contexts().size(), 1U);
    if (is_tcp()) continue;
    const TransferCounters counters = client_->counters();
    // Protected data moves as a whole (RFC 8166 §6.1).
    EXPECT_EQ(counters.write_chunk_bytes > 0, service == gss::Service::kNone);
    EXPECT_EQ(counters.long_calls, service == gss::Service::kNone ? 0U : 1U);
  }
}

TEST_P(GssClient, CallsThatBeginTogetherWaitForOneContext) {
  start(gss::Service::kIntegrity);
  std::vector<std::unique_ptr<Outcome>> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(begin_echo(100));
  for (const auto& call : calls) {
    ASSERT_TRUE(run_until([&] { return call->is_done; }));
    EXPECT_EQ(call->error, std::nullopt);
  }
  EXPECT_EQ(mechanism_->initiated, 1);
  EXPECT_EQ(service_.calls, 20U);
}

TEST_P(GssClient, TokensGoBackAndForthAsOftenAsTheMechanismWants) {
  for (const int exchanges : {1, 2, 5}) {
    start(gss::Service::kPrivacy, {.exchanges = exchanges});
    expect_echo();
  }
}

// Tickets that say much about their user are long.
TEST_P(GssClient, TokensOf60KiBAreTaken) {
  start(gss::Service::kNone, {.user = std::string(60U << 10U, 'a')});
  expect_echo();
}

// They depend on the key of the context alone: these are those of Kerberos with AES and SHA-1, with
// SHA-2, and odd ones.
TEST_P(GssClient, ChecksumsAndTokensMayHaveAnySize) {
  constexpr std::size_t kSizes[][3] = {{28, 32, 28}, {40, 32, 40}, {1, 0, 1}, {13, 40, 31}};
  for (const gss::Service service : kServices) {
    for (const auto& [checksum, header, trailer] : kSizes) {
      start(service, {.checksum_size = checksum, .header_size = header, .trailer_size = trailer});
      for (const std::size_t size : {1U, 100U, 4'000U, 30'001U}) expect_echo(size);
    }
  }
}

TEST_P(GssClient, MoreCallsThanTheWindowHasWaitForTheirTurn) {
  ClientOptions options;
  options.calls_max = 4 * kWindow;
  start(gss::Service::kNone, {}, options);
  std::vector<std::unique_ptr<Outcome>> calls;
  for (std::uint32_t i = 0; i < 3 * kWindow; ++i)
    calls.push_back(begin_echo(i % 7 == 0 ? 9000 : 1));
  for (const auto& call : calls) {
    ASSERT_TRUE(run_until([&] { return call->is_done; }));
    EXPECT_EQ(call->error, std::nullopt) << call->error->message();
  }
}

// A server may judge a long call only when it has read all of it: the number of that call has to be
// in the window then, also where the arguments themselves are not protected.
TEST_P(GssClient, LongCallWithoutAReplyHoldsTheOthersBackAtHalfTheWindowAndAShortOneDoesNot) {
  ClientOptions options;
  options.calls_max = 4 * kWindow;
  for (const gss::Service service : kServices) {
    for (const bool is_long : {true, false}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(service)) + (is_long ? " long" : " short"));
      start(service, {}, options);
      expect_echo();
      ASSERT_TRUE(server_->add(TestService::kProgram, TestService::kVersion + 1, holding_));
      auto slow =
          client_->prepare({TestService::kProgram, TestService::kVersion + 1, TestService::kEcho});
      ASSERT_TRUE(slow);
      const Message& data = datas_.emplace_back(pattern(is_long ? 9000 : 10, 3));
      slow->arguments().bulk(data);
      bool is_done = false;
      ASSERT_TRUE(client_->start(std::move(*slow), [&](Expected<Reply, Error> reply) {
        EXPECT_TRUE(reply) << reply.error().message();
        is_done = true;
      }));
      ASSERT_TRUE(run_until([&] { return holding_.held != nullptr; }));
      std::vector<std::unique_ptr<Outcome>> calls;
      for (std::uint32_t i = 0; i < 3 * kWindow; ++i) calls.push_back(begin_echo(1));
      const auto ended = [&] {
        return std::ranges::count_if(calls, [](const auto& each) { return each->is_done; });
      };
      const std::ptrdiff_t most = is_long ? kWindow / 2 - 1 : 3 * kWindow;
      EXPECT_TRUE(run_until([&] { return ended() >= most; }));
      if (is_long) {
        const auto last = begin_echo(1, std::chrono::milliseconds(50));
        EXPECT_TRUE(run_until([&] { return last->is_done; }));
        expect_error(last->error, Errc::kTimedOut, "");
        EXPECT_EQ(ended(), most);
      }
      std::exchange(holding_.held, nullptr)->succeed();
      EXPECT_TRUE(run_until([&] { return is_done && ended() == 3 * kWindow; }));
      for (const auto& call : calls) EXPECT_EQ(call->error, std::nullopt);
    }
  }
}

// --- Their end ---------------------------------------------------------------------------------

TEST_P(GssClient, ContextIsReplacedBeforeItRunsOut) {
  start(gss::Service::kIntegrity, {.lifetime = seconds(100)});
  expect_echo();
  pass(seconds(89));
  expect_echo();
  EXPECT_EQ(mechanism_->initiated, 1);
  pass(seconds(2));  // a tenth of its time is left
  for (int i = 0; i < 3; ++i) expect_echo();
  EXPECT_EQ(mechanism_->initiated, 2);
  EXPECT_EQ(server_gss_->contexts().size(), 2U);
  pass(seconds(9));  // the first one's time is over
  expect_echo();
  EXPECT_EQ(mechanism_->initiated, 2);
}

// A server refuses a token whose time is far behind its own.
TEST_P(GssClient, TokenThatWasMadeForARenewalLongAgoIsNotUsed) {
  start(gss::Service::kNone, {.lifetime = seconds(100)});
  const auto pass_and_call = [&](int time, int calls = 1) {
    pass(seconds(time));
    for (int i = 0; i < calls; ++i) expect_echo();
    return mechanism_->initiated.load();
  };
  pass_and_call(0);
  EXPECT_EQ(pass_and_call(91), 2) << "its token is made";
  EXPECT_EQ(pass_and_call(1000), 3) << "the context is over, and another one is made";
  EXPECT_EQ(pass_and_call(91, 2), 4) << "it is renewed by the token of an earlier one";
  if (!std::get<1>(GetParam())) return;
  // The thread that makes the token has waited for a KDC while the context was made anew.
  pass_and_call(1000);
  client_executor_.kept = 1;
  pass_and_call(91);
  pass_and_call(1000);
  client_executor_.kept = 0;
  client_executor_.run_one();
  const int before = mechanism_->initiated;
  EXPECT_EQ(pass_and_call(91, 2), before + 1);
}

TEST_P(GssClient, ContextThatRanOutWithoutCallsIsMadeAnew) {
  start(gss::Service::kNone, {.lifetime = seconds(100)});
  expect_echo();
  pass(seconds(1000));
  expect_echo();
  EXPECT_EQ(mechanism_->initiated, 2);
}

// The old one is good for a while.
TEST_P(GssClient, RenewalThatFailsHarmsNoCall) {
  start(gss::Service::kNone, {.lifetime = seconds(1000)});
  expect_echo();
  pass(seconds(941));  // a minute before the end
  mechanism_->has_no_ticket = true;
  for (int i = 0; i < 3; ++i) expect_echo();
  EXPECT_EQ(mechanism_->initiated, 2);
  mechanism_->has_no_ticket = false;
  mechanism_->has_no_key = true;  // the server's; the first token is made before
  pass(seconds(11));
  for (int i = 0; i < 3; ++i) expect_echo();
  EXPECT_EQ(mechanism_->initiated, 3);
  mechanism_->has_no_key = false;
  int times = 1;
  server_auth_->at_accept = denies(times, AuthStatus::kBadCredential, true);
  pass(seconds(11));
  for (int i = 0; i < 3; ++i) expect_echo();
  EXPECT_EQ(mechanism_->initiated, 4);
  EXPECT_EQ(times, 0);
  pass(seconds(11));
  for (int i = 0; i < 3; ++i) expect_echo();
  EXPECT_EQ(mechanism_->initiated, 5);
  pass(seconds(30));  // the first one's time is over
  expect_echo();
  EXPECT_EQ(mechanism_->initiated, 5);
}

TEST_P(GssClient, ContextThatTheServerHasForgottenIsMadeAnew) {
  for (const gss::Service service : kServices) {
    start(service, {.lifetime = seconds(100)});
    expect_echo();
    server_now_ += seconds(1000);
    const std::uint64_t calls = service_.calls;
    expect_echo(9000);
    EXPECT_EQ(mechanism_->initiated, 2);
    EXPECT_EQ(service_.calls, calls + 1) << "a call was executed twice";
  }
}

TEST_P(GssClient, NumbersThatAreUsedUpNeedAnotherContext) {
  start(gss::Service::kNone);
  connect(gss::Service::kNone, {}, gss::kSequenceMax - 2);
  const int before = mechanism_->initiated;
  for (int i = 0; i < 2; ++i) expect_echo();
  EXPECT_EQ(mechanism_->initiated, before + 1);
  for (int i = 0; i < 2; ++i) expect_echo();
  EXPECT_EQ(mechanism_->initiated, before + 2);
}

TEST_P(GssClient, LogOutEndsTheContextOnBothSides) {
  for (const gss::Service service : kServices) {
    start(service);
    expect_echo();
    ASSERT_EQ(server_gss_->contexts().size(), 1U);
    const auto procedure = client_auth_->logout_procedure();
    ASSERT_TRUE(procedure);
    EXPECT_EQ(*procedure, (Procedure{TestService::kProgram, TestService::kVersion, 0}));
    auto call = client_->identity().logout_call();
    ASSERT_TRUE(call);
    bool is_done = false;
    ASSERT_TRUE(client_->start(std::move(*call), [&](Expected<Reply, Error> reply) {
      EXPECT_TRUE(reply) << reply.error().message();
      is_done = true;
    }));
    ASSERT_TRUE(run_until([&] { return is_done; }));
    EXPECT_EQ(server_gss_->contexts().size(), 0U);
    EXPECT_EQ(client_->identity().logout_call().error().code, Errc::kSecurity);
    expect_echo();
    EXPECT_EQ(mechanism_->initiated, 2);
  }
}

// --- What goes wrong while one is made ---------------------------------------------------------

TEST_P(GssClient, WithoutATicketAllThatWaitFailAndLaterOnesTryAgain) {
  start(gss::Service::kNone);
  mechanism_->has_no_ticket = true;
  client_executor_.is_held = true;
  std::vector<std::unique_ptr<Outcome>> calls;
  for (int i = 0; i < 5; ++i) calls.push_back(begin_echo(10));
  client_executor_.is_held = false;
  for (const auto& call : calls) {
    ASSERT_TRUE(run_until([&] { return call->is_done; }));
    expect_error(call->error, Errc::kSecurity, "there is no ticket");
  }
  EXPECT_EQ(calls[0]->error->operation, "making a security context for nfs@server");
  if (std::get<1>(GetParam())) {
    EXPECT_EQ(mechanism_->initiated, 1) << "they have not waited";
  }
  mechanism_->has_no_ticket = false;
  expect_echo();
  EXPECT_EQ(service_.calls, 1U);
}

TEST_P(GssClient, ServerWithoutAKeyIsReported) {
  start(gss::Service::kNone);
  mechanism_->has_no_key = true;
  expect_error(echo(), Errc::kSecurity, "keytab");
  mechanism_->has_no_key = false;
  expect_echo();
}

TEST_P(GssClient, ServerThatDeniesContextsIsReported) {
  start(gss::Service::kNone);
  int times = 1;
  server_auth_->at_accept = denies(times, AuthStatus::kBadCredential, true);
  expect_error(echo(), Errc::kDenied, to_string(AuthStatus::kBadCredential));
  expect_echo();
}

// A connection was lost while a context was made, and the server does not go on with it over the
// next one: seed 3 444 369 of the simulation.
TEST_P(GssClient, CallsThatWaitForAContextThatWasLostGetTheNextOne) {
  for (const int losses : {1, 2, 3}) {
    start(gss::Service::kIntegrity, {.exchanges = 2});
    int times = losses;
    server_auth_->at_accept = [&](CallAcceptance& call) {
      if (control_of(call) != gss::Control::kContinueInit || times-- <= 0) return;
      call.status = AuthStatus::kGssCredentialProblem;
    };
    std::vector<std::unique_ptr<Outcome>> calls;
    for (int i = 0; i < 4; ++i) calls.push_back(begin_echo(100));
    std::size_t failed = 0;
    for (const auto& call : calls) {
      ASSERT_TRUE(run_until([&] { return call->is_done; }));
      if (call->error) ++failed;
    }
    // The call that makes contexts does so three times; another one goes on.
    EXPECT_EQ(failed, losses < 3 ? 0U : 1U) << losses;
    EXPECT_EQ(service_.calls, calls.size() - failed);
    EXPECT_EQ(mechanism_->initiated, losses + 1);
    service_.calls = 0;
  }
}

// Somebody who has no key answers in the server's place.
TEST_P(GssClient, ServerThatCannotProveItselfIsRefused) {
  start(gss::Service::kNone);
  const Message wrong(FakeContext::kChecksumSize);
  const Credential lies[] = {{}, {AuthFlavor::kRpcsecGss, wrong}, {AuthFlavor::kSys, wrong}};
  for (const Credential& lie : lies) {
    server_auth_->at_seal = [&](CallAcceptance& call) { call.reply_verifier = lie; };
    expect_error(echo(), Errc::kSecurity, "does not prove who it is");
  }
  EXPECT_EQ(service_.calls, 0U);
  server_auth_->at_seal = {};
  expect_echo();
}

TEST_P(GssClient, AnswersThatAreNoneAreReported) {
  start(gss::Service::kNone);
  Message answer;
  server_auth_->at_seal = [&](CallAcceptance& call) {
    answer.assign(call.wrapped->begin(), call.wrapped->end() - 4);
    call.wrapped = answer;
  };
  expect_error(echo(), Errc::kSecurity, "none of RPCSEC_GSS");
  server_auth_->at_seal = [&](CallAcceptance& call) {
    answer = words({0, 0, 0, 64, 0});  // COMPLETE without a handle
    call.wrapped = answer;
  };
  expect_error(echo(), Errc::kSecurity, "no handle");
  server_auth_->at_seal = {};
  expect_echo();
}

// Nothing of it is masked (gss.md G-15): a bit beside the error, or beside COMPLETE, counts.
TEST_P(GssClient, ReportsTheStatusOfTheServerAsItIs) {
  start(gss::Service::kNone);
  const std::pair<std::uint32_t, std::string_view> told[] = {
      {0x10000, "GSS status 0x10000,"},
      {0x120002, "GSS status 0x120002,"},
      {0x2, "GSS status 0x2,"},
      {0x80000000, "GSS status 0x80000000,"}};
  for (const auto& [major, text] : told) {
    Message answer;
    server_auth_->at_seal = [&, said = major](CallAcceptance& call) {
      answer = words({8, 1, 2, said, 7, kWindow, 0});
      call.wrapped = answer;
    };
    expect_error(echo(), Errc::kSecurity, text);
  }
  EXPECT_EQ(service_.calls, 0U);
  server_auth_->at_seal = {};
  expect_echo();
}

// --- Denials, which anybody can forge ----------------------------------------------------------

TEST_P(GssClient, DenialsOfTheContextRenewItTwiceAndNoMore) {
  for (const AuthStatus why : {AuthStatus::kGssCredentialProblem, AuthStatus::kGssContextProblem,
                               AuthStatus::kRejectedCredential, AuthStatus::kRejectedVerifier}) {
    for (int denials = 0; denials < 4; ++denials) {
      start(gss::Service::kIntegrity);
      expect_echo();
      int times = denials;
      server_auth_->at_accept = denies(times, why);
      const auto error = echo(5000);
      EXPECT_EQ(mechanism_->initiated, 1 + std::min(denials, 2));
      if (denials <= 2) {
        EXPECT_EQ(error, std::nullopt) << error->message();
        continue;
      }
      expect_error(error, Errc::kDenied, "also with security contexts that were made anew");
      EXPECT_EQ(times, 0) << "the call was sent more than three times";
    }
  }
}

TEST_P(GssClient, ReportsOtherDenialsTheSecondTime) {
  for (const AuthStatus why : {AuthStatus::kBadCredential, AuthStatus::kBadVerifier}) {
    start(gss::Service::kNone);
    expect_echo();
    int times = 1;
    server_auth_->at_accept = denies(times, why);
    expect_echo();
    times = 2;
    expect_error(echo(), Errc::kDenied, to_string(why));
    EXPECT_EQ(times, 0);
    EXPECT_EQ(mechanism_->initiated, 1);
  }
}

TEST_P(GssClient, ServerThatWantsMoreProtectionIsBelievedAtOnce) {
  start(gss::Service::kNone);
  expect_echo();
  int times = 1;
  server_auth_->at_accept = denies(times, AuthStatus::kTooWeak);
  expect_error(echo(), Errc::kDenied, "more protection");
  expect_echo();
}

// --- Replies -----------------------------------------------------------------------------------

TEST_P(GssClient, ReplyWithAnotherVerifierIsNotShown) {
  for (const gss::Service service : kServices) {
    start(service);
    expect_echo();
    const Message wrong(FakeContext::kChecksumSize);
    server_auth_->at_seal = [&](CallAcceptance& call) {
      call.reply_verifier = {AuthFlavor::kRpcsecGss, wrong};
    };
    expect_error(echo(), Errc::kSecurity, "its verifier is not that of the server");
    server_auth_->at_seal = {};
    expect_echo();
  }
}

TEST_P(GssClient, ResultsThatWereChangedAreNotShown) {
  for (const gss::Service service : {gss::Service::kIntegrity, gss::Service::kPrivacy}) {
    for (const std::size_t size : {100U, 50'001U}) {
      start(service);
      expect_echo();
      Message changed;
      for (const std::size_t part : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
        server_auth_->at_seal = [&](CallAcceptance& call) {
          changed = join_body(call.results, call.wrapped, call.enclosure);
          changed[part * (changed.size() - 4) / 2] ^= std::byte{1};
          replace_results(call, changed);
        };
        expect_error(echo(size), Errc::kSecurity, "changed on their way");
      }
      server_auth_->at_seal = {};
      expect_echo(size);
    }
  }
}

// As Linux 6.1 has it: SUCCESS, a word of zero, and the error.
TEST_P(GssClient, ErrorInPlaceOfResultsIsOne) {
  const std::pair<std::uint32_t, Errc> errors[] = {
      {1, Errc::kNotAvailable}, {4, Errc::kBadArguments}, {5, Errc::kServerFault}};
  for (const gss::Service service : {gss::Service::kIntegrity, gss::Service::kPrivacy}) {
    start(service);
    expect_echo();
    Message said;
    for (const auto& [status, code] : errors) {
      server_auth_->at_seal = [&, number = status](CallAcceptance& call) {
        said = words({0, number});
        replace_results(call, said);
      };
      expect_error(echo(), code, "in place of protected results");
    }
    server_auth_->at_seal = [&](CallAcceptance& call) {
      said = words({0, 0});
      replace_results(call, said);
    };
    expect_error(echo(), Errc::kSecurity, "changed on their way");
    server_auth_->at_seal = {};
    expect_echo();
  }
}

TEST_P(GssClient, ErrorsOfAcceptedCallsAreCheckedAsWell) {
  start(gss::Service::kIntegrity);
  expect_echo();
  auto call = client_->prepare({TestService::kProgram, TestService::kVersion, 99});
  ASSERT_TRUE(call);
  std::optional<Error> error;
  const auto keep = [&](Expected<Reply, Error> reply) {
    ASSERT_FALSE(reply);
    error = reply.error();
  };
  ASSERT_TRUE(client_->start(std::move(*call), keep));
  ASSERT_TRUE(run_until([&] { return error.has_value(); }));
  EXPECT_EQ(error->code, Errc::kNotAvailable) << error->message();

  server_auth_->at_seal = [](CallAcceptance& each) { each.reply_verifier = {}; };
  auto second = client_->prepare({TestService::kProgram, TestService::kVersion, 99});
  ASSERT_TRUE(second);
  error.reset();
  ASSERT_TRUE(client_->start(std::move(*second), keep));
  ASSERT_TRUE(run_until([&] { return error.has_value(); }));
  EXPECT_EQ(error->code, Errc::kSecurity) << error->message();
}

// Arguments that a server cannot unwrap may have been changed on their way: it has not executed
// that.
TEST_P(GssClient, ArgumentsThatDidNotArriveAreSentOnceMore) {
  start(gss::Service::kPrivacy);
  expect_echo();
  int times = 1;
  server_auth_->at_unwrap = [&](CallAcceptance& call) {
    if (control_of(call) == gss::Control::kData && times-- > 0) call.arguments.reset();
  };
  expect_echo(7000);
  times = 2;
  const auto error = echo(7000);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kBadArguments) << error->message();
  EXPECT_EQ(times, 0);
  EXPECT_EQ(mechanism_->initiated, 1);
}

// --- Connections that are lost -----------------------------------------------------------------

TEST_P(GssClient, ContextsOutliveTheirConnection) {
  start(gss::Service::kIntegrity);
  expect_echo();
  server_auth_->at_accept = [](CallAcceptance& call) { call.ends_connection = "for a test"; };
  EXPECT_EQ(echo()->code, Errc::kConnectionLost);
  server_auth_->at_accept = {};
}

class GssClientOverRdma : public GssClient {};
INSTANTIATE_TEST_SUITE_P(OverEach, GssClientOverRdma,
                         ::testing::Combine(::testing::Values(false), ::testing::Bool()),
                         [](const auto& each) {
                           return std::get<1>(each.param) ? "later" : "at_once";
                         });

// Same XID, same context, another number; also where the connection goes while one is made.
TEST_P(GssClientOverRdma, CallsThatAreMadeAgainHaveAnotherNumber) {
  ClientOptions options;
  options.reconnect.enabled = true;
  for (const gss::Service service : kServices) {
    start(service, {.exchanges = 2}, options);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> seen;  // XID and number
    int losses = 0;
    server_auth_->at_accept = [&](CallAcceptance& call) {
      const auto body = gss::decode_credential(call.credential.body);
      if (body->control == 0) seen.emplace_back(call.xid, body->sequence);
      if (losses > 0) {
        --losses;
        call.ends_connection = "for a test";
      }
    };
    losses = 1;  // of the first INIT
    expect_echo();
    ASSERT_EQ(seen.size(), 1U);
    losses = 2;
    expect_echo(20'000);
    ASSERT_EQ(seen.size(), 4U);
    EXPECT_EQ(seen[1].first, seen[2].first);
    EXPECT_EQ(seen[1].first, seen[3].first);
    EXPECT_LT(seen[1].second, seen[2].second);
    EXPECT_LT(seen[2].second, seen[3].second);
    EXPECT_EQ(mechanism_->initiated, 2);
  }
}

// The server does nothing while the client blocks, and time goes on where nothing else happens.
TEST_P(GssClientOverRdma, LogOutWaitsAsLongAsACallForAServerThatIsSilentButNotBeyondFiveSeconds) {
  using std::chrono::milliseconds;
  for (const auto& [timeout, most] : {std::pair<milliseconds, milliseconds>(200, 200),
                                      std::pair<milliseconds, milliseconds>(60'000, 5000)}) {
    ClientOptions options;
    options.call_timeout = timeout;
    start(gss::Service::kNone, {}, options);
    expect_echo();
    const auto& network = static_cast<SimulatedBed&>(*bed_).network;
    const auto begin = network.now();
    client_->identity().log_out();
    EXPECT_GE(network.now() - begin, most);
    EXPECT_LT(network.now() - begin, most + milliseconds(100));
  }
}

// The reply cache knows a call by who calls and by its arguments, whatever the number, and keeps
// results as they were before they were wrapped.
TEST_P(GssClientOverRdma, CallThatIsRepeatedIsExecutedOnce) {
  ClientOptions options;
  options.reconnect.enabled = true;
  for (const gss::Service service : kServices) {
    start(service, {}, options);
    expect_echo();
    int losses = 2;
    server_auth_->at_seal = [&](CallAcceptance& call) {
      if (losses-- > 0) call.ends_connection = "for a test";
    };
    auto call =
        client_->prepare({TestService::kProgram, TestService::kVersion, TestService::kOnce});
    ASSERT_TRUE(call);
    call->arguments().xdr().u32(7);
    call->arguments().xdr().u32(3000);
    call->expect_results(4000);
    std::uint32_t executed = 0;
    bool is_done = false;
    ASSERT_TRUE(client_->start(std::move(*call), [&](Expected<Reply, Error> reply) {
      is_done = true;
      ASSERT_TRUE(reply) << reply.error().message();
      executed = read(*reply)->xdr().u32("times");
    }));
    ASSERT_TRUE(run_until([&] { return is_done; }));
    EXPECT_LT(losses, 1);
    EXPECT_EQ(executed, 1U);
    EXPECT_EQ(service_.executed[7], 1U);
    service_.executed.clear();
  }
}

// The others do not wait for a context that nobody makes.
TEST_P(GssClientOverRdma, AnotherCallGoesOnWhenTheOneThatMakesTheContextTimesOut) {
  ClientOptions options;  // a call that times out in silence takes its connection with it
  options.reconnect.enabled = true;
  start(gss::Service::kNone, {}, options);
  auto first = client_->prepare({TestService::kProgram, TestService::kVersion, 0});
  ASSERT_TRUE(first);
  first->time_out_after(std::chrono::milliseconds(1));
  std::optional<Error> error;
  ASSERT_TRUE(client_->start(std::move(*first), [&](Expected<Reply, Error> reply) {
    ASSERT_FALSE(reply);
    error = reply.error();
  }));
  const auto second = begin_echo(100);
  // Nobody serves meanwhile.
  ASSERT_TRUE(bed_->run_until([&] { return error.has_value(); },
                              [&] {
                                client_->progress();
                                client_executor_.run_one();
                              }));
  EXPECT_EQ(error->code, Errc::kTimedOut) << error->message();
  ASSERT_TRUE(run_until([&] { return second->is_done; }));
  EXPECT_EQ(second->error, std::nullopt) << second->error->message();
}

// A server that is silent while a context is made takes the others only their own time.
TEST_P(GssClient, CallThatWaitsForAContextEndsInItsTime) {
  start(gss::Service::kNone);
  const auto first = begin_echo(10);
  const auto second = begin_echo(10, std::chrono::milliseconds(20));
  ASSERT_TRUE(bed_->run_until([&] { return second->is_done; },
                              [&] {
                                client_->progress();
                                client_executor_.run_one();
                              }));
  ASSERT_TRUE(second->error);
  EXPECT_EQ(second->error->code, Errc::kTimedOut) << second->error->message();
  EXPECT_FALSE(first->is_done);
  ASSERT_TRUE(run_until([&] { return first->is_done; }));
  EXPECT_EQ(first->error, std::nullopt) << first->error->message();
}

TEST_P(GssClient, ClosedClientEndsAllThatWait) {
  start(gss::Service::kNone);
  client_executor_.is_held = true;
  std::vector<std::unique_ptr<Outcome>> calls;
  for (int i = 0; i < 5; ++i) calls.push_back(begin_echo(10));
  client_->close();
  client_executor_.is_held = false;
  for (const auto& call : calls) {
    ASSERT_TRUE(run_until([&] { return call->is_done; }));
    ASSERT_TRUE(call->error);
    EXPECT_EQ(call->error->code, Errc::kCanceled) << call->error->message();
  }
}

// With Profile::kRfc5666 each connection begins with a call of the library's, which is sealed too.
TEST_P(GssClientOverRdma, CallThatConfiguresTheConnectionIsNoneOfTheProgram) {
  ClientOptions options;
  options.connection.profile = Profile::kRfc5666;
  start(gss::Service::kNone);
  client_.reset();
  server_.reset();
  ServerOptions of_server;
  of_server.connection.profile = Profile::kRfc5666;
  server_.emplace(bed_->listen(of_server));
  ASSERT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
  ASSERT_TRUE(server_->accept_flavor(AuthFlavor::kRpcsecGss, *server_auth_));
  client_auth_ = std::make_unique<gss::ClientGss>(*mechanism_, client_executor_,
                                                  gss::ClientGss::Settings{.target = "nfs@server"},
                                                  [this] { return client_now_; });
  options.auth = client_auth_.get();
  client_.emplace(bed_->connect(*server_, options));
  ASSERT_TRUE(run_until([this] {
    EXPECT_EQ(client_->calls_in_flight(), 0U);
    return client_->connected();
  }));
  expect_echo();
}

// --- Faults by seed ----------------------------------------------------------------------------

// A server and a client on a network that loses connections; the server's clock is ahead at times,
// and denials are forged.
class FaultyWorld {
 public:
  explicit FaultyWorld(std::uint64_t seed)
      : random_(static_cast<std::uint32_t>(seed)),
        network_(seed, {.connection_lost_every = 60 + 40 * (seed % 4)}),
        client_executor_(seed % 2 == 0),
        server_executor_(seed % 3 == 0),
        mechanism_({.exchanges = 1 + static_cast<int>(below(2)), .lifetime = seconds(1)}),
        server_gss_(mechanism_, server_executor_,
                    {.contexts_max = 4, .making_max = 2, .window = 64}, counted_handles(seed),
                    [this] { return network_.now() + late_; }),
        server_auth_(server_gss_),
        auth_(mechanism_, client_executor_,
              {.target = "nfs@server", .service = kServices[seed % 3]},
              [this] { return network_.now(); }),
        server_(network_.listen("server").value()) {
    server_auth_.at_accept = [this](CallAcceptance& call) { forge(call); };
    EXPECT_TRUE(server_.add(TestService::kProgram, TestService::kVersion, service_));
    EXPECT_TRUE(server_.accept_flavor(AuthFlavor::kRpcsecGss, server_auth_));
    ClientOptions options;
    options.auth = &auth_;
    options.reconnect.enabled = true;
    options.reconnect.losses_max = 1000;
    options.call_timeout = seconds(600);
    client_.emplace(network_.connect(server_.address(), options).value());
  }
  ~FaultyWorld() {
    while (server_executor_.waiting() > 0) server_executor_.run_one();
  }

  bool run(const std::function<bool()>& condition) {
    for (int left = 1'000'000; left > 0 && !condition(); --left) {
      server_.progress();
      client_->progress();
      client_executor_.run_one();
      server_executor_.run_one();
      if (!network_.step() && client_executor_.waiting() + server_executor_.waiting() == 0) break;
    }
    return condition();
  }
  // One call after the other, several of them under way.
  void make_calls(int count) {
    ASSERT_TRUE(run([this] { return client_->connected(); }));
    for (int i = 0; i < count; ++i) {
      if (below(8) == 0) late_ = std::chrono::milliseconds(below(3000));
      begin_echo(1 + below(30'000));
      const int under_way = static_cast<int>(below(12));
      ASSERT_TRUE(run([&] { return ended_ >= i - under_way; }));
    }
    network_.stop_faults();
    late_ = {};
    ASSERT_TRUE(run([&] { return ended_ == count; }));
    EXPECT_EQ(network_.violations(), std::vector<std::string>{});
  }
  int denied() const { return denied_; }

 private:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  // Each call once at most.
  void forge(CallAcceptance& call) {
    if (server_executor_.waiting() > 0 || below(40) != 0) return;
    if (std::exchange(forged_, call.xid) == call.xid) return;
    if (control_of(call) == gss::Control::kData && call.ends_connection.empty()) {
      call.status = AuthStatus::kGssCredentialProblem;
    }
  }
  void begin_echo(std::size_t size) {
    const Message& data = datas_.emplace_back(pattern(size, 7));
    auto call =
        client_->prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
    ASSERT_TRUE(call) << call.error().message();
    call->arguments().bulk(data);
    call->expect_results(40'000);
    ASSERT_TRUE(client_->start(std::move(*call), [this, &data](Expected<Reply, Error> reply) {
      ++ended_;
      if (reply) {
        EXPECT_TRUE(are_equal(read(*reply)->bulk(1U << 20U, "data"), data));
        return;
      }
      EXPECT_EQ(reply.error().code, Errc::kDenied) << reply.error().message();
      ++denied_;
    }));
  }

  std::minstd_rand random_;
  testing::Network network_;
  TestExecutor client_executor_, server_executor_;
  FakeMechanism mechanism_;
  std::chrono::nanoseconds late_{0};
  gss::ServerGss server_gss_;
  Tampered server_auth_;
  gss::ClientGss auth_;
  TestService service_;
  Server server_;
  std::deque<Message> datas_;
  std::optional<Client> client_;
  std::uint32_t forged_ = 0;  // XID
  int ended_ = 0, denied_ = 0;
};

// Connections that are lost, contexts that run out on either side, denials, and calls of all sizes:
// each call ends once and well, with the right data, but for the few that were denied three times.
TEST(GssUnderFaults, CallsEndWellWhateverHappensToConnectionsAndContexts) {
  int denied = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    FaultyWorld world(seed);
    world.make_calls(40);
    denied += world.denied();
  }
  EXPECT_LE(denied, 2) << "of 2,400 calls";
}

}  // namespace
}  // namespace rpcrdma::test
