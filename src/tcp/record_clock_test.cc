#include "tcp/record_clock.h"

#include <gtest/gtest.h>

namespace rpcrdma::tcp {
namespace {

using std::chrono::seconds;

TEST(RecordClock, GivesARecordItsTimeAndThatOfItsBytes) {
  RecordClock clock(seconds(10), 1000);
  const Instant begun{};
  clock.note_bytes(4);
  clock.start(begun);
  EXPECT_EQ(clock.deadline(), begun + seconds(10) + std::chrono::milliseconds(4));
  clock.stop(begun + seconds(9));
  clock.note_bytes(2996);
  clock.start(begun + seconds(100));
  EXPECT_EQ(clock.deadline(), begun + seconds(100) + seconds(1 + 3))
      << "nine seconds are spent, three more are earned";
}

TEST(RecordClock, BeginsAnewWithEachRecord) {
  RecordClock clock(seconds(10), 1000);
  const Instant begun{};
  clock.start(begun);
  clock.stop(begun + seconds(9));
  clock.note_record();
  EXPECT_FALSE(clock.runs());
  clock.start(begun + seconds(20));
  EXPECT_EQ(clock.deadline(), begun + seconds(30));
}

// It may have been this side that was away, while the peer had filled the socket at once.
TEST(RecordClock, GivesARecordALittleMoreTimeOnceWhereThisSideComesLate) {
  RecordClock clock(seconds(10), 1000);
  const Instant begun{};
  clock.start(begun + seconds(0));
  clock.stop(begun + seconds(11));
  clock.start(begun + seconds(11));
  EXPECT_EQ(clock.deadline(), begun + seconds(12));
  clock.stop(begun + seconds(30));
  clock.start(begun + seconds(30));
  EXPECT_LT(clock.deadline(), begun + seconds(30)) << "only once";
  clock.note_record();
  clock.start(begun + seconds(40));
  clock.stop(begun + seconds(51));
  clock.start(begun + seconds(51));
  EXPECT_EQ(clock.deadline(), begun + seconds(52)) << "the next record has a time of its own";
}

}  // namespace
}  // namespace rpcrdma::tcp
