#include "gss/server_auth.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gss/executor.h"
#include "gss/held_executor_for_test.h"
#include "gss/message.h"
#include "support/fake_mechanism.h"

namespace rpcrdma::gss {
namespace {

using test::FakeMechanism;
using Octets = std::vector<std::byte>;

Octets opaque(Bytes data) {
  Octets made(xdr::kWordSize + xdr::padded_memory(data.size()));
  xdr::Writer writer(made);
  writer.opaque(data);
  return made;
}

// A call as a server has it, whose authenticator forgets it in the end.
class Incoming final : public AuthStep {
 public:
  Incoming(ServerGss& auth, std::string peer, const CredentialBody& said) : auth_(auth) {
    peer_ = std::move(peer);
    body_.resize(kAuthBodySizeMax);
    body_.resize(encode_credential(said, body_));
    acceptance.peer = peer_;
    acceptance.procedure = {1, 1, 0};
    acceptance.credential = {AuthFlavor::kRpcsecGss, body_};
  }
  ~Incoming() {
    if (acceptance.state != nullptr) auth_.forget(acceptance);
  }
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  void finish() override { is_ended = true; }
  StepEnd accept() { return auth_.accept(acceptance, *this); }
  // With these arguments.
  StepEnd unwrap(Octets arguments) {
    arguments_ = std::move(arguments);
    acceptance.arguments = MutableBytes(arguments_);
    return auth_.unwrap(acceptance, *this);
  }
  // Returns the results of a control message.
  InitResults seal() {
    EXPECT_EQ(auth_.seal(acceptance, *this), StepEnd::kDone);
    const auto results = decode_init_results(acceptance.wrapped.value_or(Bytes{}));
    EXPECT_TRUE(results);
    return results.value_or(InitResults{});
  }

  CallAcceptance acceptance;
  bool is_ended = false;

 private:
  ServerGss& auth_;
  std::string peer_;
  Octets body_, arguments_;
};

class ServerGssTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kFirstHandle = 77;
  static constexpr std::size_t kTokensPerHost = 70;

  std::unique_ptr<Incoming> begin(const std::string& peer, const CredentialBody& said) {
    auto made = std::make_unique<Incoming>(auth_, peer, said);
    EXPECT_EQ(made->accept(), StepEnd::kDone);
    EXPECT_EQ(made->acceptance.status, AuthStatus::kOk);
    return made;
  }
  // The first token of a context, which waits for the executor.
  std::unique_ptr<Incoming> begin_init(const std::string& peer) {
    auto made = begin(peer, {.control = static_cast<std::uint32_t>(Control::kInit), .service = 1});
    initiating_.push_back(std::move(*mechanism_.initiate("test@server")));
    Octets token;
    EXPECT_FALSE(initiating_.back()->step({}, token).is_error());
    (void)made->unwrap(opaque(token));
    return made;
  }
  // A call with a long body of a context that the peer makes before. Nothing is wrapped in it.
  std::unique_ptr<Incoming> begin_body(const std::string& peer) {
    const auto init = begin_init(peer);
    while (!init->is_ended) executor_.run_first();
    const InitResults results = init->seal();
    const Octets handle(results.handle.begin(), results.handle.end());
    auto made = std::make_unique<Incoming>(
        auth_, peer, CredentialBody{.sequence = 1, .service = 3, .handle = handle});
    const Bytes header = made->acceptance.credential.body;
    Octets checksum;
    EXPECT_FALSE(initiating_.back()->checksum({&header, 1}, checksum).is_error());
    made->acceptance.header = header;
    made->acceptance.verifier = {AuthFlavor::kRpcsecGss, checksum};
    EXPECT_EQ(made->accept(), StepEnd::kDone);
    EXPECT_EQ(made->acceptance.status, AuthStatus::kOk);
    EXPECT_TRUE(made->acceptance.is_wrapped);
    return made;
  }
  static std::string peer(const std::string& host, std::size_t port) {
    return host + ":" + std::to_string(port);
  }
  int runs_until(const Incoming& call) {
    int runs = 0;
    for (; !call.is_ended && !executor_.works.empty(); ++runs) executor_.run_first();
    return runs;
  }
  void run_all() {
    while (!executor_.works.empty()) executor_.run_first();
  }

  HeldExecutor executor_;
  FakeMechanism mechanism_;
  std::deque<std::unique_ptr<Context>> initiating_;
  std::vector<std::string> reports_;
  ServerGss auth_{mechanism_,
                  executor_,
                  {},
                  test::counted_handles(kFirstHandle),
                  [] { return Instant{}; },
                  [this](std::string_view why) { reports_.emplace_back(why); },
                  {.bodies = 3, .tokens_per_host = kTokensPerHost}};
};

// --- The turns of hosts ------------------------------------------------------------------------

TEST_F(ServerGssTest, TokenOfAHostComesInItsTurnBehindManyOfAnother) {
  std::vector<std::unique_ptr<Incoming>> many;
  for (std::size_t i = 0; i < 64; ++i) many.push_back(begin_init(peer("10.0.0.1", 1000 + i)));
  EXPECT_EQ(executor_.works.size(), 2U);
  const auto other = begin_init("10.0.0.2:1000");
  EXPECT_LE(runs_until(*other), 3);
  EXPECT_TRUE(other->is_ended);
  run_all();
  for (const auto& each : many) EXPECT_TRUE(each->is_ended);
}

TEST_F(ServerGssTest, LongBodyOfAHostComesInItsTurnBehindManyOfAnother) {
  std::vector<std::unique_ptr<Incoming>> many;
  for (std::size_t i = 0; i < 64; ++i) many.push_back(begin_body(peer("10.0.0.1", 1000 + i)));
  const auto other = begin_body("10.0.0.2:1000");
  for (const auto& each : many) EXPECT_EQ(each->unwrap(Octets(20'000)), StepEnd::kPending);
  EXPECT_EQ(executor_.works.size(), 3U);
  EXPECT_EQ(other->unwrap(Octets(20'000)), StepEnd::kPending);
  EXPECT_LE(runs_until(*other), 4);
  EXPECT_TRUE(other->is_ended);
  run_all();
  for (const auto& each : many) EXPECT_TRUE(each->is_ended);
}

TEST_F(ServerGssTest, TokensOfAHostBeyondItsShareAreRefusedAndThoseOfOthersAreTaken) {
  std::vector<std::unique_ptr<Incoming>> many;
  for (std::size_t i = 0; i < kTokensPerHost; ++i) {
    many.push_back(begin_init(peer("10.0.0.1", 1000 + i)));
  }
  const auto refused = begin_init("10.0.0.1:999"), other = begin_init("10.0.0.2:1000");
  const InitResults said = refused->seal();
  EXPECT_EQ(said.major, Status::kFailure);
  EXPECT_TRUE(said.handle.empty());
  ASSERT_EQ(reports_.size(), 1U);
  EXPECT_NE(reports_[0].find("too many tokens of its host"), std::string::npos) << reports_[0];
  run_all();
  EXPECT_FALSE(refused->is_ended) << "it has ended at once";
  EXPECT_EQ(other->seal().major, Status::kComplete);
  for (const auto& each : many) EXPECT_EQ(each->seal().major, Status::kComplete);
  const auto later = begin_init("10.0.0.1:999");
  run_all();
  EXPECT_EQ(later->seal().major, Status::kComplete);
}

// --- A context in the making -------------------------------------------------------------------

// Waits in the step that takes its second token until the test lets it go on.
class Slow final : public Mechanism {
 public:
  Expected<std::unique_ptr<Context>, Status> initiate(std::string_view service) override {
    return inner_.initiate(service);
  }
  Expected<std::unique_ptr<Context>, Status> accept() override {
    return std::unique_ptr<Context>(new Acceptor(*this, std::move(*inner_.accept())));
  }

  std::promise<void> has_begun, may_go_on;

 private:
  class Acceptor final : public Context {
   public:
    Acceptor(Slow& all, std::unique_ptr<Context> inner) : all_(all), inner_(std::move(inner)) {}
    Status step(Bytes token, Octets& answer) override {
      if (++steps_ == 2) {
        all_.has_begun.set_value();
        all_.may_go_on.get_future().wait();
      }
      return inner_->step(token, answer);
    }
    std::optional<std::chrono::seconds> lifetime() const override { return inner_->lifetime(); }
    Status checksum(std::span<const Bytes> pieces, Octets& checksum) override {
      return inner_->checksum(pieces, checksum);
    }
    bool is_checksum_of(std::span<const Bytes> pieces, Bytes checksum) override {
      return inner_->is_checksum_of(pieces, checksum);
    }
    std::size_t wrap_header_size() const override { return inner_->wrap_header_size(); }
    std::size_t wrap_trailer_size() const override { return inner_->wrap_trailer_size(); }
    Status wrap(MutableBytes whole) override { return inner_->wrap(whole); }
    std::optional<MutableBytes> unwrap(MutableBytes token) override {
      return inner_->unwrap(token);
    }
    std::string_view principal() const override { return inner_->principal(); }
    std::string local_user() override { return inner_->local_user(); }

   private:
    Slow& all_;
    const std::unique_ptr<Context> inner_;
    int steps_ = 0;
  };

  FakeMechanism inner_{test::FakeSettings{.exchanges = 2}};
};

// The token of a call whose program does not exist is not looked at, and the answer is made on the
// connection's thread.
TEST(ServerGssInTheMaking, AnswerToACallWhoseTokenIsNotTakenDoesNotWaitForTheOneThatIs) {
  Slow mechanism;
  Workers workers(1);
  ServerGss auth(mechanism, workers, {}, test::counted_handles(1), [] { return Instant{}; });
  const auto initiating = std::move(*mechanism.initiate("test@server"));
  Octets token;
  ASSERT_FALSE(initiating->step({}, token).is_error());
  struct Waited final : AuthStep {
    void finish() override { ended.set_value(); }
    std::promise<void> ended;
  };
  const auto control = [](Control which) {
    return CredentialBody{.control = static_cast<std::uint32_t>(which), .service = 1};
  };
  Incoming first(auth, "10.0.0.1:1000", control(Control::kInit));
  ASSERT_EQ(first.accept(), StepEnd::kDone);
  Octets arguments = opaque(token);
  first.acceptance.arguments = MutableBytes(arguments);
  Waited begun;
  ASSERT_EQ(auth.unwrap(first.acceptance, begun), StepEnd::kPending);
  begun.ended.get_future().wait();
  const InitResults answer = first.seal();
  ASSERT_EQ(answer.major, Status::kContinueNeeded);
  ASSERT_FALSE(initiating->step(answer.token, token).is_error());

  CredentialBody said = control(Control::kContinueInit);
  said.handle = answer.handle;
  Incoming second(auth, "10.0.0.1:1000", said), third(auth, "10.0.0.1:1000", said);
  ASSERT_EQ(second.accept(), StepEnd::kDone);
  Octets more = opaque(token);
  second.acceptance.arguments = MutableBytes(more);
  Waited taken;
  ASSERT_EQ(auth.unwrap(second.acceptance, taken), StepEnd::kPending);
  mechanism.has_begun.get_future().wait();
  ASSERT_EQ(third.accept(), StepEnd::kDone);
  ASSERT_EQ(third.acceptance.status, AuthStatus::kOk);
  auto sealed = std::async(std::launch::async, [&third] { return third.seal(); });
  const bool is_sealed = sealed.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  EXPECT_TRUE(is_sealed) << "it waits for the step that the executor runs";
  mechanism.may_go_on.set_value();
  EXPECT_TRUE(sealed.get().handle.empty());
  EXPECT_EQ(third.acceptance.reply_verifier.flavor, AuthFlavor::kNone);
  taken.ended.get_future().wait();
  EXPECT_EQ(second.seal().major, Status::kComplete);
  EXPECT_EQ(second.acceptance.reply_verifier.flavor, AuthFlavor::kRpcsecGss);
}

TEST(ServerGssInTheMaking, ContextWhoseNextTokenIsRefusedIsGivenBack) {
  FakeMechanism mechanism({.exchanges = 2});
  HeldExecutor executor;
  ServerGss auth(
      mechanism, executor, {}, test::counted_handles(1), [] { return Instant{}; }, {},
      ServerGss::Pace{.tokens_per_host = 1});
  const auto initiating = std::move(*mechanism.initiate("test@server"));
  Octets token;
  ASSERT_FALSE(initiating->step({}, token).is_error());
  CredentialBody said{.control = static_cast<std::uint32_t>(Control::kInit), .service = 1};
  Incoming first(auth, "10.0.0.1:1000", said), other(auth, "10.0.0.1:1001", said);
  ASSERT_EQ(first.accept(), StepEnd::kDone);
  ASSERT_EQ(first.unwrap(opaque(token)), StepEnd::kPending);
  executor.run_first();
  const InitResults answer = first.seal();
  ASSERT_EQ(answer.major, Status::kContinueNeeded);
  ASSERT_EQ(other.accept(), StepEnd::kDone);
  ASSERT_EQ(other.unwrap(opaque(token)), StepEnd::kPending);
  EXPECT_EQ(auth.contexts().size(), 1U);
  said.control = static_cast<std::uint32_t>(Control::kContinueInit);
  said.handle = answer.handle;
  Incoming second(auth, "10.0.0.1:1000", said);
  ASSERT_EQ(second.accept(), StepEnd::kDone);
  EXPECT_EQ(second.unwrap(opaque(token)), StepEnd::kDone) << "the other one's token waits";
  EXPECT_EQ(second.seal().major, Status::kFailure);
  EXPECT_EQ(auth.contexts().size(), 0U);
  executor.run_first();
}

// A client could not tell such a server from another one.
TEST(ServerGssInTheMaking, ContextThatMakesNoChecksumIsRefused) {
  FakeMechanism mechanism({.exchanges = 2});
  test::AtOnce executor;
  ServerGss auth(mechanism, executor, {}, test::counted_handles(1), [] { return Instant{}; });
  const auto initiating = std::move(*mechanism.initiate("test@server"));
  Octets token;
  ASSERT_FALSE(initiating->step({}, token).is_error());
  CredentialBody said{.control = static_cast<std::uint32_t>(Control::kInit), .service = 1};
  Incoming first(auth, "10.0.0.1:1000", said);
  ASSERT_EQ(first.accept(), StepEnd::kDone);
  (void)first.unwrap(opaque(token));
  const InitResults answer = first.seal();
  ASSERT_FALSE(initiating->step(answer.token, token).is_error());
  mechanism.last_accepted.load()->fails = true;
  said.control = static_cast<std::uint32_t>(Control::kContinueInit);
  said.handle = answer.handle;
  Incoming second(auth, "10.0.0.1:1000", said);
  ASSERT_EQ(second.accept(), StepEnd::kDone);
  (void)second.unwrap(opaque(token));
  const InitResults refusal = second.seal();
  EXPECT_EQ(refusal.major, Status::kFailure);
  EXPECT_TRUE(refusal.handle.empty());
  EXPECT_EQ(second.acceptance.reply_verifier.flavor, AuthFlavor::kNone);
  EXPECT_EQ(auth.contexts().size(), 0U);
}

}  // namespace
}  // namespace rpcrdma::gss
