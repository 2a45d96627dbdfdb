#include "gss/server_auth.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gss/message.h"
#include "support/fake_mechanism.h"

namespace rpcrdma::gss {
namespace {

using test::FakeMechanism;
using Octets = std::vector<std::byte>;

// Runs what it has when the test says so.
class Held final : public Executor {
 public:
  void submit(Work work) override { works.push_back(std::move(work)); }
  void run_first() {
    Work work = std::move(works.front());
    works.pop_front();
    work();
  }
  std::deque<Work> works;
};

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

  Held executor_;
  FakeMechanism mechanism_;
  std::deque<std::unique_ptr<Context>> initiating_;
  ServerGss auth_{mechanism_,
                  executor_,
                  {},
                  test::counted_handles(kFirstHandle),
                  [] { return Instant{}; },
                  {},
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
  run_all();
  EXPECT_FALSE(refused->is_ended) << "it has ended at once";
  EXPECT_EQ(other->seal().major, Status::kComplete);
  for (const auto& each : many) EXPECT_EQ(each->seal().major, Status::kComplete);
  const auto later = begin_init("10.0.0.1:999");
  run_all();
  EXPECT_EQ(later->seal().major, Status::kComplete);
}

}  // namespace
}  // namespace rpcrdma::gss
