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

}  // namespace
}  // namespace rpcrdma::tcp
