#include "engine/v2/option_credits.h"

#include <gtest/gtest.h>

#include "engine/v2/option_side_for_test.h"

namespace rpcrdma::engine {
namespace {

using Sort = OptionCredits::Sort;

CreditsV1 granted(std::uint32_t credits, std::uint32_t unanswered) {
  CreditsV1 result(64);
  result.grant(credits);
  for (; unanswered > 0; --unanswered) result.spend();
  return result;
}

TEST(OptionCreditsTest, OneWayOptionLeavesACreditForTheCallBehindIt) {
  OptionCredits options;
  EXPECT_FALSE(options.pass(Sort::kOneWay, granted(1, 0)));
  EXPECT_FALSE(options.is_waiting()) << "one credit is never enough, so Calls do not wait for it";
  EXPECT_FALSE(options.pass(Sort::kOneWay, granted(2, 1)));
  EXPECT_TRUE(options.pass(Sort::kOneWay, granted(2, 0)));
  EXPECT_EQ(options.held(1), 1U);
}

TEST(OptionCreditsTest, OneWayOptionCountsUntilACallBehindItIsAnswered) {
  OptionCredits options;
  ASSERT_TRUE(options.pass(Sort::kOneWay, granted(4, 2)));
  options.handle_reply();
  options.handle_reply();
  EXPECT_EQ(options.held(1), 1U) << "both Calls may have been answered before the option came";
  options.handle_reply();
  EXPECT_EQ(options.held(1), 0U);
}

TEST(OptionCreditsTest, RequestCountsUntilItsAnswer) {
  OptionCredits options;
  EXPECT_FALSE(options.pass(Sort::kRequest, granted(1, 1)));
  EXPECT_EQ(options.held(1), 1U) << "Calls leave it the next credit";
  EXPECT_TRUE(options.pass(Sort::kRequest, granted(1, 0)));
  options.handle_reply();
  EXPECT_EQ(options.held(0), 1U) << "a Call would take the Receive that the request may be in";
  options.request_ended(true);
  EXPECT_EQ(options.held(0), 0U);
}

TEST(OptionCreditsTest, AnswerToARequestShowsThatWhatWasSentBeforeIsRead) {
  OptionCredits options;
  ASSERT_TRUE(options.pass(Sort::kOneWay, granted(8, 0)));
  ASSERT_TRUE(options.pass(Sort::kRequest, granted(8, 0)));
  ASSERT_TRUE(options.pass(Sort::kOneWay, granted(8, 0)));
  EXPECT_EQ(options.held(1), 3U);
  options.request_ended(true);
  EXPECT_EQ(options.held(1), 1U) << "the second one came behind the request";
}

TEST(OptionCreditsTest, OptionsThatNothingAnswersNeverStopTheOnlyCall) {
  OptionCredits options;
  ASSERT_TRUE(options.pass(Sort::kOneWay, granted(2, 0)));
  EXPECT_FALSE(options.pass(Sort::kOneWay, granted(2, 0)));
  EXPECT_EQ(options.held(0), 0U) << "the server grants one credit from now on";
}

// One lost reply must not keep the other credit from Calls.
TEST(OptionCreditsTest, OptionReservesNothingOnceACallWasGivenUp) {
  OptionCredits options;
  ASSERT_FALSE(options.pass(Sort::kOneWay, granted(2, 1)));
  EXPECT_EQ(options.held(1), 1U);
  options.stop_reserving();
  EXPECT_EQ(options.held(1), 0U);
  EXPECT_FALSE(options.pass(Sort::kOneWay, granted(2, 1)));
  EXPECT_EQ(options.held(1), 0U);
  EXPECT_TRUE(options.pass(Sort::kOneWay, granted(3, 1)));
}

// The same, seen from the peer: it never finds more messages than it has granted credits.
class ClientThatIsGranted : public ClientSide {
 protected:
  void answer(std::uint32_t xid, std::uint32_t credits) {
    side.receive(
        message2({Xid{xid}, 2, credits, v2::Msg{v2::Direction::kReply}}, 24, RpcType::kReply));
    const auto ready = side.take_event<ReplyReady>();
    ASSERT_TRUE(ready);
    side.engine.requester().release(ready->call);
    side.drain();
  }
  std::uint32_t sent_xid() {
    const auto header = sent();
    return header ? static_cast<std::uint32_t>(header->xid) : 0;
  }
};

TEST_F(ClientThatIsGranted, OneCreditSendsNoOption) {
  start(1);
  start(2);
  EXPECT_EQ(sent_xid(), 1U);
  answer(1, 1);
  EXPECT_EQ(sent_xid(), 2U) << "and not INITXCH, for which there is no Receive";
  EXPECT_EQ(told(), "nothing");
  answer(2, 2);
  EXPECT_EQ(told(), "INITXCH 1=8192 2=1 3=0");
}

TEST_F(ClientThatIsGranted, TwoCreditsSendsOneCallBehindItsOption) {
  for (std::uint32_t xid = 1; xid <= 4; ++xid) start(xid);
  EXPECT_EQ(sent_xid(), 1U);
  answer(1, 2);
  const auto option = sent();
  ASSERT_TRUE(option);
  EXPECT_TRUE(std::holds_alternative<v2::Optional>(option->body));
  EXPECT_EQ(option->credits, 4U) << "it requests as its Calls do";
  EXPECT_EQ(sent_xid(), 2U);
  EXPECT_EQ(told(), "nothing");
  answer(2, 2);
  EXPECT_EQ(sent_xid(), 3U) << "the option was read before the Call behind it";
  EXPECT_EQ(sent_xid(), 4U);
}

TEST_F(ClientThatIsGranted, EveryCreditThatItUsesFindsOneForItsOption) {
  for (std::uint32_t xid = 1; xid <= 8; ++xid) start(xid);
  EXPECT_EQ(sent_xid(), 1U);
  answer(1, 1);
  EXPECT_EQ(sent_xid(), 2U);
  answer(2, 4);
  EXPECT_EQ(told(), "INITXCH 1=8192 2=1 3=0");
  for (std::uint32_t xid = 3; xid <= 5; ++xid) EXPECT_EQ(sent_xid(), xid);
  ASSERT_TRUE(side.engine.option_port().ask(SmallValue::of(kSize, 16384)));
  side.drain();
  EXPECT_EQ(told(), "nothing");
  answer(3, 4);
  EXPECT_EQ(told(), "REQXCH 1=16384");
  const std::uint32_t asked = told_xid;
  EXPECT_EQ(sent_xid(), 6U) << "INITXCH was read, and its credit is free";
  EXPECT_EQ(told(), "nothing");
  side.receive(response(asked, {0}, {}, {}));
  EXPECT_EQ(sent_xid(), 7U);
}

TEST_F(ClientThatIsGranted, CallInTheDirectionOfTheServerIsNoReply) {
  start(1);
  ASSERT_TRUE(sent());
  side.receive(message2({Xid{1}, 2, 4, v2::Msg{v2::Direction::kCall}}, 24, RpcType::kReply));
  EXPECT_FALSE(side.take_event<ReplyReady>());
  answer(1, 4);
  ASSERT_TRUE(sent());
  start(2);
  ASSERT_TRUE(sent());
  side.receive(message2({Xid{2}, 2, 4, v2::Msg{v2::Direction::kCall}}, 24, RpcType::kReply));
  EXPECT_FALSE(side.take_event<ReplyReady>()) << "the offer is over";
  EXPECT_EQ(side.engine.requester().calls_in_flight(), 1U);
}

TEST_F(ClientThatIsGranted, BadOptionWithTheXidOfACallLeavesTheCallAlone) {
  begin();
  ASSERT_TRUE(sent());
  start(2);
  ASSERT_TRUE(sent());
  auto bad = init(2, {});
  bad.resize(bad.size() - 4);  // its information is said to be longer
  side.receive(std::move(bad));
  const auto refusal = sent();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(*refusal, (v2::Header{Xid{2}, 2, 1, v2::ErrBadHeader{}})) << "no credit would be 0";
  EXPECT_EQ(side.engine.requester().calls_in_flight(), 1U);
}

}  // namespace
}  // namespace rpcrdma::engine
