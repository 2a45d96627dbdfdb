// One life of a Call from its header to its reply, over a connection that is none.
#include "rpc/serve/serving.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/serve/serving_for_test.h"

namespace rpcrdma::rpc {
namespace {

constexpr std::uint32_t kProgram = 4711, kVersion = 2;
constexpr std::uint32_t kEcho = 1, kForbidden = 2, kAppend = 3;
constexpr AuthFlavor kSealed{390001};

// Echoes the arguments at once, unless the test has it keep the calls.
class EchoService final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    return find_traits(kTable, procedure);
  }
  AuthStatus check_credential(std::uint32_t procedure,
                              const Credential& /*credential*/) const noexcept override {
    return procedure == kForbidden ? AuthStatus::kTooWeak : AuthStatus::kOk;
  }
  void call(CallContext& context) override {
    ++executed;
    if (keeps_calls) {
      kept.push_back(&context);
    } else {
      answer(context);
    }
  }
  static void answer(CallContext& context) {
    context.results().xdr().opaque_fixed(context.arguments().xdr().rest());
    context.succeed();
  }

  bool keeps_calls = false;
  int executed = 0;
  std::vector<CallContext*> kept;

 private:
  static constexpr std::array kTable{
      ProcedureTraits{.number = kEcho, .is_idempotent = true},
      ProcedureTraits{.number = kForbidden, .is_idempotent = true},
      ProcedureTraits{.number = kAppend, .is_idempotent = false},
  };
};

enum class Step : std::uint8_t { kAccept, kUnwrap, kSeal };

// Wraps by brackets. The step that is `later` ends when finish() is called.
class BracketAuth final : public ServerAuth {
 public:
  StepEnd accept(CallAcceptance& call, AuthStep& step) override {
    call.status = status;
    call.is_wrapped = wraps;
    call.state = this;
    return end(Step::kAccept, call, step);
  }
  StepEnd unwrap(CallAcceptance& call, AuthStep& step) override {
    const MutableBytes wrapped = *call.arguments;
    call.arguments.reset();
    if (wrapped.size() >= 8) call.arguments = wrapped.subspan(4, wrapped.size() - 8);
    return end(Step::kUnwrap, call, step);
  }
  StepEnd seal(CallAcceptance& call, AuthStep& step) override {
    ++sealed;
    if (!call.results.empty()) call.enclosure = Enclosure{as_bytes("[[[["), as_bytes("]]]]")};
    return end(Step::kSeal, call, step);
  }
  void forget(CallAcceptance& /*call*/) noexcept override { ++forgotten; }
  // Ends the step that was begun last, on whatever thread.
  void finish() {
    if (ends_connection == later) call_->ends_connection = kWhy;
    std::exchange(step_, nullptr)->finish();
  }

  static constexpr std::string_view kWhy = "a call was replayed";
  AuthStatus status = AuthStatus::kOk;
  bool wraps = false;
  std::optional<Step> later;
  std::optional<Step> ends_connection;
  int sealed = 0, forgotten = 0;

 private:
  static Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
  StepEnd end(Step of, CallAcceptance& call, AuthStep& step) {
    if (of == later) {
      step_ = &step;
      call_ = &call;
      return StepEnd::kPending;
    }
    if (of == ends_connection) call.ends_connection = kWhy;
    return StepEnd::kDone;
  }

  AuthStep* step_ = nullptr;
  CallAcceptance* call_ = nullptr;
};

class ServingTest : public ::testing::Test {
 protected:
  ServingTest() {
    EXPECT_TRUE(registry_.add(kProgram, kVersion, service_));
    EXPECT_TRUE(registry_.accept_flavor(kSealed, auth_));
  }
  static MessageForTest call_of(std::uint32_t procedure, std::string_view arguments = {},
                                std::uint32_t xid = 5) {
    return encode_for_test({Xid{xid}, {kProgram, kVersion, procedure}, {}, {}}, arguments);
  }
  static MessageForTest sealed_call_of(std::uint32_t procedure, std::string_view arguments) {
    return encode_for_test({Xid{5}, {kProgram, kVersion, procedure}, {kSealed, {}}, {}}, arguments);
  }
  void expect_given_up(NoReply why) const {
    EXPECT_TRUE(carrier_.replies.empty());
    EXPECT_EQ(carrier_.given_up, std::vector{why});
    EXPECT_EQ(carrier_.serving.steps(), 0U);
  }

  EchoService service_;
  BracketAuth auth_;
  oncrpc::ServiceRegistry registry_;
  ReplyCache cache_{16, 1U << 16U};
  MailboxForTest mailbox_;
  CarrierForTest carrier_{registry_, cache_, mailbox_};
};

// --- Without steps -----------------------------------------------------------------------------

TEST_F(ServingTest, CallIsExecutedAndAnswered) {
  carrier_.receive(call_of(kEcho, "text"));
  EXPECT_EQ(carrier_.status(), AcceptStatus::kSuccess);
  EXPECT_EQ(carrier_.replies.front().header.xid, Xid{5});
  EXPECT_EQ(carrier_.results(), "text");
  EXPECT_TRUE(carrier_.serving.has_served());
}

TEST_F(ServingTest, NullIsAnsweredWithoutTheService) {
  carrier_.receive(call_of(0, "text"));
  EXPECT_EQ(carrier_.status(), AcceptStatus::kSuccess);
  EXPECT_EQ(carrier_.results(), "");
  EXPECT_EQ(service_.executed, 0);
  EXPECT_FALSE(carrier_.serving.has_served());
}

TEST_F(ServingTest, UnknownProgramIsUnavailable) {
  carrier_.receive(encode_for_test({Xid{5}, {kProgram + 1, kVersion, kEcho}, {}, {}}));
  EXPECT_EQ(carrier_.status(), AcceptStatus::kProgUnavail);
  EXPECT_EQ(service_.executed, 0);
}

TEST_F(ServingTest, UnknownVersionIsRefusedWithTheVersionsThatAreServed) {
  carrier_.receive(encode_for_test({Xid{5}, {kProgram, kVersion + 1, kEcho}, {}, {}}));
  ASSERT_EQ(carrier_.status(), AcceptStatus::kProgMismatch);
  const auto& accepted = std::get<oncrpc::Accepted>(carrier_.replies.front().header.body);
  EXPECT_EQ(accepted.versions.low, kVersion);
  EXPECT_EQ(accepted.versions.high, kVersion);
}

TEST_F(ServingTest, CredentialThatTheServiceDoesNotTakeIsDenied) {
  carrier_.receive(call_of(kForbidden));
  EXPECT_EQ(carrier_.denial(), AuthStatus::kTooWeak);
  EXPECT_EQ(service_.executed, 0);
}

TEST_F(ServingTest, CredentialOfAnUnknownFlavorIsDenied) {
  const Credential stranger{AuthFlavor{4242}, {}};
  carrier_.receive(encode_for_test({Xid{5}, {kProgram, kVersion, kEcho}, stranger, {}}));
  EXPECT_EQ(carrier_.denial(), AuthStatus::kBadCredential);
  EXPECT_EQ(service_.executed, 0);
}

TEST_F(ServingTest, ReplyInPlaceOfACallGetsNone) {
  MessageForTest message = call_of(kEcho);
  message[7] = std::byte{1};
  carrier_.receive(std::move(message));
  expect_given_up(NoReply::kIsReply);
}

TEST_F(ServingTest, CallThatEndsInsideOfItsHeaderGetsNoReply) {
  MessageForTest message = call_of(kEcho);
  message.resize(message.size() - 4);
  carrier_.receive(std::move(message));
  expect_given_up(NoReply::kCutOff);
}

TEST_F(ServingTest, CallWithoutMemoryForItsReplyIsNotExecuted) {
  carrier_.room_max = 16;
  carrier_.receive(call_of(kEcho));
  EXPECT_EQ(carrier_.status(), AcceptStatus::kSystemErr);
  EXPECT_EQ(service_.executed, 0);
}

TEST_F(ServingTest, ReplyThatTheConnectionCannotCarryBecomesAnError) {
  carrier_.refuses_next = true;
  carrier_.receive(call_of(kEcho, "text"));
  EXPECT_EQ(carrier_.status(), AcceptStatus::kSystemErr);
}

TEST_F(ServingTest, AnswerOutsideOfTheTurnTakesTheMailbox) {
  service_.keeps_calls = true;
  carrier_.receive(call_of(kEcho, "text"));
  EchoService::answer(*service_.kept.front());
  EXPECT_TRUE(carrier_.replies.empty());
  EXPECT_EQ(mailbox_.delivered, 1);
  mailbox_.take();
  EXPECT_EQ(carrier_.status(), AcceptStatus::kSuccess);
  EXPECT_EQ(carrier_.results(), "text");
  EXPECT_EQ(carrier_.turns_wanted, 1);  // to send it
}

TEST_F(ServingTest, AnswerInTheTurnGoesOutAtOnce) {
  carrier_.receive(call_of(kEcho, "text"));
  EXPECT_EQ(mailbox_.delivered, 0);
}

TEST_F(ServingTest, ServiceThatAnswersTwiceEndsTheProgram) {
  service_.keeps_calls = true;
  carrier_.receive(call_of(kEcho));
  mailbox_.in_turn = &carrier_;
  EchoService::answer(*service_.kept.front());
  EXPECT_DEATH(service_.kept.front()->fail(AcceptStatus::kSystemErr), "answered twice");
}

// --- With steps of authentication --------------------------------------------------------------

TEST_F(ServingTest, CallWaitsForAStepThatAcceptsItLater) {
  auth_.later = Step::kAccept;
  const CallForTest& call = carrier_.receive(sealed_call_of(kEcho, "text"));
  EXPECT_TRUE(call.waits_for_step());
  EXPECT_EQ(carrier_.serving.steps(), 1U);
  EXPECT_EQ(service_.executed, 0);
  auth_.finish();
  EXPECT_EQ(service_.executed, 0);  // the step may have ended on another thread
  mailbox_.in_turn = &carrier_;
  mailbox_.take();
  EXPECT_EQ(carrier_.admitted, 1);
  EXPECT_EQ(service_.executed, 1);
  EXPECT_EQ(carrier_.status(), AcceptStatus::kSuccess);
  EXPECT_EQ(carrier_.results(), "text");
  EXPECT_EQ(carrier_.serving.steps(), 0U);
  EXPECT_EQ(carrier_.turns_wanted, 1);
}

TEST_F(ServingTest, StepThatDeniesTheCallLaterHasItDenied) {
  auth_.later = Step::kAccept;
  auth_.status = AuthStatus::kGssContextProblem;
  carrier_.receive(sealed_call_of(kEcho, "text"));
  auth_.finish();
  mailbox_.take();
  EXPECT_EQ(carrier_.denial(), AuthStatus::kGssContextProblem);
  EXPECT_EQ(service_.executed, 0);
  EXPECT_EQ(auth_.sealed, 0);
}

TEST_F(ServingTest, ProcedureIsJudgedAfterALateStep) {
  auth_.later = Step::kAccept;
  carrier_.receive(sealed_call_of(kForbidden, ""));
  auth_.finish();
  mailbox_.take();
  EXPECT_EQ(carrier_.denial(), AuthStatus::kTooWeak);
}

TEST_F(ServingTest, RefusalOfAnAcceptedCallIsSealed) {
  carrier_.receive(sealed_call_of(99, ""));
  EXPECT_EQ(carrier_.status(), AcceptStatus::kProcUnavail);
  EXPECT_EQ(auth_.sealed, 1);
}

TEST_F(ServingTest, ServiceGetsTheArgumentsUnwrappedAndItsResultsAreWrapped) {
  auth_.wraps = true;
  carrier_.receive(sealed_call_of(kEcho, "((((text))))"));
  EXPECT_EQ(carrier_.status(), AcceptStatus::kSuccess);
  EXPECT_EQ(carrier_.results(), "[[[[text]]]]");
}

TEST_F(ServingTest, CallWaitsForAStepThatUnwrapsItLater) {
  auth_.wraps = true;
  auth_.later = Step::kUnwrap;
  carrier_.receive(sealed_call_of(kEcho, "((((text))))"));
  EXPECT_EQ(service_.executed, 0);
  EXPECT_EQ(carrier_.serving.steps(), 1U);
  auth_.finish();
  mailbox_.in_turn = &carrier_;
  mailbox_.take();
  EXPECT_EQ(service_.executed, 1);
  EXPECT_EQ(carrier_.results(), "[[[[text]]]]");
}

TEST_F(ServingTest, ArgumentsThatCannotBeUnwrappedAreGarbage) {
  auth_.wraps = true;
  for (const bool is_later : {false, true}) {
    auth_.later = is_later ? std::optional(Step::kUnwrap) : std::nullopt;
    carrier_.replies.clear();
    carrier_.receive(sealed_call_of(kEcho, "text"));
    if (is_later) auth_.finish();
    mailbox_.take();
    EXPECT_EQ(carrier_.status(), AcceptStatus::kGarbageArgs);
  }
  EXPECT_EQ(service_.executed, 0);
  EXPECT_EQ(auth_.sealed, 2);
}

TEST_F(ServingTest, WrappedCallWithArgumentsOutsideOfItsMessageIsGarbage) {
  auth_.wraps = true;
  carrier_.placed = {{0, {}}};
  carrier_.receive(sealed_call_of(kEcho, "((((text))))"));
  EXPECT_EQ(carrier_.status(), AcceptStatus::kGarbageArgs);
  EXPECT_EQ(service_.executed, 0);
}

TEST_F(ServingTest, ReplyWaitsForAStepThatSealsItLater) {
  auth_.wraps = true;
  auth_.later = Step::kSeal;
  carrier_.receive(sealed_call_of(kEcho, "((((text))))"));
  EXPECT_EQ(service_.executed, 1);
  EXPECT_TRUE(carrier_.replies.empty());
  EXPECT_EQ(carrier_.serving.steps(), 1U);
  auth_.finish();
  mailbox_.take();
  EXPECT_EQ(carrier_.results(), "[[[[text]]]]");
  EXPECT_EQ(auth_.sealed, 1);
  EXPECT_EQ(carrier_.serving.steps(), 0U);
}

TEST_F(ServingTest, EachStepMayEndTheConnectionAtOnceOrLater) {
  int forgotten = 0;
  for (const bool is_later : {false, true}) {
    for (const Step step : {Step::kAccept, Step::kUnwrap, Step::kSeal}) {
      SCOPED_TRACE(forgotten);
      carrier_.given_up.clear();
      auth_.ends_connection = step;
      auth_.wraps = step == Step::kUnwrap;
      auth_.later = is_later ? std::optional(step) : std::nullopt;
      service_.executed = 0;
      carrier_.receive(sealed_call_of(kEcho, "((((text))))"));
      if (is_later) {
        EXPECT_TRUE(carrier_.given_up.empty());
        auth_.finish();
        mailbox_.in_turn = &carrier_;
        mailbox_.take();
      }
      expect_given_up(NoReply::kUnheard);
      EXPECT_EQ(carrier_.serving.why_ended(), BracketAuth::kWhy);
      EXPECT_EQ(service_.executed, step == Step::kSeal ? 1 : 0);
      EXPECT_EQ(auth_.forgotten, ++forgotten);
    }
  }
}

TEST_F(ServingTest, CallOfALostConnectionIsGivenUpWhenItsStepEnds) {
  auth_.wraps = true;
  for (const Step step : {Step::kAccept, Step::kUnwrap}) {
    carrier_.given_up.clear();
    carrier_.has_ended = false;
    auth_.later = step;
    carrier_.receive(sealed_call_of(kEcho, "((((text))))"));
    carrier_.has_ended = true;
    EXPECT_TRUE(carrier_.given_up.empty());  // the step may still use the call
    auth_.finish();
    mailbox_.take();
    expect_given_up(NoReply::kLost);
  }
  EXPECT_EQ(service_.executed, 0);
  EXPECT_EQ(auth_.forgotten, 2);
}

TEST_F(ServingTest, StepsThatEndWithTheServerAnswerNothing) {
  auth_.later = Step::kAccept;
  carrier_.receive(sealed_call_of(kEcho, "text"));
  auth_.finish();
  mailbox_.drop_steps();
  EXPECT_EQ(carrier_.serving.steps(), 0U);
  EXPECT_TRUE(carrier_.replies.empty());
  EXPECT_EQ(service_.executed, 0);
}

// --- Duplicates --------------------------------------------------------------------------------

// The arguments of a call by which duplicates are known are those in its chunks as well.
TEST_F(ServingTest, CallsThatDifferInTheirPlacedDataAloneAreNoDuplicates) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  const auto executed_with = [&](std::vector<MessageReader::Placed> placed) {
    carrier_.placed = std::move(placed);
    carrier_.receive(call_of(kAppend, "text"));
    return service_.executed;
  };
  EXPECT_EQ(executed_with({{44, bytes("abcd")}}), 1);
  EXPECT_EQ(executed_with({{44, bytes("abcd")}}), 1) << "the same call";
  EXPECT_EQ(executed_with({{44, bytes("abce")}}), 2);
  EXPECT_EQ(executed_with({{44, bytes("abc")}}), 3);
  EXPECT_EQ(executed_with({{48, bytes("abcd")}}), 4);
  EXPECT_EQ(executed_with({{44, bytes("abcd")}, {48, bytes("ef")}}), 5);
  EXPECT_EQ(executed_with({{44, bytes("abcd")}, {52, bytes("ef")}}), 6);
  EXPECT_EQ(executed_with({{44, bytes("abce")}, {52, bytes("ef")}}), 7) << "the first item differs";
  EXPECT_EQ(executed_with({}), 8);
  EXPECT_EQ(executed_with({{44, bytes("abcd")}}), 8) << "the first one again";
  EXPECT_EQ(carrier_.serving.cached_replies(), 2U);
}

// A client whose connection was lost makes its call again over another one.
class DuplicatesTest : public ServingTest {
 protected:
  DuplicatesTest() {
    service_.keeps_calls = true;
    carrier_.receive(call_of(kAppend, "text"));
  }
  void answer_first() {
    mailbox_.in_turn = &carrier_;
    EchoService::answer(*service_.kept.front());
    mailbox_.in_turn = nullptr;
  }

  CarrierForTest second_{registry_, cache_, mailbox_, "10.0.0.1:701"};
};

TEST_F(DuplicatesTest, DuplicateWaitsForItsFirstAndIsAnsweredWithItsResults) {
  second_.receive(call_of(kAppend, "text"));
  EXPECT_TRUE(second_.serving.waits_for_a_duplicate());
  EXPECT_FALSE(second_.retry_duplicates());
  EXPECT_TRUE(second_.replies.empty());
  answer_first();
  EXPECT_TRUE(second_.retry_duplicates());
  EXPECT_EQ(second_.status(), AcceptStatus::kSuccess);
  EXPECT_EQ(second_.results(), "text");
  EXPECT_EQ(service_.executed, 1);
  EXPECT_EQ(second_.serving.cached_replies(), 1U);
  EXPECT_FALSE(second_.serving.waits_for_a_duplicate());
}

TEST_F(DuplicatesTest, DuplicateIsExecutedWhenItsFirstHasFailed) {
  second_.receive(call_of(kAppend, "text"));
  mailbox_.in_turn = &carrier_;
  service_.kept.front()->fail(AcceptStatus::kSystemErr);
  service_.keeps_calls = false;
  EXPECT_TRUE(second_.retry_duplicates());
  EXPECT_EQ(service_.executed, 2);
  EXPECT_EQ(second_.status(), AcceptStatus::kSuccess);
}

TEST_F(DuplicatesTest, DuplicateOfAnAnsweredCallIsAnsweredAtOnce) {
  answer_first();
  second_.receive(call_of(kAppend, "text"));
  EXPECT_EQ(second_.status(), AcceptStatus::kSuccess);
  EXPECT_EQ(service_.executed, 1);
}

TEST_F(DuplicatesTest, IdempotentCallsAreExecutedAgain) {
  service_.keeps_calls = false;
  second_.receive(call_of(kEcho, "text"));
  second_.receive(call_of(kEcho, "text"));
  EXPECT_EQ(service_.executed, 3);
}

TEST_F(DuplicatesTest, WaitingDuplicateOfALostConnectionIsGivenUp) {
  second_.receive(call_of(kAppend, "text"));
  second_.has_ended = true;
  EXPECT_TRUE(second_.retry_duplicates());
  EXPECT_EQ(second_.given_up, std::vector{NoReply::kLost});
  EXPECT_FALSE(second_.serving.waits_for_a_duplicate());
  answer_first();
  EXPECT_FALSE(second_.retry_duplicates());
  EXPECT_TRUE(second_.replies.empty());
}

TEST_F(DuplicatesTest, OnlyThoseWhoseFirstHasEndedGoOn) {
  carrier_.receive(call_of(kAppend, "other", 6));
  second_.receive(call_of(kAppend, "text", 5));
  second_.receive(call_of(kAppend, "other", 6));
  answer_first();
  EXPECT_TRUE(second_.retry_duplicates());
  ASSERT_EQ(second_.replies.size(), 1U);
  EXPECT_EQ(second_.replies.front().header.xid, Xid{5});
  EXPECT_TRUE(second_.serving.waits_for_a_duplicate());
}

}  // namespace
}  // namespace rpcrdma::rpc
