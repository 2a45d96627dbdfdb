// Characteristics that change while the connection lives: what we ask the peer for, and what it
// asks of us (draft-dnoveck-nfsv4-rpcrdma-xcharext-02; table B5 of the specification sheet).
#include <gtest/gtest.h>

#include "engine/v2/option_side_for_test.h"

namespace rpcrdma::engine {
namespace {

std::string to_text(ChangeResult result) {
  switch (result) {
    case ChangeResult::kGranted:
      return "granted";
    case ChangeResult::kOther:
      return "other";
    case ChangeResult::kRejected:
      return "rejected";
    case ChangeResult::kLost:
      return "lost";
  }
  return "?";
}

Options raised_to(std::uint32_t size_max, std::uint32_t size = 8192) {
  Options options = of_size(size);
  options.receive_size_max = size_max;
  return options;
}

// --- What we ask for ---------------------------------------------------------------------------

class Asking : public ClientSide {
 protected:
  Asking() {
    begin();
    EXPECT_EQ(told(), "INITXCH 1=8192 2=1 3=0");
    side.receive(init(9, {{kSize, 8192}}));
    start(100);
    EXPECT_TRUE(sent());
    reply(100);  // the server has read INITXCH
  }
  bool ask(std::uint32_t size) {
    const bool asked = side.engine.option_port().ask(SmallValue::of(kSize, size));
    side.drain();
    return asked;
  }
  // Returns the outcome of the request: "granted", or "open".
  std::string end() {
    const auto end = side.engine.option_port().poll_change();
    if (!end) return "open";
    EXPECT_EQ(end->id, kSize);
    return to_text(end->result);
  }
};

TEST_F(Asking, IsGrantedAtOnce) {
  ASSERT_TRUE(ask(65'536));
  EXPECT_EQ(told(), "REQXCH 1=65536");
  EXPECT_EQ(link().inline_send, 8192U) << "it was only asked for";
  side.receive(response(told_xid, {0}, {}, {}));
  EXPECT_EQ(end(), "granted");
  EXPECT_EQ(peer().receive_size, 65'536U);
  EXPECT_EQ(link().inline_send, 65'536U) << "who asks for it wants to send it";
}

TEST_F(Asking, IsRejected) {
  const auto answers = [&](std::uint32_t to) {
    return std::vector{response(to, {}, {0}, {}), response(to, {}, {}, {}),
                       response(to, {0}, {0}, {0}),  // the less hopeful word
                       message2({Xid{to}, 2, 8, v2::ErrInvalOption{}}),
                       message2({Xid{to}, 2, 8, v2::ErrBadHeader{}})};
  };
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(ask(65'536));
    EXPECT_EQ(told(), "REQXCH 1=65536");
    side.receive(answers(told_xid)[i]);
    EXPECT_EQ(end(), "rejected") << i;
    EXPECT_EQ(link().inline_send, 8192U);
  }
}

TEST_F(Asking, IsGrantedLater) {
  ASSERT_TRUE(ask(65'536));
  EXPECT_EQ(told(), "REQXCH 1=65536");
  side.receive(response(told_xid, {}, {}, {0}));
  EXPECT_EQ(end(), "open");
  EXPECT_EQ(link().inline_send, 8192U);
  side.receive(update(77, {{kSize, 16'384}}));
  EXPECT_EQ(end(), "open") << "a step on the way (X-13)";
  EXPECT_EQ(link().inline_send, 16'384U);
  side.receive(update(78, {{kSize, 65'536}}, true));
  EXPECT_EQ(end(), "granted");
  EXPECT_EQ(link().inline_send, 65'536U);
}

TEST_F(Asking, EndsWithAnotherValue) {
  ASSERT_TRUE(ask(65'536));
  EXPECT_EQ(told(), "REQXCH 1=65536");
  side.receive(response(told_xid, {}, {}, {0}));
  side.receive(update(77, {{kBackward, 0}}, true));
  EXPECT_EQ(end(), "open") << "that is of something else";
  side.receive(update(78, {{kSize, 8192}}, true));
  EXPECT_EQ(end(), "other");
  EXPECT_EQ(link().inline_send, 8192U);
}

TEST_F(Asking, IsClearedInFrontOfTheAnswer) {
  ASSERT_TRUE(ask(65'536));
  EXPECT_EQ(told(), "REQXCH 1=65536");
  side.receive(update(78, {{kSize, 65'536}}, true));
  EXPECT_EQ(end(), "open");
  side.receive(response(told_xid, {}, {}, {0}));
  EXPECT_EQ(end(), "granted");
}

TEST_F(Asking, TakesAnswersByTheirXid) {
  ASSERT_TRUE(ask(65'536));
  EXPECT_EQ(told(), "REQXCH 1=65536");
  side.receive(response(told_xid + 1, {0}, {}, {}));
  EXPECT_EQ(end(), "open");
  EXPECT_EQ(peer().receive_size, 8192U);
  side.receive(response(told_xid, {0}, {}, {}));
  side.receive(response(told_xid, {}, {0}, {}));
  EXPECT_EQ(end(), "granted");
  EXPECT_EQ(end(), "open") << "each ends once";
}

TEST_F(Asking, OneAtATimeForEachAndOneWithoutAnAnswer) {
  ASSERT_TRUE(ask(65'536));
  EXPECT_FALSE(ask(32'768));
  ASSERT_TRUE(side.engine.option_port().ask(SmallValue::of(kInvalidation, 1)));
  side.drain();
  EXPECT_EQ(told(), "REQXCH 1=65536");
  EXPECT_EQ(told(), "nothing") << "the first has no answer yet";
  const std::uint32_t first = told_xid;
  side.receive(response(first, {}, {}, {0}));
  EXPECT_EQ(told(), "REQXCH 2=1") << "the first is pending";
  EXPECT_NE(told_xid, first);
}

TEST_F(Asking, MayAskAgain) {
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(ask(65'536)) << i;
    EXPECT_EQ(told(), "REQXCH 1=65536");
    side.receive(response(told_xid, {}, {0}, {}));
    EXPECT_EQ(end(), "rejected");
  }
}

// what is planned and not sent yet goes first; nothing large is planned from now on.
TEST_F(Asking, ForLessHoldsItsOwnSendsBack) {
  start(2, 6000);
  ASSERT_TRUE(ask(4096));
  EXPECT_EQ(link().inline_send, 4096U);
  const auto send = side.take_action<PostSend>();
  ASSERT_TRUE(send);
  EXPECT_GT(send->gather.at(0).size, 5999U) << "the Call that was there first";
  side.done(send->id);
  EXPECT_EQ(told(), "REQXCH 1=4096");
  side.receive(response(told_xid, {0}, {}, {}));
  EXPECT_EQ(end(), "granted");
  EXPECT_EQ(link().inline_send, 4096U);
}

TEST_F(Asking, ForLessWaitsForCallsThatWaitForCredits) {
  for (std::uint32_t call = 2; call <= 5; ++call) {
    start(call);
    ASSERT_TRUE(sent());
  }
  start(6, 6000);
  ASSERT_TRUE(ask(4096));
  EXPECT_EQ(told(), "nothing") << "the peer granted four credits";
  reply(2);
  ASSERT_TRUE(sent());
  EXPECT_EQ(told(), "nothing") << "the larger Call has the fourth credit";
  reply(3);
  EXPECT_EQ(told(), "REQXCH 1=4096");
}

TEST_F(Asking, ForLessIsLimitedUntilItIsRejected) {
  ASSERT_TRUE(ask(4096));
  EXPECT_EQ(told(), "REQXCH 1=4096");
  EXPECT_EQ(link().inline_send, 4096U);
  side.receive(response(told_xid, {}, {0}, {}));
  EXPECT_EQ(end(), "rejected");
  EXPECT_EQ(link().inline_send, 8192U);
}

TEST_F(Asking, ForLessIsLimitedWhileItIsPending) {
  ASSERT_TRUE(ask(4096));
  EXPECT_EQ(told(), "REQXCH 1=4096");
  side.receive(response(told_xid, {}, {}, {0}));
  side.receive(update(70, {{kSize, 8192}}));
  EXPECT_EQ(link().inline_send, 4096U);
  side.receive(update(71, {{kSize, 8192}}, true));
  EXPECT_EQ(end(), "other");
  EXPECT_EQ(link().inline_send, 8192U);
}

TEST_F(Asking, EndsWhereThePeerDoesNotAnswer) {
  ASSERT_TRUE(ask(4096));
  EXPECT_EQ(told(), "REQXCH 1=4096");
  const auto deadline = side.now + Options{}.offer_timeout;
  ASSERT_LE(*side.engine.poll_timeout(), deadline);
  side.now = deadline - std::chrono::nanoseconds(1);
  side.engine.handle_timeout(side.now);
  EXPECT_EQ(end(), "open");
  side.now = deadline;
  side.engine.handle_timeout(side.now);
  side.drain();
  EXPECT_EQ(end(), "rejected");
  EXPECT_EQ(link().inline_send, 4096U) << "the peer may have done it";
  side.receive(response(told_xid, {}, {0}, {}));
  EXPECT_EQ(end(), "open") << "too late";
}

// Only what was asked limits the Sends.
TEST_F(Asking, EndOfAnotherRequestLowersNothing) {
  for (std::uint32_t call = 2; call <= 4; ++call) {
    start(call);
    ASSERT_TRUE(sent());
  }
  ASSERT_TRUE(side.engine.option_port().ask(SmallValue::of(kInvalidation, 1)));
  side.drain();
  EXPECT_EQ(told(), "REQXCH 2=1") << "with the last of four credits";
  start(6, 6000);
  start(7, 6000);
  ASSERT_TRUE(ask(4096));
  side.now += Options{}.offer_timeout;
  side.engine.handle_timeout(side.now);
  side.drain();
  EXPECT_EQ(peer().receive_size, 8192U);
  ASSERT_TRUE(sent()) << "the Call that has the credit of the request now";
  EXPECT_EQ(told(), "nothing") << "a Call of 6000 bytes waits for a credit";
}

// The peer may lower to what was asked for, from the request on.
TEST_F(Asking, KeepsToWhatItAskedForWhenThePeerGrowsMeanwhile) {
  ASSERT_TRUE(ask(16'384));
  EXPECT_EQ(told(), "REQXCH 1=16384");
  side.receive(update(70, {{kSize, 65'536}}));
  EXPECT_EQ(link().inline_send, 16'384U);
  side.receive(response(told_xid, {}, {0}, {}));
  EXPECT_EQ(end(), "rejected");
  EXPECT_EQ(link().inline_send, 16'384U) << "as much as it likes to send";
}

TEST_F(Asking, IsLostWithTheConnection) {
  ASSERT_TRUE(ask(65'536));
  side.engine.handle_disconnected();
  EXPECT_EQ(end(), "lost");
  EXPECT_FALSE(ask(65'536));
}

TEST(AskingTooEarly, IsRefused) {
  Endpoint side(Role::kClient, of_size(8192));
  EXPECT_FALSE(side.engine.option_port().ask(SmallValue::of(kSize, 65'536)))
      << "the peer may have version 1";
  EXPECT_FALSE(side.engine.option_port().raise_receive_size(65'536));
}

// --- What the peer asks for --------------------------------------------------------------------

class Asked : public ServerSide {
 protected:
  explicit Asked(const Options& options = raised_to(65'536)) : ServerSide(options) {}
  void use_up(std::uint32_t receives) {
    for (std::uint32_t i = 0; i < receives; ++i) side.receive(update(1000 + i, {{kBackward, 1}}));
  }
  std::uint32_t own_size() const {
    return side.engine.option_port().characteristics().own().receive_size;
  }
  // Answers the REQXCH that went out last, as one who has nothing to change.
  void answer() { side.receive(response(told_xid, {0}, {}, {})); }
};

TEST_F(Asked, ForMoreTellsItWhenNoSmallerReceiveIsLeft) {
  side.receive(request(9, {{kSize, 65'536}}));
  EXPECT_EQ(told(), "RESPXCH 0 pending");
  EXPECT_EQ(told_xid, 9U);
  EXPECT_EQ(told(), "REQXCH 2=0") << "its answer uses up a Receive";
  EXPECT_EQ(side.receive_size_, 65'536U);
  // Seven were posted: the eighth was that of the request, which is larger since.
  use_up(6);
  EXPECT_EQ(told(), "nothing");
  EXPECT_EQ(own_size(), 8192U);
  use_up(1);
  EXPECT_EQ(told(), "UPDXCH 1=65536 clears");
  EXPECT_EQ(own_size(), 65'536U);
  auto large = message2({Xid{50}, 2, 8, v2::Msg{v2::Direction::kCall}}, 60'000);
  side.receive(std::move(large));
  EXPECT_TRUE(side.take_event<CallReceived>());
}

// The client would keep the smaller Receives for ever where it makes no Calls.
TEST_F(Asked, ForMoreByAnIdlePeerUsesTheReceivesUp) {
  side.receive(request(9, {{kSize, 65'536}}));
  EXPECT_EQ(told(), "RESPXCH 0 pending");
  std::uint32_t exchanges = 0;
  std::string said;
  for (said = told(); said == "REQXCH 2=0"; said = told(), ++exchanges) answer();
  EXPECT_EQ(said, "UPDXCH 1=65536 clears");
  EXPECT_EQ(exchanges, 7U);
  EXPECT_EQ(told(), "nothing");
}

TEST_F(Asked, ForMoreStaysPendingWhereThePeerDoesNotAnswer) {
  side.receive(request(9, {{kSize, 65'536}}));
  EXPECT_EQ(told(), "RESPXCH 0 pending");
  EXPECT_EQ(told(), "REQXCH 2=0");
  side.now = *side.engine.poll_timeout();
  side.engine.handle_timeout(side.now);
  side.drain();
  EXPECT_EQ(told(), "nothing");
  use_up(1);
  EXPECT_EQ(told(), "REQXCH 2=0") << "it speaks again";
  use_up(6);
  EXPECT_EQ(told(), "UPDXCH 1=65536 clears");
}

TEST_F(Asked, ForMoreWhereThereIsNoMemoryEndsWithTheOldValue) {
  side.has_memory = false;
  side.receive(request(9, {{kSize, 65'536}}));
  EXPECT_EQ(told(), "RESPXCH 0 pending");
  EXPECT_EQ(told(), "UPDXCH 1=8192 clears");
  EXPECT_EQ(own_size(), 8192U);
}

TEST_F(Asked, ForMoreThanItMayHaveRejects) {
  side.receive(request(9, {{kSize, 65'537}}));
  EXPECT_EQ(told(), "RESPXCH 0 rejected");
  EXPECT_EQ(told(), "nothing");
}

TEST_F(Asked, ForMoreWhileItGrowsRejects) {
  side.receive(request(9, {{kSize, 32'768}}));
  EXPECT_EQ(told(), "RESPXCH 0 pending");
  EXPECT_EQ(told(), "REQXCH 2=0");
  for (const std::uint32_t size : {65'536U, 32'768U, 8192U, 4096U}) {
    side.receive(request(10, {{kSize, size}}));
    EXPECT_EQ(told(), "RESPXCH 0 rejected") << size;
  }
}

TEST_F(Asked, ForLessGetsItAtOnce) {
  side.receive(request(9, {{kSize, 4096}}));
  EXPECT_EQ(told(), "RESPXCH 0 done");
  EXPECT_EQ(own_size(), 4096U);
  EXPECT_EQ(side.receive_size_, 4096U);
  EXPECT_EQ(told(), "nothing");
  side.receive(request(10, {{kSize, 4095}}));
  EXPECT_EQ(told(), "RESPXCH 0 rejected") << "whoever speaks version 2 takes 4096";
}

// Replies that were planned for the larger size are under way.
TEST_F(Asked, ForLessSendsAsLargeRepliesAsBefore) {
  side.receive(update(70, {{kSize, 65'536}}));
  side.receive(request(9, {{kSize, 65'536}}));
  EXPECT_EQ(told(), "RESPXCH 0 pending");
  use_up(8);
  EXPECT_EQ(told(), "REQXCH 2=0");
  EXPECT_EQ(told(), "UPDXCH 1=65536 clears");
  side.receive(request(9, {{kSize, 4096}}));
  EXPECT_EQ(told(), "RESPXCH 0 done");
  EXPECT_EQ(link().inline_send, 65'536U);
}

TEST_F(Asked, ForWhatItHasIsDone) {
  side.receive(request(9, {{kSize, 8192}, {kInvalidation, 0}, {kBackward, 1}}));
  EXPECT_EQ(told(), "RESPXCH 0 done 1 done 2 done");
}

TEST_F(Asked, ForWhatDoesNotChangeRejects) {  // and for what it does not know
  side.receive(request(9, {{kInvalidation, 1}, {kBackward, 2}, {77, 5}, {0xffffff00, 5}}));
  EXPECT_EQ(told(), "RESPXCH 0 rejected 1 rejected 2 rejected 3 rejected");
}

TEST_F(Asked, ForWhatIsNoValueChangesNothing) {
  side.receive(request(9, {{kSize, 65'536}, {kInvalidation, 2}}));
  EXPECT_EQ(told(), "no option") << "BAD_HEADER";
  EXPECT_EQ(side.receive_size_, 8192U);
}

TEST_F(Asked, ForMoreBySeveralValuesTakesTheFirst) {
  side.receive(request(9, {{kSize, 16'384}, {kSize, 65'536}}));
  EXPECT_EQ(told(), "RESPXCH 0 pending 1 rejected");
}

TEST_F(Asked, ByNobodyTellsItsLargerSizeAsAnUpdate) {
  ASSERT_TRUE(side.engine.option_port().raise_receive_size(16'384));
  EXPECT_FALSE(side.engine.option_port().raise_receive_size(32'768)) << "one is under way";
  side.drain();
  while (told() == "REQXCH 2=0" && own_size() == 8192) answer();
  EXPECT_EQ(own_size(), 16'384U);
  EXPECT_FALSE(side.engine.option_port().raise_receive_size(16'384));
}

// No credit counts an UPDXCH: the peer has read the one before.
TEST_F(Asked, SendsNoUpdateThatThePeerMayHaveNoReceiveFor) {
  ASSERT_TRUE(side.engine.option_port().raise_receive_size(16'384));
  side.drain();
  use_up(8);
  EXPECT_EQ(told(), "REQXCH 2=0");
  EXPECT_EQ(told(), "UPDXCH 1=16384");
  ASSERT_TRUE(side.engine.option_port().raise_receive_size(32'768));
  side.drain();
  use_up(8);
  EXPECT_EQ(told(), "nothing") << "what was asked in front of the update says nothing of it";
  side.receive(response(told_xid + 1, {0}, {}, {}));
  EXPECT_EQ(told(), "REQXCH 2=0");
  answer();
  EXPECT_EQ(told(), "UPDXCH 1=32768");
}

// --- Both --------------------------------------------------------------------------------------

TEST_F(Asking, RaisesItsOwnSizeForLargerReplies) {
  side.receive(update(70, {{kSize, 65'536}}));
  EXPECT_EQ(link().inline_receive, 8192U);
  ASSERT_TRUE(side.engine.option_port().raise_receive_size(65'536));
  side.drain();
  std::string said;
  for (said = told(); said == "REQXCH 2=0"; said = told())
    side.receive(response(told_xid, {0}, {}, {}));
  EXPECT_EQ(said, "UPDXCH 1=65536");
  EXPECT_EQ(link().inline_receive, 65'536U);
}

}  // namespace
}  // namespace rpcrdma::engine
