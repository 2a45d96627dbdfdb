// How a client makes its next connections, in virtual time.
#include "rpc/call/connector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "rpc/call/carrier_for_test.h"

namespace rpcrdma::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ConnectorTest : public testing::Test {
 protected:
  static ClientOptions options() {
    ClientOptions options;
    options.reconnect.enabled = true;
    options.reconnect.first_delay = milliseconds(100);
    options.reconnect.delay_max = milliseconds(1'600);
    options.call_timeout = seconds(1'000);
    return options;
  }
  void start() {
    auto call = std::move(client.flow().prepared().prepare({100, 1, 1}, 8).value());
    ASSERT_TRUE(client.start(std::move(call), [this](Expected<Reply, Error> reply) {
      ends.push_back(reply ? std::nullopt : std::optional(reply.error()));
    }));
  }
  void cut() {
    client.round([this] { client.carrier.cut(); });
  }
  void reconnect() {
    while (!client.carrier.up) client.pass(milliseconds(10));
    client.progress();  // sees that it is up
  }
  void answer_last() {
    client.round([this] { client.carrier.answer(client.carrier.sent.back()); });
  }
  // How long the client waits until it tries the next time.
  milliseconds next_delay() const {
    return std::chrono::duration_cast<milliseconds>(*client.connector.next_attempt() -
                                                    client.carrier.time);
  }

  std::vector<std::optional<Error>> ends;
  ClientForTest client{options()};
};

// Programs say max() for "for ever".
TEST(BackoffTest, TimesThatAreTooLongOrNegativeDoNotOverflow) {
  const milliseconds times[] = {
      milliseconds::min(),         milliseconds(-1),   milliseconds(0), milliseconds(10),
      std::chrono::hours(24 * 30), milliseconds::max()};
  for (const milliseconds first : times) {
    for (const milliseconds max : times) {
      ReconnectOptions options;
      options.first_delay = first;
      options.delay_max = max;
      Backoff backoff(options, 1);
      for (int i = 0; i < 25; ++i) {
        const auto delay = backoff.next();
        EXPECT_GE(delay, milliseconds(0));
        EXPECT_LE(delay, std::max(limited(max), milliseconds(1)));
      }
    }
  }
}

// A server that refuses at once would be asked as fast as this side can.
TEST(BackoffTest, WaitsBehindTheFirstTryThoughTheProgramWantsNoDelay) {
  for (const milliseconds max : {milliseconds(0), milliseconds(1), milliseconds(5'000)}) {
    ReconnectOptions options;
    options.first_delay = milliseconds(0);
    options.delay_max = max;
    Backoff backoff(options, 1);
    std::chrono::nanoseconds last{0};
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(backoff.next(), milliseconds(0));
      for (int i = 0; i < 20; ++i) {
        last = backoff.next();
        EXPECT_GE(last, std::chrono::microseconds(500)) << i;
      }
      EXPECT_LE(last, std::max(max, milliseconds(1)));
      EXPECT_GE(last, std::max(max, milliseconds(1)) / 2.0) << "it grows up to the limit";
      backoff.reset();
    }
  }
}

TEST_F(ConnectorTest, WaitsTwiceAsLongAfterEachFailureUpToTheLimit) {
  client.is_refused = true;
  cut();
  for (const int full : {100, 200, 400, 800, 1'600, 1'600}) {
    const milliseconds delay = next_delay();
    EXPECT_LE(delay, milliseconds(full));
    EXPECT_GE(delay, milliseconds(full / 2 - 1));
    const std::size_t before = client.attempts.size();
    client.pass(delay - milliseconds(1));
    EXPECT_EQ(client.attempts.size(), before);
    client.pass(milliseconds(2));
    EXPECT_EQ(client.attempts.size(), before + 1);
  }
}

TEST_F(ConnectorTest, ConnectionThatWasUpMakesTheNextDelayShort) {
  client.is_refused = true;
  cut();
  for (int i = 0; i < 5; ++i) client.pass(seconds(2));
  client.is_refused = false;
  reconnect();
  cut();
  EXPECT_LE(next_delay(), milliseconds(100));
}

// A resolver that answers when the test says so.
class FinderForTest final : public AddressFinder {
 public:
  explicit FinderForTest(FinderForTest*& own) { own = this; }
  void begin() override { ++asked; }
  std::vector<std::string> take() override { return std::exchange(answer, {}); }

  std::vector<std::string> answer;
  int asked = 0;
};

class NamedServer : public ConnectorTest {
 protected:
  void cut_for_good() {
    named.is_refused = true;
    named.round([this] { named.carrier.cut(); });
  }

  FinderForTest* finder = nullptr;  // named's
  ClientForTest named{options(), false, false, std::make_unique<FinderForTest>(finder)};
};

TEST_F(NamedServer, IsLookedUpAgainWhenAnAttemptHasFailed) {
  cut_for_good();
  EXPECT_EQ(finder->asked, 0) << "it is tried at its own address first";
  named.pass(seconds(2));
  EXPECT_EQ(named.attempts.back(), "first");
  EXPECT_EQ(finder->asked, 1);
  named.pass(seconds(2));  // no answer yet
  EXPECT_EQ(named.attempts.back(), "second");
  finder->answer = {"moved", "too"};
  named.pass(seconds(2));
  EXPECT_EQ(named.attempts.back(), "moved");
  named.pass(seconds(2));
  EXPECT_EQ(named.attempts.back(), "too");
  named.is_refused = false;
  named.pass(seconds(2));
  EXPECT_EQ(named.attempts.back(), "moved");
  EXPECT_TRUE(named.connected());
}

TEST_F(NamedServer, IsTriedFirstWhereItWasNotBefore) {
  cut_for_good();
  named.pass(seconds(2));
  finder->answer = {"second", "moved"};
  named.pass(seconds(2));
  EXPECT_EQ(named.attempts.back(), "moved");
  named.pass(seconds(2));
  EXPECT_EQ(named.attempts.back(), "second");
}

TEST_F(NamedServer, IsTriedInTurnThoughItsAddressesComeInAnyOrder) {
  cut_for_good();
  named.pass(seconds(2));
  for (const char* const next : {"second", "first", "second", "first"}) {
    finder->answer = {"second", "first"};
    named.pass(seconds(2));
    EXPECT_EQ(named.attempts.back(), next);
  }
}

TEST_F(NamedServer, KeepsItsAddressesWhenTheLookupFails) {
  cut_for_good();
  named.pass(seconds(2));
  for (const char* const next : {"second", "first", "second"}) {
    named.pass(seconds(2));
    EXPECT_EQ(named.attempts.back(), next);
  }
  EXPECT_EQ(finder->asked, 4);
}

TEST_F(ConnectorTest, TriesTheAddressOfTheLostConnectionFirstAndThenTheOthersInTurn) {
  client.is_refused = true;
  cut();
  for (int i = 0; i < 3; ++i) client.pass(seconds(2));
  EXPECT_EQ(client.attempts, (std::vector<std::string>{"first", "first", "second", "first"}));
}

TEST_F(ConnectorTest, ServerThatNeverTakesItsConnectionsIsAskedLessAndLessAndBlamesNoCall) {
  client.is_served = false;
  start();
  milliseconds last{0};
  for (int losses = 0; losses < 10; ++losses) {
    cut();
    last = next_delay();
    reconnect();
  }
  EXPECT_TRUE(ends.empty()) << "nobody has read the call";
  EXPECT_GE(last, milliseconds(800));
}

TEST_F(ConnectorTest, ServerThatEndsAllItsConnectionsIsAskedLessAndLessAndTheOthersInTurn) {
  milliseconds last{0};
  for (int losses = 0; losses < 10; ++losses) {
    cut();
    last = next_delay();
    reconnect();
  }
  EXPECT_GE(last, milliseconds(800));
  const std::vector<std::string> first(client.attempts.begin(), client.attempts.begin() + 5);
  EXPECT_EQ(first, (std::vector<std::string>{"first", "first", "first", "second", "first"}));
  start();
  answer_last();
  cut();
  EXPECT_LE(next_delay(), milliseconds(100)) << "a server that answers is there";
}

// As a server ends those that are idle.
TEST_F(ConnectorTest, ServerThatEndsConnectionsAfterAWhileIsThere) {
  for (int losses = 0; losses < 10; ++losses) {
    client.pass(seconds(60));
    cut();
    EXPECT_LE(next_delay(), milliseconds(100));
    reconnect();
  }
  EXPECT_EQ(client.attempts, std::vector<std::string>(11, "first"));
}

TEST_F(ConnectorTest, NothingIsLeftToWaitForAfterClose) {
  client.is_refused = true;
  cut();
  ASSERT_TRUE(client.connector.next_attempt());
  client.close();
  client.progress();
  EXPECT_EQ(client.connector.next_attempt(), std::nullopt);
}

TEST_F(ConnectorTest, ConnectsNoMoreWhenTheCallThatALossEndsClosesTheClient) {
  ClientOptions eager = options();
  eager.reconnect.first_delay = milliseconds(0);
  eager.reconnect.losses_max = 1;
  ClientForTest other{eager};
  auto call = other.flow().prepared().prepare({100, 1, 1}, 8);
  ASSERT_TRUE(call) << call.error().message();
  std::optional<Errc> end;
  ASSERT_TRUE(other.start(std::move(*call), [&](Expected<Reply, Error> reply) {
    if (!reply) end = reply.error().code;
    other.close();
  }));
  other.round([&] { other.carrier.cut(); });
  EXPECT_EQ(end, Errc::kConnectionLost);
  EXPECT_EQ(other.attempts, std::vector<std::string>{"first"});
  EXPECT_EQ(other.connector.next_attempt(), std::nullopt);
}

TEST_F(ConnectorTest, AfterTwoLossesWithoutAReplyCallsGoOneAtATime) {
  start();
  start();
  cut();
  reconnect();
  EXPECT_EQ(client.carrier.calls_in_flight(), 2U);
  cut();
  reconnect();
  EXPECT_EQ(client.carrier.calls_in_flight(), 1U);
  answer_last();
  EXPECT_EQ(client.carrier.calls_in_flight(), 1U) << "the reply has ended the suspicion";
  start();
  EXPECT_EQ(client.carrier.calls_in_flight(), 2U);
}

TEST_F(ConnectorTest, FailsACallThatWasAloneOnEachLostConnection) {
  start();
  for (int losses = 1; losses < 3; ++losses) {
    cut();
    EXPECT_TRUE(ends.empty());
    reconnect();
  }
  cut();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0]->code, Errc::kConnectionLost);
  EXPECT_EQ(ends[0]->cause,
            "it was cut; it was the only call under way on each of the last connections, and is "
            "not made again");
  start();
  reconnect();
  answer_last();
  EXPECT_EQ(ends.back(), std::nullopt);
}

TEST_F(ConnectorTest, CallThatWaitedBesideItIsNotBlamed) {
  start();
  cut();
  start();  // waits, and has never been sent
  client.is_refused = true;
  client.pass(seconds(2));
  client.is_refused = false;
  for (int losses = 1; losses < 3; ++losses) {
    reconnect();
    cut();
  }
  // Each loss of a single call counts for that call alone.
  EXPECT_TRUE(ends.empty());
}

TEST_F(ConnectorTest, ConnectionThatThisSideGaveUpBlamesNobody) {
  client.gave_up = true;
  start();
  for (int losses = 0; losses < 10; ++losses) {
    cut();
    reconnect();
  }
  EXPECT_TRUE(ends.empty());
}

TEST_F(ConnectorTest, TriesTheFirstConnectionAgainIfAskedToAndCallsWaitForIt) {
  ClientOptions eager = options();
  eager.reconnect.retries_first = true;
  ClientForTest other{eager, false, true};
  other.pass(milliseconds(99));
  other.pass(milliseconds(250));
  EXPECT_FALSE(other.ended());
  EXPECT_EQ(other.attempts, (std::vector<std::string>{"first", "second", "first"}));
  auto call = other.flow().prepared().prepare({100, 1, 1}, 8);
  ASSERT_TRUE(call) << call.error().message();
  bool is_answered = false;
  ASSERT_TRUE(other.start(std::move(*call),
                          [&](Expected<Reply, Error> reply) { is_answered = reply.has_value(); }));
  EXPECT_TRUE(other.carrier.sent.empty());
  other.is_refused = false;
  other.pass(seconds(1));
  other.progress();
  ASSERT_EQ(other.carrier.sent.size(), 1U);
  other.round([&] { other.carrier.answer(other.carrier.sent[0]); });
  EXPECT_TRUE(is_answered);
}

TEST_F(ConnectorTest, FirstConnectionThatFailsEndsAClientThatWasNotAskedToTryAgain) {
  ClientForTest other{options(), false, true};
  other.pass(seconds(100));
  EXPECT_EQ(other.attempts.size(), 1U);
  EXPECT_TRUE(other.ended());
  EXPECT_FALSE(other.flow().prepared().prepare({100, 1, 1}, 8));
}

TEST_F(ConnectorTest, WithoutTheOptionNothingIsTriedAgain) {
  ClientForTest other{ClientOptions{}};
  other.round([&] { other.carrier.cut(); });
  other.pass(seconds(100));
  EXPECT_EQ(other.attempts.size(), 1U);
  EXPECT_TRUE(other.ended());
}

}  // namespace
}  // namespace rpcrdma::rpc
