// A server that does not answer in time: calls go again while it shows that it goes on, and fail
// where it does not.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "mount/hostile_server_for_test.h"

namespace mounts {
namespace {

class SlowCommit : public Lied {
 protected:
  static constexpr auto kPatience = std::chrono::seconds(2);

  void SetUp() override {
    Lied::SetUp();
    mount_ = std::make_unique<MountForTest>(url(), TreeOptions(), 128, kPatience);
    liar_.is_honest = true;
    node_ = mount_->look_up("name");
    file_ = mount_->open("name", O_WRONLY).id;
    EXPECT_EQ(mount_->write(file_, 0, "some bytes"), 0);
    liar_.silent_commits = 1;
  }
  void TearDown() override {
    mount_->run(mount_->files->release(file_));
    node_ = {};
    Lied::TearDown();
  }
  // Begins a flush, up to the COMMIT that has no answer.
  void begin_flush() {
    mount_->turns.begin([](auto flushing, std::optional<int>& error) -> Task<void> {
      const auto done = co_await std::move(flushing);
      error = done ? 0 : done.error();
    }(mount_->files->flush(file_), flushed_));
    while (liar_.commits == 0) mount_->progress();
  }
  int end_of_flush() {
    while (!flushed_) mount_->run(pause());
    return *flushed_;
  }
  Task<void> pause() { co_await mount_->turns.pause(std::chrono::milliseconds(1)); }

  Hold node_;
  FileOperations::FileId file_{};
  std::optional<int> flushed_;
};

TEST_F(SlowCommit, GoesAgainWhileTheServerTakesBytesOfTheFile) {
  begin_flush();
  const Time before = node_->last_written;
  EXPECT_EQ(mount_->write(file_, 1U << 20U, "further bytes"), 0);
  while (node_->last_written == before) mount_->run(pause());
  EXPECT_EQ(end_of_flush(), 0);
  EXPECT_GE(liar_.commits, 2U);
  EXPECT_TRUE(mount_->run(mount_->files->flush(file_)));
  EXPECT_EQ(liar_.writers.size(), 2U) << "an answer that comes late is of no call any more";
}

TEST_F(SlowCommit, GoesAgainWhileTheServerTakesBytesThatWereBeforeItInTheLine) {
  liar_.found = handle_of(8);
  liar_.found_attributes.fileid = 8;
  const auto other = mount_->open("other", O_WRONLY).id;
  begin_flush();
  const Time before = mount_->files->writes().last_taken();
  EXPECT_EQ(mount_->write(other, 0, "bytes"), 0);
  while (mount_->files->writes().last_taken() == before) mount_->run(pause());
  EXPECT_EQ(end_of_flush(), 0);
  EXPECT_EQ(liar_.commits, 2U);
  mount_->run(mount_->files->release(other));
}

TEST_F(SlowCommit, FailsInItsTimeWhereTheServerTakesNothing) {
  begin_flush();
  const Time begun = Clock::now();
  EXPECT_EQ(end_of_flush(), ETIMEDOUT);
  EXPECT_LT(Clock::now() - begun, 2 * kPatience);
  EXPECT_EQ(liar_.commits, 1U);
}

class SlowServer : public Lied {
 protected:
  static constexpr std::chrono::milliseconds kPatience{1000};

  void SetUp() override {
    Lied::SetUp();
    mount_ = std::make_unique<MountForTest>(url(), TreeOptions(), 128, kPatience);
    liar_.is_honest = true;
  }
  // Goes on until the condition holds. Returns false if it does not in ten times the patience.
  template <class Condition>
  bool goes_on_until(Condition condition) {
    const Time end = Clock::now() + 10 * kPatience;
    while (!condition() && Clock::now() < end) mount_->progress();
    return condition();
  }
};

// Bytes for a file that is being cut wait for that, and may have had their time by then.
TEST_F(SlowServer, BytesThatWereHeldBackForTooLongAreNotWaitedForAtTheEnd) {
  const Hold node = mount_->look_up("name");
  const auto file = mount_->open("name", O_WRONLY).id;
  liar_.attributes = [](const nfs3::nfs_fh3& of) {
    return of.data == handle_of(7).data ? attributes_of(ftype3::NF3REG, 7)
                                        : attributes_of(ftype3::NF3DIR, 1);
  };
  liar_.holds_changes = true;
  bool is_over = false;
  mount_->turns.begin([](auto opening, bool& ends) -> Task<void> {
    EXPECT_FALSE(co_await std::move(opening));
    ends = true;
  }(mount_->files->open(mount_->tree->nodes().find(node->id), O_WRONLY | O_TRUNC, {}), is_over));
  ASSERT_TRUE(goes_on_until([&] { return node->cuts_under_way > 0; }));
  const Time begun = Clock::now();
  mount_->turns.begin([](MountForTest& mount, auto to) -> Task<void> {
    Buffer buffer = mount.tree->buffers().take();
    EXPECT_TRUE(co_await mount.files->write(to, 0, buffer, 0, 10));
  }(*mount_, file));
  EXPECT_TRUE(goes_on_until([&] { return Clock::now() > begun + kPatience / 2; }));
  // Behind this call the cut is refused, and begins once more.
  mount_->turns.begin([](MountForTest& mount) -> Task<void> {
    EXPECT_TRUE(co_await mount.tree->ask_attributes(*mount.root(), {}));
  }(*mount_));
  EXPECT_TRUE(goes_on_until([&] { return is_over; }));
  EXPECT_GT(Clock::now(), begun + kPatience * 5 / 4);
  EXPECT_EQ(liar_.guards.size(), 2U);
  EXPECT_EQ(mount_->files->writes().dirty_count(), 0U);
  mount_->run(mount_->files->release(file));
}

// As a server does that fetches the file from a tape.
TEST_F(SlowServer, ReadOfAFileThatIsBusyForTooLongEnds) {
  liar_.found_attributes.size = 1U << 20U;
  const auto opened = mount_->open("name");
  liar_.is_busy = true;
  std::optional<int> error;
  BytesForTest sink;
  mount_->turns.begin([](auto reading, std::optional<int>& ended) -> Task<void> {
    const auto done = co_await std::move(reading);
    ended = done ? 0 : done.error();
  }(mount_->files->read(opened.id, 0, 100'000, sink), error));
  ASSERT_TRUE(goes_on_until([&] { return error.has_value(); }));
  EXPECT_EQ(*error, ETIMEDOUT) << "nobody waits for a file that is there";
  mount_->run(mount_->files->release(opened.id));
}

}  // namespace
}  // namespace mounts
