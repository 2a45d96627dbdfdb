// The checks of the runner see what they are for: each is shown a mistake.
#include <gtest/gtest.h>

#include "sim/credit_monitor.h"
#include "sim/memory.h"
#include "sim/script.h"
#include "sim/simulation.h"

namespace rpcrdma::simulation {
namespace {

constexpr std::uint64_t kSeeds = 40;

// The invariant that some seed finds broken; -1: none does.
int found_with(Sabotage sabotage, std::uint64_t first = 1) {
  Settings settings;
  settings.sabotage = sabotage;
  for (std::uint64_t seed = first; seed < first + kSeeds; ++seed) {
    const Outcome outcome = simulate(seed, settings);
    if (outcome.broken) return outcome.broken->invariant;
  }
  return -1;
}

TEST(Runner, FindsNothingWithoutAMistake) {
  EXPECT_EQ(found_with(Sabotage::kNone), -1);
}
TEST(Runner, FindsAWrongByteInAResult) {
  EXPECT_EQ(found_with(Sabotage::kWrongResult), 6);
}
TEST(Runner, FindsAByteWrittenBesideLentMemory) {
  EXPECT_EQ(found_with(Sabotage::kGuard), 4);
}
TEST(Runner, FindsMemoryWrittenAfterTheEndOfItsCall) {
  EXPECT_EQ(found_with(Sabotage::kLateWrite), 3);
}
TEST(Runner, FindsACallThatEndsTwice) {
  EXPECT_EQ(found_with(Sabotage::kTwoEnds), 5);
}
TEST(Runner, FindsAForgottenWakeUp) {
  // Seeds in which nobody waits inside of the library, which would end the test.
  EXPECT_EQ(found_with(Sabotage::kLostWake, 41), 7);
}

TEST(Runner, FindsMoreMemoryLentThanAServerMayLend) {
  EXPECT_EQ(found_with(Sabotage::kMemory), 9);
}
TEST(Runner, FindsACallThatIsExecutedAgain) {
  // It takes a connection that is lost behind the execution of a call and before its reply.
  EXPECT_EQ(found_with(Sabotage::kForgetful, 160), 10);
}

TEST(Runner, FindsACallThatWaitsForAHostilePeer) {
  EXPECT_EQ(found_with(Sabotage::kUnfair), 11);
}

TEST(Runner, SaysThatASeedDidNotEnd) {
  Settings settings;
  settings.steps_max = 10;
  const Outcome outcome = simulate(2, settings);
  ASSERT_TRUE(outcome.broken);
  EXPECT_EQ(outcome.broken->invariant, 0);
}

TEST(Runner, DoesTheSameAgainWithTheSameSeedAndOtherThingsWithAnother) {
  const Outcome first = simulate(7, {});
  const Outcome again = simulate(7, {});
  EXPECT_EQ(first.digest, again.digest);
  EXPECT_TRUE(first.totals == again.totals);
  EXPECT_NE(first.digest, simulate(8, {}).digest);
}

TEST(Runner, SeesAWrongByteInWhatAConnectionCarries) {
  const Outcome right = simulate(7, {});
  EXPECT_EQ(right.behaviour, simulate(7, {}).behaviour);
  Settings settings;
  settings.sabotage = Sabotage::kWrongResult;
  EXPECT_NE(right.behaviour.messages, simulate(7, settings).behaviour.messages);
}

TEST(BehaviourMonitor, KeepsConnectionsAndCallsApart) {
  using Kind = rdma::sim::Departure::Kind;
  const auto sum = [&](std::initializer_list<std::pair<std::uint64_t, int>> sends) {
    BehaviourMonitor monitor;
    for (const auto& [from, value] : sends) {
      const std::byte data[]{std::byte(value)};
      monitor.departed({.from = from, .kind = Kind::kSend, .data = data});
    }
    return monitor.result().messages;
  };
  EXPECT_EQ(sum({{1, 5}, {2, 6}}), sum({{2, 6}, {1, 5}}));
  EXPECT_NE(sum({{1, 5}, {1, 6}}), sum({{1, 6}, {1, 5}}));
  EXPECT_NE(sum({{1, 5}, {2, 6}}), sum({{1, 6}, {2, 5}}));
}

TEST(CreditMonitor, AllowsOneCallUntilTheFirstReply) {
  Verdict verdict;
  CreditMonitor credits;
  credits.call_sent(8, verdict);
  EXPECT_TRUE(verdict.ok());
  credits.call_sent(8, verdict);
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.first()->invariant, 2);
}

TEST(CreditMonitor, AllowsTheSmallerOfAskedAndGranted) {
  Verdict verdict;
  CreditMonitor credits;
  credits.call_sent(2, verdict);
  credits.reply_received(64, verdict);
  credits.call_sent(2, verdict);
  credits.call_sent(2, verdict);
  EXPECT_TRUE(verdict.ok());
  credits.call_sent(2, verdict);
  EXPECT_FALSE(verdict.ok());
}

TEST(CreditMonitor, TakesASmallerGrantBackWithEachReply) {
  Verdict verdict;
  CreditMonitor credits;
  credits.call_sent(8, verdict);
  credits.reply_received(3, verdict);
  for (int i = 0; i < 3; ++i) credits.call_sent(8, verdict);
  credits.reply_received(1, verdict);
  credits.reply_received(1, verdict);
  EXPECT_TRUE(verdict.ok());
  credits.call_sent(8, verdict);
  EXPECT_FALSE(verdict.ok()) << "one is unanswered, and one more was possible only before";
}

TEST(CreditMonitor, SeesAGrantOfNothingAndAReplyToNothing) {
  Verdict verdict;
  CreditMonitor().reply_received(1, verdict);
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.first()->invariant, 5);
  Verdict other;
  CreditMonitor credits;
  credits.call_sent(1, other);
  credits.reply_received(0, other);
  EXPECT_FALSE(other.ok());
}

TEST(GuardedBlock, SeesEachByteAroundItAndLateOnesInIt) {
  GuardedBlock block(10, 3);
  EXPECT_TRUE(block.is_untouched());
  block.retire();
  EXPECT_TRUE(block.is_untouched());
  block.bytes()[9] = std::byte{1};
  EXPECT_FALSE(block.is_untouched());
  GuardedBlock other(0, 0);
  other.break_guard();
  EXPECT_FALSE(other.guards_are_whole());
}

TEST(Pattern, SeesEachByteThatDiffers) {
  std::vector<std::byte> bytes(21);
  fill_pattern(bytes, 5);
  EXPECT_FALSE(find_difference(bytes, 5));
  EXPECT_TRUE(find_difference(bytes, 6));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= std::byte{0x40};
    EXPECT_EQ(find_difference(bytes, 5), i);
    bytes[i] ^= std::byte{0x40};
  }
}

// The judge is a part of the checks: it must not allow everything.
TEST(Judge, AllowsAnErrorOnlyWithAReason) {
  const Plan plan{};
  const ClientOptions client;
  const ServerOptions server;
  CallScript script = plain_script(1);
  Circumstances at{plan, client, server, false, false, false, 0};
  for (int code = 0; code <= static_cast<int>(Errc::kUnsupported); ++code) {
    EXPECT_TRUE(judge_failure(script, at, static_cast<Errc>(code)))
        << to_string(static_cast<Errc>(code));
  }
  at.deadline_passed = at.client_closed = true;
  EXPECT_FALSE(judge_failure(script, at, Errc::kTimedOut));
  EXPECT_FALSE(judge_failure(script, at, Errc::kCanceled));
  script.results_size_max = 0;
  EXPECT_FALSE(judge_failure(script, at, Errc::kChunk));
  EXPECT_TRUE(judge_failure(script, at, Errc::kBadReply));
  EXPECT_FALSE(judge_success(script));
  script.answer = Answer::kSystemErr;
  EXPECT_TRUE(judge_success(script));
}

// Seeds 401 844 and 3 444 369: however the connections ended, a context whose making they cut off
// is denied on the next one.
TEST(Judge, AllowsADenialBehindThreeConnectionsOfOneCallAndNotBehindTwo) {
  Plan plan{};
  plan.security.is_used = true;
  plan.security.contexts_max = 64;
  plan.reconnects = true;
  const ClientOptions client;
  const ServerOptions server;
  const CallScript script = plain_script(1);
  Circumstances at{plan, client, server, false, false, false, 2};
  EXPECT_TRUE(judge_failure(script, at, Errc::kDenied));
  at.connections_made = 3;
  EXPECT_FALSE(judge_failure(script, at, Errc::kDenied));
  plan.reconnects = false;
  EXPECT_TRUE(judge_failure(script, at, Errc::kDenied));
}

}  // namespace
}  // namespace rpcrdma::simulation
