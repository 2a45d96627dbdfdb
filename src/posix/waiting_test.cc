#include "posix/waiting.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace rpcrdma::posix {
namespace {

using std::chrono::microseconds;

// Has news when it is looked at for the n-th time.
struct Connection {
  int looks_before_news = 1;
  int looks = 0;
};
bool look(Connection& connection) {
  return ++connection.looks >= connection.looks_before_news;
}

// A descriptor that is always ready.
struct Ready final : Watched {
  Ready() : descriptor(::eventfd(1, EFD_CLOEXEC)) {}
  void handle_ready(std::uint32_t /*events*/) override { ++told; }
  void handle_deadline() override { told_before_deadline = told; }
  Fd descriptor;
  int told = 0;
  int told_before_deadline = -1;
};

class WaitingTest : public ::testing::Test {
 protected:
  explicit WaitingTest(microseconds spin = microseconds(1'000'000))
      : reactor_(std::move(*Reactor::make())), waiting_(*reactor_, yielding_, spin) {
    EXPECT_TRUE(reactor_->watch(ready_.descriptor.value(), EPOLLIN, ready_));
  }
  ~WaitingTest() override { reactor_->unwatch(ready_.descriptor.value(), ready_); }
  void wait(std::vector<Connection*> connections, std::vector<Connection*> latest = {}) {
    waiting_.wait(connections, latest, moved_, look);
  }

  const std::unique_ptr<Reactor> reactor_;
  Ready ready_;
  // Whatever else runs on this machine, no yield is a long one.
  Yielding yielding_{std::chrono::hours(1)};
  bool moved_ = true;
  Waiting waiting_;
};
struct WaitingWithoutSpinTest : WaitingTest {
  WaitingWithoutSpinTest() : WaitingTest(microseconds::zero()) {}
};

TEST_F(WaitingTest, FindsNewsByItself) {
  Connection quiet{.looks_before_news = 100};
  Connection other{.looks_before_news = 3};
  wait({&quiet, &other});
  EXPECT_EQ(other.looks, 3);
  EXPECT_TRUE(moved_);
}

TEST_F(WaitingTest, LingersOnceForWhatIsNearAndNeverSleeps) {
  const auto linger = [this](Connection& connection) {
    return waiting_.linger(std::vector{&connection}, std::vector<Connection*>(), moved_, look);
  };
  Connection near{.looks_before_news = 3};
  EXPECT_TRUE(linger(near));
  EXPECT_EQ(near.looks, 3);
  EXPECT_TRUE(moved_);
  yielding_.give_up(Reactor::now());  // as behind a long yield: it does not pay
  EXPECT_FALSE(linger(near));
  EXPECT_EQ(near.looks, 3);
  EXPECT_FALSE(moved_);
  EXPECT_FALSE(linger(near)) << "before anything has moved";
}

TEST_F(WaitingTest, SeesThatAnotherThreadHasSomething) {
  Connection quiet{.looks_before_news = 1000};
  Connection waker{.looks_before_news = 1000};
  moved_ = true;
  waiting_.wait(std::vector{&quiet, &waker}, std::vector<Connection*>(), moved_,
                [&](Connection& connection) {
                  if (&connection == &waker && connection.looks == 5) reactor_->wake();
                  return look(connection);
                });
  EXPECT_EQ(quiet.looks, 6);
  waiting_.dispatch();
  EXPECT_EQ(ready_.told, 1) << "and asks the reactor, whatever else there is";
  EXPECT_FALSE(reactor_->is_woken());
}

TEST_F(WaitingTest, AsksTheReactorAllTheSameAfterSomeRounds) {
  Connection busy;
  for (int round = 1; round < 16; ++round) {
    wait({&busy});
    waiting_.dispatch();
    ASSERT_EQ(ready_.told, 0) << round;
  }
  wait({&busy});
  waiting_.dispatch();
  EXPECT_EQ(ready_.told, 1);
}

// This side was away while both came.
TEST_F(WaitingTest, TakesWhatIsReadyBeforeADeadlineThatHasComeAsWell) {
  reactor_->set_deadline(ready_, Reactor::now() - std::chrono::milliseconds(1));
  Connection busy;
  wait({&busy});
  waiting_.dispatch();
  EXPECT_EQ(ready_.told_before_deadline, 1);
}

TEST_F(WaitingTest, AsksTheReactorWhenItFoundNothing) {
  waiting_.dispatch();
  EXPECT_EQ(ready_.told, 1);
}

TEST_F(WaitingTest, SleepsAtOnceWhenNothingMovesAnyMore) {
  moved_ = false;
  Connection busy;
  wait({&busy});  // the reactor has something
  EXPECT_EQ(busy.looks, 0);
}

TEST_F(WaitingTest, SleepsWithoutConnections) {
  wait({});
  EXPECT_FALSE(moved_);
}

// The reactor knows which of many have news, for the price of looking at one.
TEST_F(WaitingTest, AsksTheReactorForNewsOfMany) {
  std::vector<Connection> many(5);
  wait({&many[0], &many[1], &many[2], &many[3], &many[4]});
  EXPECT_EQ(many[0].looks, 0);
  EXPECT_TRUE(moved_) << "it did not sleep";
  EXPECT_EQ(ready_.told, 0);
  waiting_.dispatch();
  EXPECT_EQ(ready_.told, 1);
}

// One connection that is busy among many that rest costs what it costs alone.
TEST_F(WaitingTest, LooksAtThoseOfManyThatHadNewsLast) {
  std::vector<Connection> many(5);
  const std::vector<Connection*> all{&many[0], &many[1], &many[2], &many[3], &many[4]};
  for (int round = 1; round < 4; ++round) {
    wait(all, {&many[3]});
    EXPECT_EQ(many[3].looks, round);
    waiting_.dispatch();
    ASSERT_EQ(ready_.told, 0) << round;
  }
  wait(all, {&many[3]});
  waiting_.dispatch();
  EXPECT_EQ(ready_.told, 1) << "the others do not wait for long";
  EXPECT_EQ(many[0].looks, 0);
}

TEST_F(WaitingTest, AsksTheReactorWhenThoseThatHadNewsHaveNone) {
  std::vector<Connection> many(5, Connection{.looks_before_news = 100});
  wait({&many[0], &many[1], &many[2], &many[3], &many[4]}, {&many[3]});
  EXPECT_EQ(many[3].looks, 1);
  waiting_.dispatch();
  EXPECT_EQ(ready_.told, 1);
}

TEST_F(WaitingTest, SleepsWhileYieldingIsGivenUp) {
  yielding_.give_up(Reactor::now() + std::chrono::hours(1));
  Connection busy;
  wait({&busy});
  EXPECT_EQ(busy.looks, 0);
}

TEST_F(WaitingWithoutSpinTest, SleepsAtOnce) {
  Connection busy;
  wait({&busy});
  EXPECT_EQ(busy.looks, 0);
  EXPECT_FALSE(moved_);
}

}  // namespace
}  // namespace rpcrdma::posix
