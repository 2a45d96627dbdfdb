#include "tcp/send_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>

namespace rpcrdma::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A queue whose messages have a second, and a millisecond for each byte with their marks.
class WatchedQueue : public testing::Test {
 protected:
  void push(std::size_t size) {
    const std::array<Bytes, 1> runs = {Bytes(memory_).first(size)};
    queue_.push(runs, size);
  }
  void watch_at(Instant now) {
    queue_.watch([now] { return now; });
  }

  static constexpr std::size_t kMark = 4;  // bytes
  const Instant begun_{seconds(100)};
  std::array<std::byte, 64> memory_{};
  SendQueue queue_{8, seconds(1), 1000};
};

TEST_F(WatchedQueue, GivesAllThatIsUnsentOneTimeTogether) {
  push(6);
  push(2);
  watch_at(begun_);
  EXPECT_EQ(queue_.deadline(), begun_ + seconds(1) + milliseconds(kMark + 6 + kMark + 2));
}

TEST_F(WatchedQueue, GivesWhatComesMeanwhileItsTimeBehindTheFirstMessages) {
  push(6);
  watch_at(begun_);
  const Deadline first = queue_.deadline();
  push(2);
  queue_.take(kMark + 6 + 1);
  watch_at(begun_ + milliseconds(500));
  EXPECT_NE(queue_.deadline(), first) << "the first message has gone";
  EXPECT_EQ(queue_.deadline(), begun_ + milliseconds(1500) + milliseconds(kMark + 2 - 1));
}

TEST_F(WatchedQueue, GivesNoMoreTimeForBytesThatThePeerTakes) {
  push(6);
  watch_at(begun_);
  const Deadline first = queue_.deadline();
  queue_.take(kMark + 5);
  watch_at(begun_ + milliseconds(500));
  EXPECT_EQ(queue_.deadline(), first);
}

TEST_F(WatchedQueue, WatchesASingleByteToItsEnd) {
  push(2);
  queue_.take(kMark + 1);
  watch_at(begun_);
  EXPECT_EQ(queue_.deadline(), begun_ + seconds(1) + milliseconds(1));
  watch_at(begun_ + milliseconds(1));
  queue_.take(1);
  watch_at(begun_ + milliseconds(2));
  EXPECT_EQ(queue_.deadline(), Deadline()) << "the peer has taken all that was watched";
}

}  // namespace
}  // namespace rpcrdma::tcp
