// The life of a client's calls, on a carrier that the test plays, in virtual time.
#include "rpc/call/call_flow.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rpc/call/carrier_for_test.h"

namespace rpcrdma::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Each step is done at once, or waits until the test ends it.
class AuthForTest final : public ClientAuth {
 public:
  StepEnd seal(CallSeal& call, AuthStep& step) override {
    seals.push_back(call.xid);
    call.failure = failure;
    waiting = &step;
    return seals_later ? StepEnd::kPending : StepEnd::kDone;
  }
  StepEnd open(CallSeal& call, AuthStep& step) override {
    waiting = &step;
    call.again = std::exchange(asks_again, false);
    return opens_later ? StepEnd::kPending : StepEnd::kDone;
  }
  void cancel_soon(CallSeal& /*call*/) noexcept override { ++cancelled; }

  bool seals_later = false, opens_later = false, asks_again = false;
  std::optional<Error> failure;
  AuthStep* waiting = nullptr;
  std::vector<std::uint32_t> seals;  // XIDs
  int cancelled = 0;
};

class CallFlowTest : public testing::Test {
 protected:
  using Answer = std::optional<Errc>;  // nullopt: the call has succeeded

  ClientForTest& client() {
    if (!client_) client_.emplace(options, has_own_call);
    return *client_;
  }
  CallCarrierForTest& carrier() { return client().carrier; }
  Call prepare() { return std::move(client().flow().prepared().prepare({100, 1, 1}, 8).value()); }
  // Starts a call, whose end is added to `ends`.
  std::optional<Errc> start(std::optional<Call> call = std::nullopt) {
    if (!call) call.emplace(prepare());
    const auto started = client().start(std::move(*call), [this](Expected<Reply, Error> reply) {
      ends.push_back(reply ? Answer() : Answer(reply.error().code));
      if (!reply) causes.push_back(reply.error().cause);
    });
    return started ? std::nullopt : std::optional(started.error().code);
  }
  void answer(std::size_t nth) {
    client().round([&] { carrier().answer(carrier().sent[nth]); });
  }
  void cut() {
    client().round([&] { carrier().cut(); });
  }

  ClientOptions options;
  bool has_own_call = false;
  std::vector<Answer> ends;
  std::vector<std::string> causes;

 private:
  std::optional<ClientForTest> client_;
};

class ReconnectingFlowTest : public CallFlowTest {
 protected:
  ReconnectingFlowTest() {
    options.reconnect.enabled = true;
    options.call_timeout = seconds(60);
  }
  // Until the next connection is up.
  void reconnect() {
    while (!carrier().up) client().pass(milliseconds(10));
    client().progress();  // sees that it is up
  }
};

class SealedFlowTest : public ReconnectingFlowTest {
 protected:
  SealedFlowTest() { options.auth = &auth; }
  void end_step() {
    std::exchange(auth.waiting, nullptr)->finish();
    client().progress();
  }

  AuthForTest auth;
};

// --- One connection ----------------------------------------------------------------------------

TEST_F(CallFlowTest, EndsACallOnceByItsReply) {
  EXPECT_EQ(start(), std::nullopt);
  EXPECT_EQ(client().flow().calls_in_flight(), 1U);
  answer(0);
  EXPECT_EQ(ends, std::vector<Answer>{std::nullopt});
  EXPECT_EQ(client().flow().calls_in_flight(), 0U);
  EXPECT_EQ(carrier().freed, 1);
  EXPECT_EQ(client().flow().pool().bytes_in_use(), 0U);
}

TEST_F(CallFlowTest, CallbackMayStartTheNextCall) {
  bool has_ended = false;
  auto call = prepare();
  ASSERT_TRUE(client().start(std::move(call), [&](Expected<Reply, Error> /*reply*/) {
    has_ended = true;
    EXPECT_EQ(start(), std::nullopt);
  }));
  answer(0);
  EXPECT_TRUE(has_ended);
  ASSERT_EQ(carrier().sent.size(), 2U);
  EXPECT_NE(carrier().sent[0], carrier().sent[1]);
}

// The callbacks of this round may have taken any time.
TEST_F(CallFlowTest, CallThatACallbackStartsHasItsTimeFromThere) {
  const Instant begun = carrier().time;
  client().round([&] {
    carrier().time = begun + seconds(3);
    EXPECT_EQ(start(), std::nullopt);
  });
  EXPECT_EQ(carrier().times, std::vector<Instant>{begun + seconds(3)});
}

TEST_F(CallFlowTest, CallThatIsNotStartedGivesItsSlotBack) {
  for (int i = 0; i < 100; ++i) (void)prepare();
  EXPECT_EQ(carrier().freed, 100);
  EXPECT_EQ(start(), std::nullopt);
}

TEST_F(CallFlowTest, RefusesMoreCallsThanThereAreSlots) {
  std::vector<Call> calls;
  for (int i = 0; i < 4; ++i) calls.push_back(prepare());
  const auto fifth = client().flow().prepared().prepare({100, 1, 1}, 8);
  ASSERT_FALSE(fifth);
  EXPECT_EQ(fifth.error().code, Errc::kTooManyCalls);
}

TEST_F(CallFlowTest, RefusesACallThatHasNoMemory) {
  carrier().has_memory = false;
  EXPECT_EQ(client().flow().prepared().prepare({100, 1, 1}, 8).error().code, Errc::kNoResources);
  carrier().has_memory = true;
  EXPECT_EQ(start(), std::nullopt);
}

TEST_F(CallFlowTest, CallThatCannotBeSentIsFreedAndHasNoCallback) {
  (void)client();
  carrier().refusal = Error{Errc::kTooLarge, "the call", "peer", ""};
  EXPECT_EQ(start(), Errc::kTooLarge);
  EXPECT_EQ(carrier().freed, 1);
  EXPECT_TRUE(ends.empty());
}

TEST_F(CallFlowTest, RefusesArgumentsThatExceedTheSizeOfPrepare) {
  auto call = prepare();
  while (call.arguments().ok()) call.arguments().xdr().u32(1);
  EXPECT_EQ(start(std::move(call)), Errc::kTooLarge);
  EXPECT_TRUE(carrier().sent.empty());
}

TEST_F(CallFlowTest, DenialFailsItsCallAlone) {
  (void)start();
  (void)start();
  client().round([&] { carrier().refuse(carrier().sent[0]); });
  EXPECT_EQ(ends, std::vector<Answer>{Errc::kDenied});
  answer(1);
  EXPECT_EQ(ends.back(), std::nullopt);
}

TEST_F(CallFlowTest, WithoutReconnectionALossFailsEachCallOnce) {
  (void)start();
  (void)start();
  cut();
  EXPECT_EQ(ends, (std::vector<Answer>{Errc::kConnectionLost, Errc::kConnectionLost}));
  EXPECT_TRUE(client().ended());
  EXPECT_EQ(client().flow().prepared().prepare({100, 1, 1}, 8).error().code, Errc::kConnectionLost);
}

TEST_F(CallFlowTest, CloseCancelsCallsUnderWay) {
  (void)start();
  client().round([&] { client().close(); });
  EXPECT_EQ(ends, std::vector<Answer>{Errc::kCanceled});
}

TEST_F(CallFlowTest, LibrarysOwnCallIsNoCallOfTheApplication) {
  has_own_call = true;
  (void)client().flow().prepared().prepare_own({0, 0, 0}, false);
  bool is_answered = false;
  EXPECT_TRUE(client().flow().send_own(
      seconds(1), [&](Expected<Reply, Error> reply) { is_answered = reply.has_value(); }));
  EXPECT_EQ(client().flow().calls_in_flight(), 0U);
  answer(0);
  EXPECT_TRUE(is_answered);
  EXPECT_FALSE(client().flow().history().take_answer());
}

TEST_F(CallFlowTest, EachClientOwnsTheAuthenticatorThatItsOptionsMakeForIt) {
  std::vector<AuthForTest*> made;
  options.auth = [&made]() -> std::unique_ptr<ClientAuth> {
    auto auth = std::make_unique<AuthForTest>();
    made.push_back(auth.get());
    return auth;
  };
  (void)start();
  ClientForTest other{options};
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0]->seals.size(), 1U);
  EXPECT_TRUE(made[1]->seals.empty());
}

TEST_F(CallFlowTest, OptionsThatMakeNoAuthenticatorFailEachCallInPlaceOfSendingItPlain) {
  options.auth = []() -> std::unique_ptr<ClientAuth> { return nullptr; };
  EXPECT_EQ(start(), Errc::kSecurity);
  EXPECT_TRUE(carrier().sent.empty());
}

// --- Between two connections -------------------------------------------------------------------

TEST_F(ReconnectingFlowTest, LostCallGoesOutAgainWithTheSameXidAndTheTimeThatIsLeft) {
  (void)start();
  cut();
  EXPECT_TRUE(ends.empty());
  EXPECT_EQ(client().flow().calls_in_flight(), 1U);
  const Instant before = carrier().time;
  reconnect();
  ASSERT_EQ(carrier().sent.size(), 2U);
  EXPECT_EQ(carrier().sent[0], carrier().sent[1]);
  EXPECT_EQ(carrier().timeouts[1], carrier().timeouts[0] - (carrier().time - before));
  answer(1);
  EXPECT_EQ(ends, std::vector<Answer>{std::nullopt});
}

TEST_F(ReconnectingFlowTest, CallsThatWaitGoOutInTheOrderOfTheirStart) {
  (void)start();
  (void)start();
  answer(0);  // so that slots are not in the order of XIDs
  (void)start();
  cut();
  (void)start();
  EXPECT_EQ(carrier().sent.size(), 3U);
  reconnect();
  ASSERT_EQ(carrier().sent.size(), 6U);
  EXPECT_EQ(carrier().sent[3], carrier().sent[1]);
  EXPECT_EQ(carrier().sent[4], carrier().sent[2]);
  EXPECT_GT(carrier().sent[5], carrier().sent[4]);
}

TEST_F(ReconnectingFlowTest, CallThatWaitsEndsWithItsTimeAndSaysWhyThereIsNoConnection) {
  options.call_timeout = milliseconds(500);
  client().is_refused = true;
  (void)start();
  cut();
  client().pass(milliseconds(499));
  EXPECT_TRUE(ends.empty());
  client().pass(milliseconds(1));
  EXPECT_EQ(ends, std::vector<Answer>{Errc::kTimedOut});
  EXPECT_EQ(causes.at(0), "no connection to the server within the call's time: no");
  EXPECT_FALSE(client().ended());
}

TEST_F(ReconnectingFlowTest, TellsTheLoopWhenTheFirstWaitingCallHasNoTimeLeft) {
  (void)start();
  EXPECT_EQ(client().flow().next_deadline(), std::nullopt);
  cut();
  EXPECT_EQ(client().flow().next_deadline(), carrier().time + seconds(60));
}

TEST_F(ReconnectingFlowTest, WholeMessageIsNotSentAgain) {
  auto call = std::move(client().flow().prepared().prepare_message(64).value());
  for (const std::uint32_t word : {7U, 0U, 2U, 100U, 1U, 0U, 0U, 0U, 0U, 0U}) {
    call.arguments().xdr().u32(word);
  }
  EXPECT_EQ(start(std::move(call)), std::nullopt);
  EXPECT_EQ(carrier().sent.at(0), 7U);
  cut();
  EXPECT_EQ(ends, std::vector<Answer>{Errc::kConnectionLost});
}

TEST_F(ReconnectingFlowTest, CloseCancelsCallsThatWait) {
  (void)start();
  cut();
  client().close();
  client().progress();
  EXPECT_EQ(ends, std::vector<Answer>{Errc::kCanceled});
  EXPECT_TRUE(client().ended());
}

// --- Without repetition ------------------------------------------------------------------------

TEST_F(ReconnectingFlowTest,
       WithoutRepetitionALossEndsEachCallAtOnceAndTheNextConnectionTakesNewOnes) {
  options.reconnect.repeats_calls = false;
  (void)start();
  (void)start();
  cut();
  EXPECT_EQ(ends, (std::vector<Answer>{Errc::kConnectionLost, Errc::kConnectionLost}));
  EXPECT_EQ(causes, (std::vector<std::string>{"it was cut", "it was cut"}));
  EXPECT_FALSE(client().ended());
  reconnect();
  EXPECT_EQ(carrier().sent.size(), 2U) << "nothing is made twice";
  EXPECT_EQ(start(), std::nullopt);
  answer(2);
  EXPECT_EQ(ends.back(), std::nullopt);
}

TEST_F(ReconnectingFlowTest, WithoutRepetitionNoCallBeginsBetweenTwoConnections) {
  options.reconnect.repeats_calls = false;
  auto prepared = prepare();
  client().is_refused = true;
  cut();
  const auto cause_of_refusal = [this] {
    const auto call = client().flow().prepared().prepare({100, 1, 1}, 8);
    return call ? "none" : call.error().cause;
  };
  EXPECT_EQ(cause_of_refusal(), "it was cut");
  EXPECT_EQ(start(std::move(prepared)), Errc::kConnectionLost);
  client().pass(seconds(10));
  EXPECT_EQ(cause_of_refusal(), "no") << "why the last attempt has failed";
  client().is_refused = false;
  reconnect();
  EXPECT_EQ(start(), std::nullopt);
  client().round([&] {
    carrier().cut();
    EXPECT_EQ(cause_of_refusal(), "it was cut") << "in a callback of this loss";
  });
}

TEST_F(SealedFlowTest, WithoutRepetitionALossCancelsSealsAndWhatTheyEndWithIsNotSent) {
  options.reconnect.repeats_calls = false;
  auth.seals_later = true;
  (void)start();
  client().is_refused = true;
  cut();
  EXPECT_EQ(auth.cancelled, 1);
  EXPECT_TRUE(ends.empty()) << "the step still uses the call";
  end_step();
  EXPECT_EQ(ends, std::vector<Answer>{Errc::kConnectionLost});
  EXPECT_TRUE(carrier().sent.empty());
}

// --- Steps of authentication -------------------------------------------------------------------

TEST_F(SealedFlowTest, CallGoesOutWhenItsSealIsDone) {
  auth.seals_later = true;
  (void)start();
  EXPECT_TRUE(carrier().sent.empty());
  EXPECT_EQ(client().flow().calls_in_flight(), 1U);
  end_step();
  EXPECT_EQ(carrier().sent.size(), 1U);
}

TEST_F(SealedFlowTest, SealThatFailsEndsTheCall) {
  auth.seals_later = true;
  auth.failure = Error{Errc::kSecurity, "sealing", "peer", ""};
  (void)start();
  end_step();
  EXPECT_EQ(ends, std::vector<Answer>{Errc::kSecurity});
  EXPECT_TRUE(carrier().sent.empty());
}

TEST_F(SealedFlowTest, SealThatEndsWithoutAConnectionLeavesTheCallWaiting) {
  auth.seals_later = true;
  (void)start();
  client().is_refused = true;
  cut();
  end_step();
  EXPECT_TRUE(ends.empty());
  auth.seals_later = false;
  client().is_refused = false;
  reconnect();
  EXPECT_EQ(carrier().sent.size(), 1U);
  EXPECT_EQ(auth.seals.size(), 2U) << "what was sealed is good for one transmission";
}

TEST_F(SealedFlowTest, CallWhoseTimeEndsDuringItsSealIsCancelledAndNotSent) {
  options.call_timeout = milliseconds(100);
  auth.seals_later = true;
  (void)start();
  EXPECT_EQ(client().flow().next_deadline(), carrier().time + milliseconds(100));
  client().pass(milliseconds(100));
  EXPECT_EQ(auth.cancelled, 1);
  EXPECT_TRUE(ends.empty()) << "the step still uses the call";
  end_step();
  EXPECT_EQ(ends, std::vector<Answer>{Errc::kTimedOut});
  EXPECT_TRUE(carrier().sent.empty());
}

TEST_F(SealedFlowTest, CancelledSealGoesOverNoLaterConnection) {
  auth.seals_later = true;
  (void)start();
  client().flow().cancel_sealing();
  cut();
  reconnect();
  end_step();
  EXPECT_EQ(ends, std::vector<Answer>{Errc::kConnectionLost});
  EXPECT_TRUE(carrier().sent.empty()) << "it is sealed by half, perhaps";
}

TEST_F(SealedFlowTest, CloseCancelsASealAlsoWithoutAConnection) {
  auth.seals_later = true;
  (void)start();
  client().is_refused = true;
  cut();
  EXPECT_EQ(auth.cancelled, 0) << "it may go over the next connection";
  client().close();
  client().progress();
  EXPECT_GE(auth.cancelled, 1);
  end_step();
  EXPECT_EQ(ends, std::vector<Answer>{Errc::kCanceled});
}

TEST_F(SealedFlowTest, NothingGoesOutOfAStepThatEndsAfterClose) {
  auth.seals_later = true;
  (void)start();
  client().close();
  carrier().up = true;  // a close that goes on does not help the call
  end_step();
  EXPECT_EQ(ends, std::vector<Answer>{Errc::kCanceled});
  EXPECT_TRUE(carrier().sent.empty());
}

TEST_F(SealedFlowTest, ReplyIsReportedWhenItIsOpened) {
  auth.opens_later = true;
  (void)start();
  answer(0);
  EXPECT_TRUE(ends.empty());
  end_step();
  EXPECT_EQ(ends, std::vector<Answer>{std::nullopt});
}

TEST_F(SealedFlowTest, ReplyThatAsksForItHasTheCallSealedAndSentOnceMore) {
  auth.asks_again = true;
  (void)start();
  answer(0);
  EXPECT_TRUE(ends.empty());
  ASSERT_EQ(carrier().sent.size(), 2U);
  EXPECT_EQ(carrier().sent[0], carrier().sent[1]);
  EXPECT_EQ(auth.seals.size(), 2U);
  answer(1);
  EXPECT_EQ(ends, std::vector<Answer>{std::nullopt});
}

}  // namespace
}  // namespace rpcrdma::rpc
