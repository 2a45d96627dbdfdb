// How much of a long message a turn has, on machines of different kinds, in virtual time.
#include "rdma/siwarp/turn_size.h"

#include <gtest/gtest.h>

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
      const bool is_long = size_.bytes() == TurnSize::kLong;
      in_long += is_long ? 1 : 0;
      const auto turns = static_cast<unsigned>(TurnSize::kLong / size_.bytes());
      for (unsigned turn = 0; turn < turns; ++turn) {
        now_ += (is_long ? by_long : by_short) / turns;
        size_.sent(size_.bytes(), now_);
      }
    }
    return in_long / double(count);
  }

  TurnSize size_;
  Instant now_{std::chrono::hours(1)};
  int mine_ = 0, others_ = 0;
};

TEST_F(TurnSizeTest, IsShortAtFirst) {
  EXPECT_EQ(size_.bytes(), TurnSize::kShort);
  EXPECT_EQ(send(100, microseconds(200), microseconds(100)), 0.0);
}

TEST_F(TurnSizeTest, IsLongWhereThatIsFasterBehindATrial) {
  (void)send(1000, microseconds(200), microseconds(100));
  EXPECT_GT(send(10'000, microseconds(200), microseconds(100)), .97);
}

TEST_F(TurnSizeTest, StaysShortWhereThatIsFaster) {
  (void)send(1000, microseconds(100), microseconds(120));
  EXPECT_LT(send(10'000, microseconds(100), microseconds(120)), .03);
}

TEST_F(TurnSizeTest, IsTriedAgainWhenTheMachineHasChanged) {
  (void)send(5000, microseconds(200), microseconds(100));
  (void)send(5000, microseconds(100), microseconds(200));
  EXPECT_LT(send(10'000, microseconds(100), microseconds(200)), .03);
}

TEST_F(TurnSizeTest, IsShortAsSoonAsAnotherConnectionMovesAndForAWhile) {
  (void)send(5000, microseconds(200), microseconds(100));
  ASSERT_EQ(size_.bytes(), TurnSize::kLong);
  size_.moved(&others_);
  size_.sent(TurnSize::kLong, now_);
  EXPECT_EQ(size_.bytes(), TurnSize::kShort);
  EXPECT_EQ(send(100, microseconds(200), microseconds(100)), 0.0);
}

// The other one has moved last, and then both move by turns.
TEST_F(TurnSizeTest, StaysShortAsLongAsAnotherConnectionCallsNowAndThen) {
  for (int i = 0; i < 200; ++i) {
    size_.moved(&others_);
    EXPECT_EQ(send(50, microseconds(200), microseconds(100)), 0.0) << i;
  }
}

TEST_F(TurnSizeTest, IsNotDecidedByWindowsWithAPauseInThem) {
  for (int i = 0; i < 500; ++i) {
    // Messages by long turns happen to come behind a pause.
    if (size_.bytes() == TurnSize::kLong && i % 3 == 0) now_ += milliseconds(60);
    (void)send(4, microseconds(200), microseconds(100));
  }
  EXPECT_EQ(size_.bytes(), TurnSize::kLong);
}

}  // namespace
}  // namespace rpcrdma::rdma::siwarp
