#include "mount/unread.h"

#include <gtest/gtest.h>

#include <chrono>

namespace mounts {
namespace {

using std::chrono::seconds;

constexpr Time kStart{std::chrono::hours(1)};

TEST(UnreadTest, RequestThatIsReadAtOnceBeginsThen) {
  const Unread unread;
  EXPECT_EQ(unread.begun(kStart, {}), kStart);
}

TEST(UnreadTest, RequestBehindBuffersWithoutAServerHasWaitedAsLongAsThey) {
  Unread unread;
  unread.note_none(kStart);
  unread.note_none(kStart + seconds(1));
  EXPECT_EQ(unread.begun(kStart + seconds(60), kStart - seconds(1)), kStart);
  EXPECT_EQ(unread.begun(kStart + seconds(61), {}), kStart);
}

TEST(UnreadTest, RequestBehindBuffersThatTheServerTookBeginsWhenItIsRead) {
  Unread unread;
  unread.note_none(kStart);
  EXPECT_EQ(unread.begun(kStart + seconds(60), kStart), kStart + seconds(60));
}

TEST(UnreadTest, WaitEndsOnceAllIsRead) {
  Unread unread;
  unread.note_none(kStart);
  unread.note_all_read();
  EXPECT_EQ(unread.begun(kStart + seconds(1), {}), kStart + seconds(1));
  unread.note_none(kStart + seconds(2));
  EXPECT_EQ(unread.begun(kStart + seconds(3), {}), kStart + seconds(2));
}

}  // namespace
}  // namespace mounts
