// How much of a long message a turn has, on machines of different kinds, in virtual time.
#include "rdma/siwarp/turn_size.h"

#include <gtest/gtest.h>

#include <string>

namespace rpcrdma::rdma::siwarp {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class TurnSizeTest : public testing::Test {
 protected:
  // Has a connection send so many messages of 1 MiB, where each takes this time by short turns, and
  // that by long ones. Returns the share that went by long ones.
  double send(unsigned count, microseconds by_short, microseconds by_long) {
    unsigned in_long = 0;
    for (unsigned i = 0; i < count; ++i) {
      size_.moved(&mine_);
      const std::size_t bytes = size_.bytes();
      const bool is_long = bytes == TurnSize::kLong;
      in_long += is_long ? 1 : 0;
      const auto turns = static_cast<unsigned>(TurnSize::kLong / bytes);
      for (unsigned turn = 0; turn < turns; ++turn) {
        now_ += (is_long ? by_long : by_short) / turns;
        size_.sent(bytes, now_);
      }
    }
    return in_long / double(count);
  }
  // Passes the time in which only one connection has to have moved.
  void be_alone() {
    EXPECT_EQ(send(1, microseconds(100), microseconds(100)), 0.0);
    now_ += TurnSize::kAlone;
  }

  TurnSize size_;
  Instant now_{std::chrono::hours(1)};
  int mine_ = 0, others_ = 0;
};

TEST_F(TurnSizeTest, IsShortAtFirst) {
  EXPECT_EQ(size_.bytes(), TurnSize::kShort);
  EXPECT_EQ(send(1000, microseconds(200), microseconds(100)), 0.0);
}

TEST_F(TurnSizeTest, IsLongWhereThatIsFasterBehindATrial) {
  be_alone();
  (void)send(100, microseconds(200), microseconds(100));
  EXPECT_GT(send(10'000, microseconds(200), microseconds(100)), .97);
}

TEST_F(TurnSizeTest, StaysShortWhereThatIsFaster) {
  be_alone();
  (void)send(100, microseconds(100), microseconds(120));
  EXPECT_LT(send(10'000, microseconds(100), microseconds(120)), .03);
}

TEST_F(TurnSizeTest, StaysShortWhereBothAreAlike) {
  be_alone();
  (void)send(100, microseconds(100), microseconds(98));
  EXPECT_LT(send(10'000, microseconds(100), microseconds(98)), .03);
}

// A batch of several messages may have more than a turn, which is no reason to lose.
TEST_F(TurnSizeTest, CountsBytesAndNotWindows) {
  be_alone();
  double in_long = 0;
  constexpr unsigned kBatches = 20'000;
  for (unsigned i = 0; i < kBatches; ++i) {
    size_.moved(&mine_);
    const bool is_long = size_.bytes() == TurnSize::kLong;
    in_long += is_long ? 1 : 0;
    const std::size_t bytes = is_long ? TurnSize::kLong * 3 / 2 : TurnSize::kShort;
    now_ += std::chrono::nanoseconds(bytes / (is_long ? 11 : 10));
    size_.sent(bytes, now_);
  }
  EXPECT_GT(in_long / kBatches, .6);
}

TEST_F(TurnSizeTest, EachTrialHasTheSameWindowsOfBothKinds) {
  be_alone();
  (void)send(1, microseconds(100), microseconds(100));  // the first window begins behind it
  for (int trial = 0; trial < 3; ++trial) {
    std::string windows;
    for (unsigned i = 0; i < TurnSize::kTried + TurnSize::kKept; ++i) {
      const double in_long = send(8, microseconds(100), microseconds(100));
      ASSERT_TRUE(in_long == 0 || in_long == 1) << "a window has eight of them";
      windows += in_long > 0 ? 'L' : 'S';
    }
    EXPECT_EQ(windows, "SLLSSLLS" + std::string(TurnSize::kKept, 'S')) << trial;
  }
}

// A machine that gets slower all the while would have the second of two lose.
TEST_F(TurnSizeTest, IsNotDecidedByADrift) {
  be_alone();
  double time = 200;
  for (int i = 0; i < 80; ++i) {
    (void)send(1, microseconds(int(time)), microseconds(int(time * .9)));
    time *= 1.02;
  }
  EXPECT_EQ(size_.bytes(), TurnSize::kLong);
}

TEST_F(TurnSizeTest, IsTriedAgainWhenTheMachineHasChanged) {
  be_alone();
  (void)send(5000, microseconds(200), microseconds(100));
  (void)send(5000, microseconds(100), microseconds(200));
  EXPECT_LT(send(10'000, microseconds(100), microseconds(200)), .03);
}

TEST_F(TurnSizeTest, IsShortAsSoonAsAnotherConnectionMovesAndForAWhile) {
  be_alone();
  (void)send(2000, microseconds(200), microseconds(100));
  ASSERT_EQ(size_.bytes(), TurnSize::kLong);
  size_.moved(&others_);
  EXPECT_EQ(size_.bytes(), TurnSize::kShort);
  EXPECT_EQ(send(1000, microseconds(200), microseconds(100)), 0.0);
}

TEST_F(TurnSizeTest, StaysShortAsLongAsAnotherConnectionCallsNowAndThen) {
  be_alone();
  for (int i = 0; i < 50; ++i) {
    size_.moved(&others_);
    EXPECT_EQ(send(1000, microseconds(200), microseconds(100)), 0.0) << i;
  }
}

TEST_F(TurnSizeTest, ReadsAreWholeUntilAnotherConnectionMovesAndWhenItHasBeenQuietForAWhile) {
  size_.moved(&mine_);
  EXPECT_EQ(size_.read_piece(now_), 0U);
  size_.moved(&others_);
  EXPECT_EQ(size_.read_piece(now_), TurnSize::kShort / 2);
  size_.moved(&mine_);
  now_ += TurnSize::kAlone / 2;
  EXPECT_EQ(size_.read_piece(now_), TurnSize::kShort / 2) << "from here on it is quiet";
  size_.moved(&mine_);
  now_ += TurnSize::kAlone - milliseconds(1);
  EXPECT_EQ(size_.read_piece(now_), TurnSize::kShort / 2);
  now_ += milliseconds(1);
  EXPECT_EQ(size_.read_piece(now_), 0U);
}

TEST_F(TurnSizeTest, KnowsAConnectionFromAnEarlierOneAtItsAddress) {
  be_alone();
  (void)send(2000, microseconds(200), microseconds(100));
  size_.forget(&mine_);
  EXPECT_EQ(send(10, microseconds(200), microseconds(100)), 0.0);
}

TEST_F(TurnSizeTest, StaysWithItsDecisionWhenMessagesPauseNowAndThen) {
  be_alone();
  (void)send(200, microseconds(200), microseconds(100));
  ASSERT_EQ(size_.bytes(), TurnSize::kLong);
  for (int i = 0; i < 10; ++i) {
    now_ += std::chrono::seconds(1);
    EXPECT_EQ(send(100, microseconds(200), microseconds(100)), 1.0) << i;
  }
}

TEST_F(TurnSizeTest, IsShortWhereLongTurnsMakeAPause) {
  be_alone();
  EXPECT_LT(send(5000, microseconds(100), milliseconds(8)), .2);
  EXPECT_LT(send(5000, milliseconds(8), milliseconds(8)), .01) << "one after the other, slowly";
}

}  // namespace
}  // namespace rpcrdma::rdma::siwarp
