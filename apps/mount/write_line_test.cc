#include "mount/write_line.h"

#include <gtest/gtest.h>

#include <chrono>

namespace mounts {
namespace {

using std::chrono::seconds;

constexpr Time kStart{std::chrono::hours(1)};

class WriteLineTest : public testing::Test {
 protected:
  WriteLine line_{seconds(60)};
};

TEST_F(WriteLineTest, CallWaitsAsLongAsTheServerTakesWhatBeganBeforeIt) {
  EXPECT_FALSE(line_.is_waiting(kStart));
  line_.note_taken(kStart - seconds(50), kStart + seconds(1));
  EXPECT_TRUE(line_.is_waiting(kStart));
  EXPECT_FALSE(line_.is_waiting(kStart + seconds(2))) << "the server has taken nothing since";
}

TEST_F(WriteLineTest, CallThatALittleLaterOneHasOvertakenWaits) {
  line_.note_taken(kStart + seconds(30), kStart + seconds(40));
  EXPECT_TRUE(line_.is_waiting(kStart));
}

TEST_F(WriteLineTest, CallThatAMuchLaterOneHasOvertakenHangs) {
  line_.note_taken(kStart + seconds(31), kStart + seconds(40));
  EXPECT_FALSE(line_.is_waiting(kStart));
  line_.note_taken(kStart - seconds(1), kStart + seconds(41));
  EXPECT_FALSE(line_.is_waiting(kStart));
}

}  // namespace
}  // namespace mounts
