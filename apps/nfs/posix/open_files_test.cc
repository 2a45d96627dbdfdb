#include "nfs/posix/open_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "nfs/posix/disk_for_test.h"

namespace nfs::posix {
namespace {

InnerHandle numbered(unsigned number) {
  InnerHandle handle;
  handle.bytes[0] = static_cast<std::byte>(number);
  handle.size = 1;
  return handle;
}

// Opens the same file for each handle, and counts.
class Counting final : public Handles {
 public:
  std::optional<InnerHandle> of(const files::File& /*file*/, const InnerHandle& /*directory*/,
                                const std::string& /*name*/) override {
    return std::nullopt;
  }
  files::File open(const InnerHandle& handle) override {
    ++opened;
    if (handle == numbered(99)) {
      errno = ESTALE;
      return {};
    }
    return {"/dev/null", O_PATH};
  }
  int opened = 0;
};

class OpenFilesTest : public testing::Test {
 protected:
  Counting handles_;
  OpenFiles files_{handles_, 4};
};

TEST_F(OpenFilesTest, OpensAFileOnce) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(files_.find(numbered(1)));
  EXPECT_EQ(handles_.opened, 1);
  EXPECT_EQ(files_.size(), 1U);
}

TEST_F(OpenFilesTest, KeepsThoseUsedLast) {
  for (unsigned i = 0; i < 4; ++i) (void)files_.find(numbered(i));
  (void)files_.find(numbered(0));
  (void)files_.find(numbered(4));
  EXPECT_EQ(files_.size(), 4U);
  EXPECT_EQ(handles_.opened, 5);
  (void)files_.find(numbered(0));
  EXPECT_EQ(handles_.opened, 5) << "1 was the oldest";
  (void)files_.find(numbered(1));
  EXPECT_EQ(handles_.opened, 6);
}

TEST_F(OpenFilesTest, ClosesNothingThatIsInUse) {
  std::vector<OpenFiles::Use> uses;
  for (unsigned i = 0; i < 10; ++i) uses.push_back(files_.find(numbered(i)));
  EXPECT_EQ(files_.size(), 10U);
  for (const OpenFiles::Use& each : uses) EXPECT_TRUE(each->path().status());
  files_.shrink();
  EXPECT_EQ(files_.size(), 10U);
  uses.clear();
  EXPECT_EQ(files_.size(), 4U);
}

TEST_F(OpenFilesTest, GivesHalfBackWhenDescriptorsRunOut) {
  for (unsigned i = 0; i < 4; ++i) (void)files_.find(numbered(i));
  files_.shrink();
  EXPECT_EQ(files_.size(), 2U);
  (void)files_.find(numbered(3));
  EXPECT_EQ(handles_.opened, 4) << "the oldest went";
}

TEST_F(OpenFilesTest, ClosesWhatASmallerBoundLeavesNoRoomFor) {
  for (unsigned i = 0; i < 4; ++i) (void)files_.find(numbered(i));
  files_.set_files_max(2);
  EXPECT_EQ(files_.size(), 2U);
  (void)files_.find(numbered(3));
  EXPECT_EQ(handles_.opened, 4) << "the oldest went";
  (void)files_.find(numbered(4));
  EXPECT_EQ(files_.size(), 2U);
  files_.set_files_max(3);
  (void)files_.find(numbered(5));
  EXPECT_EQ(files_.size(), 3U);
}

TEST_F(OpenFilesTest, KeepsNothingOpenWithoutRoomButWhatIsInUse) {
  OpenFiles::Use use = files_.find(numbered(1));
  (void)files_.find(numbered(2));
  files_.set_files_max(0);
  EXPECT_EQ(files_.size(), 1U);
  (void)files_.find(numbered(3));
  EXPECT_EQ(files_.size(), 1U);
  EXPECT_TRUE(use->path().status());
  use = {};
  EXPECT_EQ(files_.size(), 0U);
}

TEST_F(OpenFilesTest, ForgetsAFileWithItsLastUse) {
  OpenFiles::Use use = files_.find(numbered(1));
  files_.forget(numbered(1));
  EXPECT_TRUE(use->path().status());
  EXPECT_EQ(files_.size(), 0U);
  const OpenFiles::Use again = files_.find(numbered(1));
  EXPECT_EQ(handles_.opened, 2);
  use = {};
  EXPECT_EQ(files_.size(), 1U);
}

TEST_F(OpenFilesTest, KnowsWhetherAFileWasWrittenMeanwhile) {
  const OpenFiles::Use use = files_.find(numbered(1));
  const OpenFile::Quiet undisturbed(*use);
  EXPECT_TRUE(undisturbed);
  {
    const OpenFile::Writing writing(*use);
    EXPECT_FALSE(undisturbed) << "it began meanwhile";
    const OpenFile::Quiet begun_in_a_write(*use);
    EXPECT_FALSE(begun_in_a_write);
  }
  EXPECT_FALSE(undisturbed);
  EXPECT_TRUE(OpenFile::Quiet(*use));
}

TEST_F(OpenFilesTest, KeepsFilesWithUnstableDataWhileOthersCanGo) {
  for (const unsigned number : {0U, 1U}) files_.find(numbered(number))->set_unstable();
  for (unsigned i = 2; i < 8; ++i) (void)files_.find(numbered(i));
  EXPECT_EQ(files_.size(), 4U);
  EXPECT_EQ(handles_.opened, 8);
  for (const unsigned number : {0U, 1U, 6U, 7U}) (void)files_.find(numbered(number));
  EXPECT_EQ(handles_.opened, 8) << "they are open";
}

// Opens files of a directory of its own, by their numbers.
class Numbered final : public Handles {
 public:
  Numbered() {
    std::string name = (std::filesystem::temp_directory_path() / "nfs-open-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    top_ = name;
  }
  ~Numbered() override { std::filesystem::remove_all(top_); }

  std::string path(const InnerHandle& handle) const {
    return top_ + "/" + std::to_string(static_cast<unsigned>(handle.bytes[0]));
  }
  std::optional<InnerHandle> of(const files::File& /*file*/, const InnerHandle& /*directory*/,
                                const std::string& /*name*/) override {
    return std::nullopt;
  }
  files::File open(const InnerHandle& handle) override { return {path(handle), O_PATH}; }

  // Makes a file of a mebibyte.
  void make(unsigned number) const {
    const std::vector<std::byte> data(1U << 20U);
    files::File file(path(numbered(number)), O_RDWR | O_CREAT);
    EXPECT_TRUE(file.write_at(data, 0));
  }
  // Removes it as others on this machine do.
  void remove(unsigned number) const { EXPECT_EQ(::unlink(path(numbered(number)).c_str()), 0); }
  // Counts the descriptors that keep the room of removed files.
  std::size_t kept() const {
    std::size_t count = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(each.path(), gone).string();
      if (target.starts_with(top_) && target.ends_with(" (deleted)")) ++count;
    }
    return count;
  }

 private:
  std::string top_;
};

class UnstableFilesTest : public testing::Test {
 protected:
  UnstableFilesTest() {
    for (unsigned i = 0; i < kFiles; ++i) handles_.make(i);
  }
  ~UnstableFilesTest() override { DiskForTest::sync_error = 0; }
  void write(unsigned number) {
    const OpenFiles::Use use = files_.find(numbered(number));
    ASSERT_NE(use->content(true), nullptr);
    use->set_unstable();
  }

  static constexpr unsigned kFiles = 4;
  Numbered handles_;
  int lost_ = 0;
  OpenFiles files_{handles_, 2, [this] { ++lost_; }};
};

TEST_F(UnstableFilesTest, AreSyncedBeforeTheyAreClosed) {
  DiskForTest::syncs = 0;
  for (const unsigned number : {0U, 1U, 2U}) write(number);
  EXPECT_EQ(DiskForTest::syncs, 0) << "not while a call waits";
  EXPECT_EQ(files_.size(), 3U) << "a COMMIT finds it open";
  files_.sync_what_leaves();
  EXPECT_EQ(DiskForTest::syncs, 1);
  EXPECT_EQ(files_.size(), 2U);
  EXPECT_EQ(lost_, 0);
}

TEST_F(UnstableFilesTest, AreReportedWhenTheDiskDoesNotTakeThem) {
  for (const unsigned number : {0U, 1U, 2U}) write(number);
  DiskForTest::sync_error = EIO;
  files_.sync_what_leaves();
  EXPECT_EQ(lost_, 1);
  files_.set_files_max(0);
  files_.sync_what_leaves();
  EXPECT_EQ(lost_, 3);
  EXPECT_EQ(files_.size(), 0U);
}

TEST_F(UnstableFilesTest, AreNotSyncedOnceTheyAreCommitted) {
  for (const unsigned number : {0U, 1U}) {
    write(number);
    EXPECT_TRUE(files_.find(numbered(number))->commit());
  }
  DiskForTest::syncs = 0;
  files_.set_files_max(0);
  files_.sync_what_leaves();
  EXPECT_EQ(DiskForTest::syncs, 0);
  EXPECT_EQ(files_.size(), 0U);
}

TEST_F(UnstableFilesTest, StayOpenIfSomebodyUsesThemBeforeTheyAreClosed) {
  files_.set_files_max(kFiles);
  for (const unsigned number : {0U, 1U, 2U}) write(number);
  files_.shrink();  // 0 and 1
  (void)files_.find(numbered(0));
  files_.sync_what_leaves();
  EXPECT_EQ(files_.size(), 2U);
  handles_.remove(0);
  EXPECT_TRUE(files_.find(numbered(0))) << "it is open, or could not be found";
}

TEST_F(UnstableFilesTest, AreClosedWhenTheyAreRemovedUnlessANameIsLeft) {
  write(0);
  write(1);
  files_.forget(numbered(0));
  EXPECT_EQ(files_.size(), 2U);
  handles_.remove(1);
  files_.forget(numbered(1));
  EXPECT_EQ(files_.size(), 1U);
}

// For TSan and ASan.
TEST_F(UnstableFilesTest, AreSyncedBesideCalls) {
  std::atomic<bool> is_over = false;
  std::thread syncing([&] {
    while (!is_over) files_.sync_what_leaves();
  });
  for (unsigned i = 0; i < 500; ++i) {
    write(i % kFiles);
    if (i % 3 == 0) {
      EXPECT_TRUE(files_.find(numbered(i % kFiles))->commit());
    }
    if (i % 7 == 0) files_.shrink();
  }
  is_over = true;
  syncing.join();
  EXPECT_EQ(lost_, 0);
}

class RemovedFilesTest : public testing::Test {
 protected:
  RemovedFilesTest() {
    for (unsigned i = 0; i < kFiles; ++i) {
      handles_.make(i);
      const OpenFiles::Use use = files_.find(numbered(i));
      EXPECT_NE(use->content(i % 2 == 0), nullptr);
    }
  }
  static constexpr unsigned kFiles = 12;
  Numbered handles_;
  OpenFiles files_{handles_, 16};
  const OpenFiles::Clock::time_point begin_{};
};

TEST_F(RemovedFilesTest, AreClosedThoughNobodyCalls) {
  for (const unsigned number : {0U, 5U, 11U}) handles_.remove(number);
  EXPECT_EQ(handles_.kept(), 6U) << "each once by its path, and once for its content";
  EXPECT_EQ(files_.close_removed(begin_).files, 0U);
  EXPECT_EQ(handles_.kept(), 0U);
  EXPECT_EQ(files_.size(), kFiles - 3) << "others stay open";
}

TEST_F(RemovedFilesTest, AreFoundInTurnByFewLooks) {
  for (const unsigned number : {0U, 5U, 11U}) handles_.remove(number);
  std::size_t calls = 0;
  for (; handles_.kept() > 0 && calls < 4 * kFiles; ++calls) {
    const std::size_t before = files_.size();
    (void)files_.close_removed(begin_, 1);
    EXPECT_GE(files_.size() + 2, before) << "few are looked at in a call";
  }
  EXPECT_EQ(handles_.kept(), 0U);
  EXPECT_GT(calls, 1U);
}

TEST_F(RemovedFilesTest, AreHeldByCallsAloneWhichIsReported) {
  OpenFiles::Use use = files_.find(numbered(3));
  handles_.remove(3);
  EXPECT_EQ(files_.close_removed(begin_).files, 0U);
  EXPECT_EQ(files_.size(), kFiles - 1) << "no call finds it any more";
  EXPECT_TRUE(use->path().status());
  const auto soon = begin_ + OpenFiles::kHeldMax - std::chrono::milliseconds(1);
  EXPECT_EQ(files_.close_removed(soon).files, 0U);
  const auto late = files_.close_removed(begin_ + OpenFiles::kHeldMax);
  EXPECT_EQ(late.files, 1U);
  EXPECT_GE(late.bytes, 1U << 20U);
  use = {};
  EXPECT_EQ(files_.close_removed(begin_ + 2 * OpenFiles::kHeldMax).files, 0U);
  EXPECT_EQ(handles_.kept(), 0U);
}

TEST_F(RemovedFilesTest, AreReportedAlsoIfACallHasRemovedThem) {
  const OpenFiles::Use removed = files_.find(numbered(3)), renamed = files_.find(numbered(4));
  handles_.remove(3);
  files_.forget(numbered(3));
  files_.forget(numbered(4));  // it has a name left
  EXPECT_EQ(files_.close_removed(begin_).files, 0U);
  EXPECT_EQ(files_.close_removed(begin_ + OpenFiles::kHeldMax).files, 1U);
}

TEST_F(RemovedFilesTest, AreClosedAlsoWhereTheyHadLeftTheTable) {
  handles_.remove(0);
  files_.shrink();  // what was used first goes
  EXPECT_FALSE(files_.has_much_to_close());
  EXPECT_EQ(handles_.kept(), 2U);
  (void)files_.close_removed(begin_);
  EXPECT_EQ(handles_.kept(), 0U);
}

// Files leave while they are looked at, and are not gone before that is over: for TSan and ASan.
TEST_F(RemovedFilesTest, AreLookedForBesideCalls) {
  std::atomic<bool> is_over = false;
  std::thread caller([&] {
    for (unsigned i = 0; i < 2000; ++i) {
      const unsigned number = i % kFiles;
      { const OpenFiles::Use use = files_.find(numbered(number)); }
      if (i % 3 == 0) files_.forget(numbered(number));
      if (i % 7 == 0) files_.shrink();
      files_.close_what_left();
    }
    is_over = true;
  });
  while (!is_over) (void)files_.close_removed(begin_);
  caller.join();
  EXPECT_EQ(handles_.kept(), 0U);
}

TEST_F(OpenFilesTest, SaysWhyThereIsNone) {
  EXPECT_FALSE(files_.find(numbered(99)));
  EXPECT_EQ(errno, ESTALE);
  EXPECT_EQ(files_.size(), 0U);
}

}  // namespace
}  // namespace nfs::posix
