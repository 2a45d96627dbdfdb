// RPCSEC_GSS of a server, over both transports: what a client says byte by byte, and what it is
// answered. The mechanism is a fake one.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gss/message.h"
#include "gss/server_auth.h"
#include "support/fake_mechanism.h"
#include "support/gss_body.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "support/test_bed.h"

namespace rpcrdma::test {
namespace {

using gss::Control;
using gss::Service;
using std::chrono::seconds;

constexpr std::uint32_t kGss = 6, kWindow = 64;
constexpr std::uint32_t kDenied = 1, kAuthError = 1;  // reply_stat, reject_stat

class AtOnce final : public gss::Executor {
 public:
  void submit(Work work) override { work(); }
};

Message opaque(Bytes data) {
  Message made = words({static_cast<std::uint32_t>(data.size())});
  made.insert(made.end(), data.begin(), data.end());
  made.resize(4 + xdr::padded(data.size()));
  return made;
}

// What stands in a Call; by default as it should be.
struct Said {
  std::uint32_t version = 1;
  std::uint32_t control = 0;
  std::uint32_t sequence = 1;
  Service service = Service::kNone;
  Message handle{};
  std::uint32_t procedure = TestService::kEcho;
  std::optional<std::uint32_t> body_sequence{};  // another one than that of the header
  std::optional<Message> verifier{};             // opaque_auth, instead of the checksum
};

class GssServer : public ::testing::TestWithParam<bool> {
 protected:
  GssServer() : bed_(make_bed(GetParam())) {}
  ~GssServer() override {
    client_.reset();
    server_.reset();
  }

  void start(const FakeSettings& settings = {}) {
    mechanism_ = std::make_unique<FakeMechanism>(settings);
    auth_ = std::make_unique<gss::ServerGss>(
        *mechanism_, executor_,
        gss::ContextTable::Limits{.contexts_max = 4, .making_max = 2, .window = kWindow}, 77,
        [this] { return now_; });
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
  std::optional<Message> exchange(const Message& call) {
    auto made = client_->prepare_message(static_cast<std::uint32_t>(call.size()));
    EXPECT_TRUE(made) << made.error().message();
    made->arguments().xdr().opaque_fixed(call);
    made->expect_results(static_cast<std::uint32_t>(call.size()) + 4096);
    std::optional<Message> answer;
    bool done = false;
    EXPECT_TRUE(client_->start(std::move(*made), [&](Expected<Reply, Error> reply) {
      done = true;
      if (!reply) return;
      const Bytes rest = reply->results().xdr().rest();
      answer = Message(rest.begin() + 4, rest.end());
    }));
    EXPECT_TRUE(run_until([&] { return done; }));
    return answer;
  }

  // As far as the credential, which is what a checksum covers.
  Message header(const Said& said) {
    Message credential(xdr::padded(20 + said.handle.size()));
    (void)gss::encode_credential({.version = said.version,
                                  .control = said.control,
                                  .sequence = said.sequence,
                                  .service = static_cast<std::uint32_t>(said.service),
                                  .handle = said.handle},
                                 credential);
    return join(
        {words({++xid_, 0, 2, TestService::kProgram, TestService::kVersion, said.procedure, kGss}),
         opaque(credential)});
  }
  std::optional<Message> call(const Said& said, const Message& arguments) {
    const Message head = header(said);
    const Bytes view(head);
    Message checksum;
    EXPECT_FALSE(ours_->checksum({&view, 1}, checksum).is_error());
    Message body = arguments;
    if (said.service != Service::kNone) {
      const Bytes piece(arguments);
      body =
          wrap_body(*ours_, said.service, said.body_sequence.value_or(said.sequence), {&piece, 1});
    }
    return exchange(
        join({head, said.verifier.value_or(join({words({kGss}), opaque(checksum)})), body}));
  }
  // The results of an echo that was answered as it should be, whose verifier is that of the number.
  void expect_echo(const Said& said, const Message& data) {
    const auto reply = call(said, opaque(data));
    ASSERT_TRUE(reply);
    const Bytes rest = accepted(*reply, said.sequence, 0);
    if (said.service == Service::kNone) {
      EXPECT_TRUE(std::ranges::equal(rest, opaque(data)));
      return;
    }
    const auto results = unwrap_body(*ours_, said.service, said.sequence, rest);
    ASSERT_TRUE(results);
    EXPECT_TRUE(std::ranges::equal(*results, opaque(data)));
  }
  // What is behind accept_stat, of a reply whose verifier is the checksum of the number.
  Bytes accepted(const Message& reply, std::uint32_t number, std::uint32_t status) {
    xdr::Reader reader(reply);
    EXPECT_EQ(reader.u32("REPLY"), 1U);
    EXPECT_EQ(reader.u32("MSG_ACCEPTED"), 0U);
    EXPECT_EQ(reader.u32("flavor"), kGss);
    const Bytes checksum = reader.opaque(400, "verifier");
    EXPECT_EQ(reader.u32("accept_stat"), status);
    const Message covered = words({number});
    const Bytes view(covered);
    EXPECT_TRUE(ours_->is_checksum_of({&view, 1}, checksum));
    return reader.rest();
  }
  void expect_denied(const std::optional<Message>& reply, AuthStatus why) {
    ASSERT_TRUE(reply);
    EXPECT_EQ(to_words(*reply), (std::vector<std::uint32_t>{1, kDenied, kAuthError,
                                                            static_cast<std::uint32_t>(why)}));
  }

  // One exchange of tokens; what the server says, the handle and the token copied.
  struct Made {
    std::uint32_t major = 0, window = 0;
    Message handle, token, verifier;
  };
  std::optional<Made> init(const Said& said, const Message& token,
                           const Message& verifier = words({0, 0})) {
    const auto reply = exchange(join({header(said), verifier, opaque(token)}));
    if (!reply) return std::nullopt;
    xdr::Reader reader(*reply);
    EXPECT_EQ(reader.u32("REPLY"), 1U);
    EXPECT_EQ(reader.u32("MSG_ACCEPTED"), 0U);
    Made made;
    const std::uint32_t flavor = reader.u32("flavor");
    const Bytes sum = reader.opaque(400, "verifier");
    EXPECT_EQ(flavor, sum.empty() ? 0U : kGss);
    EXPECT_EQ(reader.u32("SUCCESS"), 0U);
    const auto results = gss::decode_init_results(reader.rest());
    EXPECT_TRUE(results);
    if (!results) return std::nullopt;
    made.major = results->major;
    made.window = results->window;
    made.handle.assign(results->handle.begin(), results->handle.end());
    made.token.assign(results->token.begin(), results->token.end());
    made.verifier.assign(sum.begin(), sum.end());
    return made;
  }
  static Said said_init(Message handle = {}) {
    const auto control = handle.empty() ? Control::kInit : Control::kContinueInit;
    return {.control = static_cast<std::uint32_t>(control),
            .sequence = 0,
            .service = Service::kNone,
            .handle = std::move(handle),
            .procedure = 0};
  }
  // Makes a context; handle_ and ours_ are its.
  void make_context() {
    auto initiating = mechanism_->initiate("test@server");
    ours_ = std::move(*initiating);
    Message token;
    Message handle;
    gss::Status status = ours_->step({}, token);
    for (int i = 0; status.major == gss::Status::kContinueNeeded; ++i) {
      ASSERT_LT(i, 5);
      const auto made = init(said_init(handle), token);
      ASSERT_TRUE(made);
      ASSERT_LE(made->major, gss::Status::kContinueNeeded);
      handle = made->handle;
      EXPECT_EQ(made->window, kWindow);
      status = ours_->step(made->token, token);
      EXPECT_EQ(made->verifier.empty(), made->major == gss::Status::kContinueNeeded);
      if (made->verifier.empty()) continue;
      const Message window = words({kWindow});
      const Bytes view(window);
      EXPECT_TRUE(ours_->is_checksum_of({&view, 1}, made->verifier));
    }
    ASSERT_EQ(status.major, gss::Status::kComplete) << status.text;
    handle_ = handle;
  }

  const std::unique_ptr<Bed> bed_;
  AtOnce executor_;
  Instant now_{};
  std::unique_ptr<FakeMechanism> mechanism_;
  std::unique_ptr<gss::ServerGss> auth_;
  TestService service_;
  std::string why_ended_;
  std::optional<Server> server_;
  std::optional<Client> client_;
  std::unique_ptr<gss::Context> ours_;
  Message handle_;
  std::uint32_t xid_ = 100;
};

INSTANTIATE_TEST_SUITE_P(OverEach, GssServer, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "tcp" : "rdma"; });

TEST_P(GssServer, AnswersCallsOfEachService) {
  start();
  make_context();
  std::uint32_t sequence = 0;
  for (const Service service : {Service::kNone, Service::kIntegrity, Service::kPrivacy}) {
    for (const std::size_t size : {0U, 1U, 3U, 1000U, 100'001U}) {
      expect_echo({.sequence = ++sequence, .service = service, .handle = handle_},
                  pattern(size, 5));
    }
  }
  // DATA of NULL is a call like any other (gss.md G-29).
  const Said null{
      .sequence = ++sequence, .service = Service::kIntegrity, .handle = handle_, .procedure = 0};
  const auto reply = call(null, {});
  ASSERT_TRUE(reply);
  const auto results = unwrap_body(*ours_, null.service, sequence, accepted(*reply, sequence, 0));
  ASSERT_TRUE(results);
  EXPECT_TRUE(results->empty());
}

TEST_P(GssServer, TakesAsManyTokensAsTheMechanismWants) {
  start({.exchanges = 3});
  make_context();
  expect_echo({.handle = handle_}, pattern(10, 1));
  expect_denied(exchange(join({header(said_init(handle_)), words({0, 0}), opaque({})})),
                AuthStatus::kGssCredentialProblem);  // it is complete
}

// A context belongs to no connection.
TEST_P(GssServer, KnowsAContextOnAnotherConnection) {
  start();
  make_context();
  expect_echo({.sequence = 1, .handle = handle_}, pattern(10, 1));
  connect();
  expect_echo({.sequence = 2, .handle = handle_}, pattern(10, 1));
}

TEST_P(GssServer, DeniesWhatTheTableSays) {
  start();
  make_context();
  const auto denied = [&](Said said, AuthStatus why) {
    SCOPED_TRACE(static_cast<int>(why));
    if (said.handle.empty()) said.handle = handle_;
    expect_denied(call(said, opaque({})), why);
  };
  denied({.version = 2}, AuthStatus::kBadCredential);
  denied({.control = 4}, AuthStatus::kBadCredential);
  denied({.service = Service{0}}, AuthStatus::kBadCredential);
  denied({.service = Service{4}}, AuthStatus::kBadCredential);
  denied({.control = 3, .procedure = TestService::kEcho}, AuthStatus::kBadCredential);
  denied({.handle = words({0, 1})}, AuthStatus::kGssCredentialProblem);
  denied({.handle = words({0})}, AuthStatus::kGssCredentialProblem);
  denied({.sequence = 0x80000001}, AuthStatus::kGssContextProblem);
  denied({.verifier = words({0, 0})}, AuthStatus::kBadVerifier);
  denied({.verifier = words({kGss, 0})}, AuthStatus::kBadVerifier);
  denied({.verifier = join({words({kGss}), opaque(pattern(10, 9))})},
         AuthStatus::kGssCredentialProblem);
  EXPECT_EQ(service_.calls, 0U);
  // None of that has moved the window.
  expect_echo({.sequence = 1, .handle = handle_}, pattern(3, 1));
  expect_echo({.sequence = 0x80000000, .handle = handle_}, pattern(3, 1));
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
  expect_denied(said(said_init(), join({words({kGss}), opaque(pattern(10, 1))})),
                AuthStatus::kBadVerifier);
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
  // No token at all, as far as XDR goes.
  const auto reply = exchange(join({header(said_init()), words({0, 0}), words({50})}));
  ASSERT_TRUE(reply);
  EXPECT_EQ(to_words(*reply), (std::vector<std::uint32_t>{1, 0, 0, 0, 4}));  // GARBAGE_ARGS
}

TEST_P(GssServer, EndsTheConnectionOfWhoRepeatsANumber) {
  for (const std::uint32_t number : {100U, 36U, 1U}) {
    start();
    make_context();
    expect_echo({.sequence = 100, .handle = handle_}, pattern(3, 1));
    const std::uint64_t calls = service_.calls;
    EXPECT_FALSE(call({.sequence = number, .handle = handle_}, opaque({}))) << number;
    ASSERT_TRUE(run_until([this] { return server_->connections() == 0; }));
    EXPECT_NE(why_ended_.find("sequence number of RPCSEC_GSS"), std::string::npos) << why_ended_;
    EXPECT_EQ(service_.calls, calls);
    connect();  // the context is as good as before
    expect_echo({.sequence = 37, .handle = handle_}, pattern(3, 1));
    client_.reset();
    server_.reset();
  }
}

TEST_P(GssServer, AnswersGarbageArgsToBodiesThatAreNotTheClients) {
  start();
  make_context();
  std::uint32_t sequence = 0;
  for (const Service service : {Service::kIntegrity, Service::kPrivacy}) {
    Said said{.sequence = ++sequence, .service = service, .handle = handle_, .body_sequence = 999};
    auto reply = call(said, opaque({}));
    ASSERT_TRUE(reply);
    EXPECT_TRUE(accepted(*reply, sequence, 4).empty()) << "another number is under the checksum";
    // Not wrapped at all, and cut off.
    for (const Message& body : {opaque({}), words({3}), Message{}, opaque(pattern(40, 1))}) {
      said = {.sequence = ++sequence, .service = service, .handle = handle_};
      const Message head = header(said);
      const Bytes view(head);
      Message checksum;
      ASSERT_FALSE(ours_->checksum({&view, 1}, checksum).is_error());
      reply = exchange(join({head, words({kGss}), opaque(checksum), body}));
      ASSERT_TRUE(reply);
      EXPECT_TRUE(accepted(*reply, sequence, 4).empty());
    }
  }
  EXPECT_EQ(service_.calls, 0U);
}

TEST_P(GssServer, AnswersErrorsInClearWithAGoodVerifier) {
  start();
  make_context();
  const auto reply =
      call({.sequence = 1, .service = Service::kPrivacy, .handle = handle_, .procedure = 99}, {});
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
                             .service = Service::kPrivacy,
                             .handle = handle_,
                             .procedure = 0},
                            body);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(accepted(*reply, sequence, 0).empty());
    expect_denied(call({.sequence = ++sequence, .handle = handle_}, opaque({})),
                  AuthStatus::kGssCredentialProblem);
  }
  EXPECT_EQ(auth_->contexts().size(), 1U);
  // A forged one does nothing.
  make_context();
  expect_denied(call({.control = 3,
                      .handle = handle_,
                      .procedure = 0,
                      .verifier = join({words({kGss}), opaque(pattern(10, 9))})},
                     {}),
                AuthStatus::kGssCredentialProblem);
  expect_echo({.sequence = 1, .handle = handle_}, pattern(3, 1));
}

TEST_P(GssServer, ForgetsAContextWhoseTimeIsOver) {
  start({.lifetime = seconds(100)});
  make_context();
  now_ += seconds(99);
  expect_echo({.sequence = 1, .handle = handle_}, pattern(3, 1));
  now_ += seconds(1);
  expect_denied(call({.sequence = 2, .handle = handle_}, opaque({})),
                AuthStatus::kGssCredentialProblem);
}

TEST_P(GssServer, EndsTheConnectionWhenItCannotSeal) {
  start();
  make_context();
  mechanism_->last_accepted.load()->fails = true;
  EXPECT_FALSE(
      call({.sequence = 1, .service = Service::kIntegrity, .handle = handle_}, opaque({})));
  ASSERT_TRUE(run_until([this] { return server_->connections() == 0; }));
  EXPECT_NE(why_ended_.find("cannot seal"), std::string::npos) << why_ended_;
}

}  // namespace
}  // namespace rpcrdma::test
