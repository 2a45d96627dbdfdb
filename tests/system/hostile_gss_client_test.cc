// RPCSEC_GSS of a client, on real connections, whose server, or whoever answers in its place,
// denies: denials have no verifier, and anybody can forge them.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "system/hostile_gss_for_test.h"

namespace rpcrdma::test {
namespace {

class HostileToGssClient : public HostileGss {};

INSTANTIATE_TEST_SUITE_P(Wire, HostileToGssClient, ::testing::Values("rdma", "tcp"),
                         kTransportName);

// How often a call goes out, and how many contexts it makes, before it ends with an error; and
// whether the last one is given up then, so that the next call makes one more.
struct Denial {
  std::vector<AuthStatus> in_turn;
  std::uint32_t calls = 0, contexts = 0;
  bool is_given_up = false;
};

TEST_P(HostileToGssClient, FloodOfDenialsEndsEachCallAfterTwoRenewals) {
  constexpr AuthStatus kCredential = AuthStatus::kBadCredential,
                       kVerifier = AuthStatus::kBadVerifier,
                       kUnknown = AuthStatus::kGssCredentialProblem;
  const Denial denials[] = {
      {{kUnknown}, 3, 2, true},       {{AuthStatus::kGssContextProblem}, 3, 2, true},
      {{kCredential}, 2, 0},          {{kVerifier}, 2, 0},
      {{AuthStatus::kTooWeak}, 1, 0}, {{kUnknown, kCredential, kUnknown, kVerifier}, 4, 2}};
  start();
  for (const gss::Service service : kServices) {
    Client client = connect(service);
    for (const Denial& denial : denials) {
      SCOPED_TRACE(static_cast<int>(denial.in_turn.front()));
      // The context that is there is good for the first one.
      expect_echo(client);
      constexpr std::uint32_t kCalls = 25;
      deny(denial.in_turn);
      for (std::uint32_t i = 0; i < kCalls; ++i) {
        deny(denial.in_turn);
        const std::uint32_t missing = i > 0 && denial.is_given_up ? 1 : 0;
        const auto error = echo(client);
        ASSERT_TRUE(error);
        ASSERT_EQ(error->code, Errc::kDenied) << error->message();
        EXPECT_EQ(data_seen_, denial.calls);
        EXPECT_EQ(inits_seen_, denial.contexts + missing);
      }
      deny({});
      expect_echo(client);
    }
    EXPECT_TRUE(client.connected());
    EXPECT_EQ(client.calls_in_flight(), 0U);
  }
}

TEST_P(HostileToGssClient, DenialsOfManyCallsAtATimeLeaveTheConnectionAsGoodAsBefore) {
  start();
  Client client = connect(gss::Service::kIntegrity);
  expect_echo(client);
  const Message data = pattern(500, 5);
  const auto run = [&](bool is_denied) {
    constexpr std::uint32_t kCalls = 60;
    std::uint32_t denied = 0, good = 0;
    for (std::uint32_t i = 0; i < kCalls; ++i) {
      ASSERT_TRUE(client.start(echo_of(client, data), [&](Expected<Reply, Error> reply) {
        ++(reply ? good : denied);
        if (reply) return;
        EXPECT_EQ(reply.error().code, Errc::kDenied) << reply.error().message();
      }));
    }
    client.drain();
    EXPECT_EQ(denied, is_denied ? kCalls : 0U);
    EXPECT_EQ(good, is_denied ? 0U : kCalls);
    EXPECT_LE(data_seen_, 3 * kCalls);
    EXPECT_LE(inits_seen_, 2 * kCalls + 1);
  };
  for (int round = 0; round < 3; ++round) {
    deny({AuthStatus::kGssCredentialProblem});
    run(true);
    deny({});
    run(false);
  }
  EXPECT_TRUE(client.connected());
}

TEST_P(HostileToGssClient, DenialsOfContextsEndTheCallThatWantsOne) {
  start();
  Client client = connect(gss::Service::kPrivacy);
  for (const AuthStatus why :
       {AuthStatus::kBadCredential, AuthStatus::kBadVerifier, AuthStatus::kRejectedCredential,
        AuthStatus::kTooWeak, AuthStatus::kGssCredentialProblem, AuthStatus::kGssContextProblem}) {
    for (int i = 0; i < 5; ++i) {
      deny({}, {why});
      const auto error = echo(client);
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code, Errc::kDenied) << error->message();
      EXPECT_EQ(inits_seen_, 1U);
      EXPECT_EQ(data_seen_, 0U);
    }
  }
  // And in the middle: each context that a call makes is unknown when it uses it.
  deny({AuthStatus::kGssCredentialProblem});
  EXPECT_TRUE(echo(client));
  EXPECT_EQ(inits_seen_, 3U);
  deny({});
  expect_echo(client);
}

}  // namespace
}  // namespace rpcrdma::test
