#include "mount/attribute_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <random>
#include <vector>

namespace mounts {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

nfs3::fattr3 file_of(std::uint64_t size, std::uint32_t change,
                     nfs3::ftype3 type = nfs3::ftype3::NF3REG) {
  nfs3::fattr3 made;
  made.type = type;
  made.size = size;
  made.mtime = {change, 0};
  made.ctime = {change, 0};
  return made;
}

nfs3::wcc_data change_of(const nfs3::fattr3& before, const nfs3::fattr3& after) {
  nfs3::wcc_data made;
  made.before.set_attributes({before.size, before.mtime, before.ctime});
  made.after.set_attributes(after);
  return made;
}

class AttributeCacheTest : public testing::Test {
 protected:
  void take(const nfs3::fattr3& found) { cache_.take(found, cache_.now_in_order(now_)); }
  bool is_fresh() const { return cache_.fresh(now_) != nullptr; }

  TimeOuts time_outs_;
  AttributeCache cache_{time_outs_};
  Time now_{std::chrono::hours(1)};
};

TEST_F(AttributeCacheTest, FileIsFreshForTheLeastTimeAtFirst) {
  EXPECT_FALSE(is_fresh());
  take(file_of(1, 1));
  now_ += milliseconds(2'999);
  EXPECT_TRUE(is_fresh());
  now_ += milliseconds(1);
  EXPECT_FALSE(is_fresh());
}

TEST_F(AttributeCacheTest, DirectoryHasTimeOutsOfItsOwn) {
  take(file_of(1, 1, nfs3::ftype3::NF3DIR));
  EXPECT_EQ(cache_.left(now_), seconds(30));
}

TEST_F(AttributeCacheTest, TimeOutGrowsWithTheAgeOfTheLastChangeUpToTheGreatest) {
  take(file_of(1, 1));
  now_ += seconds(10);
  take(file_of(1, 1));
  EXPECT_EQ(cache_.left(now_), seconds(10));
  now_ += seconds(1'000);
  take(file_of(1, 1));
  EXPECT_EQ(cache_.left(now_), seconds(60));
  now_ += seconds(60);
  take(file_of(1, 2));
  EXPECT_EQ(cache_.left(now_), seconds(3));
}

TEST_F(AttributeCacheTest, AttributesAreAsOldAsTheirCall) {
  const auto begun = cache_.now_in_order(now_);
  now_ += seconds(2);
  EXPECT_TRUE(cache_.take(file_of(1, 1), begun));
  EXPECT_EQ(cache_.left(now_), seconds(1));
  const auto next = cache_.now_in_order(now_);
  now_ += seconds(80);
  EXPECT_TRUE(cache_.take(file_of(1, 2), next));
  EXPECT_FALSE(is_fresh());
}

TEST_F(AttributeCacheTest, TimeOutsOfZeroAskEachTime) {
  time_outs_ = {milliseconds(0), milliseconds(0), milliseconds(0), milliseconds(0)};
  take(file_of(1, 1));
  EXPECT_FALSE(is_fresh());
}

TEST_F(AttributeCacheTest, ChangeElsewhereGrowsTheVersion) {
  take(file_of(1, 1));
  const auto before = cache_.version();
  take(file_of(1, 1));
  EXPECT_EQ(cache_.version(), before);
  take(file_of(1, 2));
  EXPECT_GT(cache_.version(), before);
}

TEST_F(AttributeCacheTest, OwnChangeKeepsTheVersion) {
  take(file_of(1, 1));
  const auto version = cache_.version();
  const auto begun = cache_.begin_change(now_);
  const auto change = change_of(file_of(1, 1), file_of(5, 2));
  cache_.end_change(&change, begun);
  EXPECT_EQ(cache_.version(), version);
  ASSERT_TRUE(is_fresh());
  EXPECT_EQ(cache_.fresh(now_)->size, 5U);
}

TEST_F(AttributeCacheTest, AttributesBehindAnOwnChangeAreAsOldAsItsCall) {
  const auto begun = cache_.begin_change(now_);
  now_ += seconds(2);
  const auto change = change_of(file_of(1, 1), file_of(5, 2));
  cache_.end_change(&change, begun);
  EXPECT_EQ(cache_.left(now_), seconds(1));
}

TEST_F(AttributeCacheTest, ChangeElsewhereBeforeOursGrowsTheVersion) {
  take(file_of(1, 1));
  const auto version = cache_.version();
  const auto begun = cache_.begin_change(now_);
  const auto change = change_of(file_of(1, 2), file_of(5, 3));
  cache_.end_change(&change, begun);
  EXPECT_GT(cache_.version(), version);
  EXPECT_TRUE(is_fresh());
}

TEST_F(AttributeCacheTest, ChangeWithoutConsistencyDataGrowsTheVersion) {
  take(file_of(1, 1));
  const auto version = cache_.version();
  cache_.end_change(nullptr, cache_.begin_change(now_));
  EXPECT_GT(cache_.version(), version);
  EXPECT_FALSE(is_fresh());
}

TEST_F(AttributeCacheTest, AttributesThatAChangeMayHaveOvertakenAreNotKept) {
  take(file_of(1, 1));
  const auto asked = cache_.now_in_order(now_);
  const auto begun = cache_.begin_change(now_);
  cache_.take(file_of(1, 1), asked);
  EXPECT_FALSE(is_fresh());
  const auto change = change_of(file_of(1, 1), file_of(5, 2));
  cache_.end_change(&change, begun);
  cache_.take(file_of(1, 1), asked);
  ASSERT_TRUE(is_fresh());
  EXPECT_EQ(cache_.fresh(now_)->size, 5U);
}

TEST_F(AttributeCacheTest, AttributesOfAnEarlierCallDoNotReplaceThoseOfALaterOne) {
  const auto earlier = cache_.now_in_order(now_), later = cache_.now_in_order(now_);
  EXPECT_TRUE(cache_.take(file_of(5, 2), later));
  const auto version = cache_.version();
  EXPECT_FALSE(cache_.take(file_of(1, 1), earlier));
  ASSERT_TRUE(is_fresh());
  EXPECT_EQ(cache_.fresh(now_)->size, 5U);
  EXPECT_EQ(cache_.version(), version);
}

TEST_F(AttributeCacheTest, AttributesOfCallsThatEndInTheirOrderAreKept) {
  const auto earlier = cache_.now_in_order(now_), later = cache_.now_in_order(now_);
  EXPECT_TRUE(cache_.take(file_of(1, 1), earlier));
  EXPECT_TRUE(cache_.take(file_of(5, 2), later));
  ASSERT_TRUE(is_fresh());
  EXPECT_EQ(cache_.fresh(now_)->size, 5U);
}

// A server works on several calls at a time.
TEST_F(AttributeCacheTest, CallsThatTheServerTookInTheOtherOrderLeaveItToBeAsked) {
  const auto earlier = cache_.now_in_order(now_), later = cache_.now_in_order(now_);
  cache_.take(file_of(1, 1), later);
  EXPECT_FALSE(cache_.take(file_of(5, 2), earlier));
  EXPECT_FALSE(is_fresh());
  take(file_of(5, 2));
  EXPECT_TRUE(is_fresh());
  const auto third = cache_.now_in_order(now_), fourth = cache_.now_in_order(now_);
  cache_.take(file_of(7, 4), third);
  EXPECT_FALSE(cache_.take(file_of(6, 3), fourth));
  EXPECT_FALSE(is_fresh());
}

TEST_F(AttributeCacheTest, LateAttributesThatAreTheSameAreAsGoodAsNewOnes) {
  const auto earlier = cache_.now_in_order(now_), later = cache_.now_in_order(now_);
  cache_.take(file_of(1, 1), later);
  EXPECT_TRUE(cache_.take(file_of(1, 1), earlier));
  EXPECT_TRUE(is_fresh());
}

// They were expired because of a change of ours that says nothing of them.
TEST_F(AttributeCacheTest, CallThatBeganBeforeTheyExpiredDoesNotMakeThemFresh) {
  take(file_of(1, 1));
  const auto asked = cache_.now_in_order(now_);
  cache_.expire();
  EXPECT_FALSE(cache_.take(file_of(1, 2), asked));
  EXPECT_FALSE(is_fresh());
  take(file_of(1, 3));
  EXPECT_TRUE(is_fresh());
}

TEST_F(AttributeCacheTest, NamesOfALateReplyAreOfNoVersion) {
  const auto earlier = cache_.now_in_order(now_), later = cache_.now_in_order(now_);
  const nfs3::fattr3 old = file_of(1, 1), now = file_of(1, 2);
  cache_.take(now, later);
  EXPECT_EQ(cache_.version_shown(later, &now), cache_.version());
  EXPECT_EQ(cache_.version_shown(earlier, &now), cache_.version());
  EXPECT_EQ(cache_.version_shown(earlier, &old), AttributeCache::kNoVersion);
  EXPECT_EQ(cache_.version_shown(earlier, nullptr), AttributeCache::kNoVersion);
}

TEST_F(AttributeCacheTest, ChangesThatOverlapLeaveTheServerToBeAsked) {
  take(file_of(1, 1));
  const auto first = cache_.begin_change(now_);
  const auto second = cache_.begin_change(now_);
  const auto late = change_of(file_of(5, 2), file_of(9, 3));
  const auto early = change_of(file_of(1, 1), file_of(5, 2));
  cache_.end_change(&late, second);
  cache_.end_change(&early, first);
  EXPECT_FALSE(is_fresh());
}

// A second client changes a file of a server at any time. This client looks at it through the
// cache, and changes it itself; some replies come late. It never shows a state that is older than
// the time-out allows.
TEST(AttributeCacheModel, ShowsEveryChangeElsewhereWithinTheTimeOut) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned end) { return static_cast<unsigned>(random() % end); };
    TimeOuts time_outs;
    AttributeCache cache(time_outs);
    Time now{std::chrono::hours(1)};
    nfs3::fattr3 server = file_of(0, 1);
    struct State {
      nfs3::fattr3 attributes;
      Time until;
    };
    std::deque<State> past;  // states that are over
    std::uint32_t clock = 1;
    std::optional<std::uint64_t> content_version;  // of the content that this client has read
    std::uint64_t content_clock = 0;
    for (int step = 0; step < 400; ++step) {
      now += milliseconds(below(4) == 0 ? below(40'000) : below(2'000));
      const auto change = [&] {
        past.push_back({server, now});
        server = file_of(below(3), ++clock);
      };
      switch (below(4)) {
        case 0:
          change();
          break;
        case 1: {
          const auto begun = cache.begin_change(now);
          if (below(4) == 0) change();
          const nfs3::fattr3 before = server;
          change();
          const auto data = change_of(before, server);
          if (below(4) == 0) change();
          now += milliseconds(below(4) == 0 ? below(80'000) : 0);
          cache.end_change(below(5) == 0 ? nullptr : &data, begun);
          break;
        }
        default: {
          const nfs3::fattr3* shown = cache.fresh(now);
          if (shown == nullptr) {
            const auto asked = cache.now_in_order(now);
            const nfs3::fattr3 found = server;
            if (below(4) == 0) change();
            now += milliseconds(below(4) == 0 ? below(80'000) : 0);  // the reply comes late
            cache.take(found, asked);
            shown = cache.fresh(now);
            if (shown == nullptr) break;
          }
          if (shown->ctime.seconds == server.ctime.seconds) {
            // Content of the same version was read when the file had the same state, or is own.
            if (content_version == cache.version()) {
              EXPECT_GE(server.ctime.seconds, content_clock);
            }
            content_version = cache.version();
            content_clock = server.ctime.seconds;
            break;
          }
          const auto state = std::find_if(past.begin(), past.end(), [&](const State& each) {
            return each.attributes.ctime.seconds == shown->ctime.seconds;
          });
          ASSERT_NE(state, past.end()) << "seed " << seed;
          EXPECT_LE(now - state->until, time_outs.file_max) << "seed " << seed;
        }
      }
    }
  }
}

// The server answers several calls at a time, each at some moment between its beginning and its
// end, and the replies come in any order.
TEST(AttributeCacheModel, ShowsNothingOlderThanWhatItHasShown) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    TimeOuts time_outs;
    AttributeCache cache(time_outs);
    const Time now{std::chrono::hours(1)};
    struct Call {
      AttributeCache::Point begun;
      std::optional<nfs3::fattr3> answer;
    };
    std::vector<Call> calls;
    std::uint32_t clock = 1, shown = 0;
    for (int step = 0; step < 400; ++step) {
      const std::size_t at = calls.empty() ? 0 : random() % calls.size();
      switch (random() % 4) {
        case 0:
          ++clock;
          break;
        case 1:
          calls.push_back({AttributeCache::now_in_order(now), {}});
          break;
        case 2:
          if (!calls.empty() && !calls[at].answer) calls[at].answer = file_of(0, clock);
          break;
        default: {
          if (calls.empty() || !calls[at].answer) break;
          const bool is_kept = cache.take(*calls[at].answer, calls[at].begun);
          calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(at));
          const nfs3::fattr3* const fresh = cache.fresh(now);
          EXPECT_TRUE(!is_kept || fresh != nullptr) << "seed " << seed;
          if (fresh == nullptr) break;
          EXPECT_GE(fresh->ctime.seconds, shown) << "seed " << seed;
          shown = std::max(shown, fresh->ctime.seconds);
        }
      }
    }
    EXPECT_GT(shown, 1U) << "seed " << seed;
    EXPECT_TRUE(cache.take(file_of(0, ++clock), AttributeCache::now_in_order(now)));
    EXPECT_NE(cache.fresh(now), nullptr);
  }
}

// With content: what this client has read is void once the version has grown, and the version grows
// whenever somebody else has changed the file since.
TEST(AttributeCacheModel, VersionTellsContentThatSomebodyElseHasChanged) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    TimeOuts time_outs;
    AttributeCache cache(time_outs);
    Time now{std::chrono::hours(1)};
    std::uint32_t clock = 1;
    nfs3::fattr3 server = file_of(0, clock);
    std::uint32_t foreign_changes = 0, read_at = 0;
    std::optional<std::uint64_t> read_version;
    for (int step = 0; step < 300; ++step) {
      now += milliseconds(random() % 5'000);
      switch (random() % 4) {
        case 0:
          server = file_of(random() % 3, ++clock);
          ++foreign_changes;
          break;
        case 1: {
          const auto begun = cache.begin_change(now);
          const nfs3::fattr3 before = server;
          server = file_of(random() % 3, ++clock);
          const auto data = change_of(before, server);
          cache.end_change(&data, begun);
          break;
        }
        default:
          // As an open does: it asks, and keeps what was read if the version is the same.
          cache.take(server, cache.now_in_order(now));
          if (read_version == cache.version()) {
            EXPECT_EQ(read_at, foreign_changes) << "seed " << seed;
          }
          read_version = cache.version();
          read_at = foreign_changes;
      }
    }
  }
}

}  // namespace
}  // namespace mounts
