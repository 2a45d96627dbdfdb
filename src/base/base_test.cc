#include <gtest/gtest.h>

#include <optional>

#include "base/bounded_vector.h"
#include "base/deadline.h"
#include "base/drain_watch.h"
#include "base/random.h"
#include "base/ring.h"

namespace rpcrdma {
namespace {

TEST(BoundedVector, RefusesTheValueBeyondItsBound) {
  BoundedVector<int, 2> values;
  EXPECT_TRUE(values.push_back(1));
  EXPECT_TRUE(values.push_back(2));
  EXPECT_FALSE(values.push_back(3));
  EXPECT_EQ(values.size(), 2U);
  EXPECT_EQ(values.back(), 2);
}

TEST(BoundedVector, AssignIsAllOrNothing) {
  BoundedVector<int, 2> values;
  const std::array<int, 3> three{1, 2, 3};
  EXPECT_FALSE(values.assign(three));
  EXPECT_TRUE(values.empty());
  EXPECT_TRUE(values.assign(std::span(three).first(2)));
  EXPECT_EQ(values[1], 2);
}

TEST(BoundedVectorDeathTest, IndexBeyondSizeIsOurBugAndAborts) {
  BoundedVector<int, 2> values;
  EXPECT_DEATH(values[0] = 1, "index out of range");
}

TEST(Deadline, IsATimeOrNever) {
  const Instant at{std::chrono::seconds(10)};
  Deadline deadline;
  EXPECT_FALSE(deadline);
  EXPECT_FALSE(deadline.is_over(at));
  EXPECT_EQ(std::optional<Instant>(deadline), std::nullopt);
  deadline = at;
  EXPECT_TRUE(deadline);
  EXPECT_EQ(*deadline, at);
  EXPECT_FALSE(deadline.is_over(at - std::chrono::nanoseconds(1)));
  EXPECT_TRUE(deadline.is_over(at));
  EXPECT_EQ(std::optional<Instant>(deadline), at);
  EXPECT_EQ(deadline, Deadline(std::optional<Instant>(at)));
  deadline.reset();
  EXPECT_EQ(deadline, Deadline(std::optional<Instant>()));
}

TEST(Deadline, IsLaterThanAnyTimeWhereItIsNever) {
  const Instant at{std::chrono::seconds(10)};
  EXPECT_EQ(earlier(Deadline(at), Deadline()), at);
  EXPECT_EQ(earlier(Deadline(), Deadline(at)), at);
  EXPECT_EQ(earlier(Deadline(at), Deadline(at + std::chrono::seconds(1))), at);
  EXPECT_FALSE(earlier(Deadline(), Deadline()));
}

TEST(DrainWatch, GivesBytesAYearAtMost) {
  using std::chrono::hours;
  const Instant now(hours(1));
  DrainWatch watch(hours(1), 1);
  watch.begin(std::uint64_t{1} << 40U, now);
  EXPECT_FALSE(watch.is_late(now + hours(24 * 365)));
  EXPECT_EQ(watch.deadline(), now + hours(24 * 365 + 1));
  DrainWatch fast(hours(1), 4'000'000'000);  // less than a nanosecond each
  fast.begin(std::uint64_t{1} << 40U, now);
  EXPECT_EQ(fast.deadline(), now + hours(1));
}

TEST(DrainWatch, GivesWhatIsUnderWayAFixedTimeAndThatOfItsBytes) {
  using std::chrono::seconds;
  DrainWatch watch(seconds(10), 100);
  const Instant start{seconds(1000)};
  EXPECT_FALSE(watch.deadline());
  watch.begin(400, start);
  EXPECT_EQ(watch.deadline(), start + seconds(14));
  watch.begin(200, start + seconds(5));
  watch.begin(300, start + seconds(6));
  EXPECT_EQ(watch.deadline(), start + seconds(14)) << "more to send gives no more time";
  watch.end(400, start + seconds(13));
  EXPECT_EQ(watch.deadline(), start + seconds(28)) << "both that are left: 10 s and 500 bytes";
  watch.begin(1'000'000, start + seconds(14));
  watch.end(200, start + seconds(20));
  EXPECT_EQ(watch.deadline(), start + seconds(28)) << "the third one has its time still";
  EXPECT_FALSE(watch.is_late(start + seconds(27)));
  watch.end(300, start + seconds(28));
  EXPECT_EQ(watch.deadline(), start + seconds(28 + 10 + 10'000));
  watch.end(1'000'000, start + seconds(30));
  EXPECT_FALSE(watch.deadline());
}

TEST(DrainWatch, SaysOnceThatTheTimeIsOver) {
  using std::chrono::seconds;
  DrainWatch watch(seconds(10), 100);
  const Instant end{seconds(10)};
  watch.begin(0, Instant{});
  EXPECT_FALSE(watch.is_late(end - seconds(1)));
  EXPECT_TRUE(watch.is_late(end));
  EXPECT_FALSE(watch.is_late(end)) << "nor is there a deadline that would wake anybody";
  EXPECT_FALSE(watch.deadline());
}

TEST(DrainWatch, LooksOnceMoreWhereThisSideWasAway) {
  using std::chrono::seconds;
  DrainWatch watch(seconds(10), 100);
  watch.begin(0, Instant{});
  const Instant late{seconds(60)};
  EXPECT_FALSE(watch.is_late(late));
  EXPECT_EQ(watch.deadline(), late + seconds(1));
  EXPECT_TRUE(watch.is_late(late + seconds(1)));
}

TEST(DrainWatch, EndsWithThePeerAndWithoutARate) {
  DrainWatch watch(std::chrono::seconds(10), 100);
  watch.begin(1, Instant{});
  watch.begin(1, Instant{});
  watch.stop();
  watch.end(1, Instant{});
  EXPECT_FALSE(watch.deadline());
  DrainWatch without(std::chrono::seconds(10), 0);
  without.begin(1, Instant{});
  EXPECT_FALSE(without.deadline());
}

TEST(Ring, KeepsOrderAcrossManyWraps) {
  Ring<int> ring(3);
  int next_out = 0;
  for (int in = 0; in < 100; ++in) {
    ring.push(in);
    if (ring.full()) {
      while (!ring.empty()) EXPECT_EQ(ring.pop(), next_out++);
    }
  }
}

// Wrapped around when it grows, in the middle of what is in it.
TEST(Ring, KeepsOrderWhileItGrows) {
  Ring<int> ring(1000);
  int next_in = 0, next_out = 0;
  for (int turn = 0; turn < 100; ++turn) {
    for (int i = 0; i < 15; ++i) ring.push(next_in++);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(ring.pop(), next_out++);
  }
  while (!ring.empty()) EXPECT_EQ(ring.pop(), next_out++);
  EXPECT_EQ(next_out, next_in);
}

TEST(Ring, ShowsTheLastValueAlsoWhereItsRoomBeginsAgain) {
  Ring<int> ring(64);
  for (int i = 0; i < 40; ++i) {
    ring.push(i);
    EXPECT_EQ(ring.back(), i);
    if (i % 2 == 1) ring.drop();
  }
  EXPECT_EQ(ring.front(), 20);
}

TEST(Ring, HoldsWhatItWasMadeForAndNoMore) {
  Ring<int> ring(33);
  EXPECT_EQ(ring.capacity(), 64U);
  for (int i = 0; i < 64; ++i) {
    EXPECT_FALSE(ring.full());
    ring.push(i);
  }
  EXPECT_TRUE(ring.full());
}

TEST(RingDeathTest, OneMoreThanItIsForIsOurBugAndAborts) {
  Ring<int> ring(2);
  ring.push(1);
  ring.push(2);
  EXPECT_DEATH(ring.push(3), "Ring is full");
}

// An event is handled in place, and what handles it causes others.
TEST(Ring, KeepsAnElementReadableWhileOthersAreAdded) {
  Ring<int> ring(1 << 12);
  ring.push(-1);
  const int& first = ring.front();
  for (int i = 0; !ring.full(); ++i) ring.push(i);
  EXPECT_EQ(first, -1);
}

TEST(SeededRandom, SameSeedSameStream) {
  SeededRandom a(7);
  SeededRandom b(7);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(SeededRandom(7).next(), SeededRandom(8).next());
}

}  // namespace
}  // namespace rpcrdma
