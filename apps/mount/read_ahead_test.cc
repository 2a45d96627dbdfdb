#include "mount/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "mount/hostile_server_for_test.h"

namespace mounts {
namespace {

constexpr std::uint64_t kBlock = 1000;

class ReadAheadTest : public testing::Test {
 protected:
  // Reads all blocks that are wanted from a file of this size.
  std::vector<std::uint64_t> fill(std::uint64_t file_size = 1'000'000) {
    std::vector<std::uint64_t> read;
    while (const auto next = ahead_.next()) {
      ReadAhead::Block& block = ahead_.begin(*next, pool_.take(), now_);
      read.push_back(*next);
      const std::uint64_t left = file_size > *next ? file_size - *next : 0;
      ahead_.end(block, static_cast<std::size_t>(std::min(kBlock, left)), 0);
    }
    return read;
  }

  BufferPool pool_{16, kBlock};
  ReadAhead ahead_{kBlock, 8};
  Time now_{std::chrono::hours(1)};
};

TEST_F(ReadAheadTest, WindowGrowsAsAFileIsReadFromItsBeginning) {
  ASSERT_TRUE(ahead_.note_read(0, 100, 1, now_));
  EXPECT_EQ(fill().size(), 1U);
  ahead_.note_used(0, 100);
  std::set<std::uint64_t> all;
  std::size_t most = 0;
  for (std::uint64_t offset = 100; offset < 20'000; offset += 100) {
    ASSERT_TRUE(ahead_.note_read(offset, 100, 1, now_));
    for (const std::uint64_t each : fill()) EXPECT_TRUE(all.insert(each).second) << each;
    ASSERT_NE(ahead_.find(offset), nullptr);
    most = std::max(most, ahead_.blocks());
    ahead_.note_used(offset, offset + 100);
    for (const std::uint64_t each : fill()) EXPECT_TRUE(all.insert(each).second) << each;
  }
  EXPECT_EQ(most, 8U);
  EXPECT_EQ(ahead_.in_vain(), 0U);
}

TEST_F(ReadAheadTest, RandomReadsAreMadeAsTheyCome) {
  EXPECT_FALSE(ahead_.note_read(50'000, 100, 1, now_));
  EXPECT_FALSE(ahead_.note_read(10'000, 100, 1, now_));
  EXPECT_EQ(ahead_.next(), std::nullopt);
}

TEST_F(ReadAheadTest, SequentialReadsFromAnyPlaceAreNoticed) {
  EXPECT_FALSE(ahead_.note_read(50'000, 100, 1, now_));
  EXPECT_TRUE(ahead_.note_read(50'100, 100, 1, now_));
  EXPECT_EQ(ahead_.next(), 50'000U);
}

TEST_F(ReadAheadTest, ReadsThatOvertakeEachOtherStaySequential) {
  ASSERT_TRUE(ahead_.note_read(0, 100, 1, now_));
  fill();
  ASSERT_TRUE(ahead_.note_read(200, 100, 1, now_));
  ASSERT_TRUE(ahead_.note_read(100, 100, 1, now_));
  EXPECT_NE(ahead_.find(100), nullptr);
}

TEST_F(ReadAheadTest, BlockStaysUntilAllOfItWasReadInWhateverOrder) {
  ASSERT_TRUE(ahead_.note_read(0, 100, 1, now_));
  fill();
  for (const std::uint64_t offset : {900U, 500U, 600U, 100U, 300U, 0U, 200U, 800U, 700U}) {
    ASSERT_TRUE(ahead_.note_read(offset, 100, 1, now_));
    ASSERT_NE(ahead_.find(offset), nullptr);
    ahead_.note_used(offset, offset + 100);
  }
  EXPECT_NE(ahead_.find(400), nullptr);
  ahead_.note_used(400, 500);
  EXPECT_EQ(ahead_.find(400), nullptr);
}

TEST_F(ReadAheadTest, RestsOfBlocksFarBehindGo) {
  for (std::uint64_t offset = 0; offset < 50'000; offset += 100) {
    ASSERT_TRUE(ahead_.note_read(offset, 100, 1, now_));
    fill();
    ASSERT_NE(ahead_.find(offset), nullptr);
    if (offset % 1000 != 0) ahead_.note_used(offset, offset + 100);
  }
  EXPECT_GT(ahead_.in_vain(), 0U);
}

TEST_F(ReadAheadTest, ChangedFileIsReadAnew) {
  ASSERT_TRUE(ahead_.note_read(0, 100, 1, now_));
  EXPECT_EQ(fill().size(), 1U);
  ASSERT_TRUE(ahead_.note_read(100, 100, 2, now_));
  EXPECT_EQ(ahead_.find(100), nullptr);
  EXPECT_GT(ahead_.in_vain(), 0U);
}

// The block that has the next byte was used up when it was the last one.
TEST_F(ReadAheadTest, FileThatHasGrownIsReadFromTheBlockOfItsFormerEnd) {
  ASSERT_TRUE(ahead_.note_read(0, 1000, 1, now_));
  fill(1500);
  ahead_.note_used(0, 1000);
  ASSERT_TRUE(ahead_.note_read(1000, 500, 1, now_));
  ahead_.note_used(1000, 1500);
  ASSERT_TRUE(ahead_.note_read(1500, 500, 2, now_));
  EXPECT_EQ(ahead_.next(), 1000U);
}

TEST_F(ReadAheadTest, NothingIsReadBehindTheKnownSizeOfTheFile) {
  ASSERT_TRUE(ahead_.note_read(0, 1000, 1, now_, 1001));
  EXPECT_EQ(fill(), (std::vector<std::uint64_t>{0, 1000}));
  ASSERT_TRUE(ahead_.note_read(1000, 1000, 2, now_, 1000));
  EXPECT_TRUE(fill().empty());
}

TEST_F(ReadAheadTest, ReadsHereAndThereBetweenWritesAreMadeAsTheyCome) {
  ASSERT_TRUE(ahead_.note_read(0, 100, 1, now_));
  fill();
  std::uint64_t stamp = 1;
  for (const std::uint64_t offset : {2000U, 500U, 3000U, 100U, 1500U}) {
    EXPECT_FALSE(ahead_.note_read(offset, 100, ++stamp, now_)) << offset;
    EXPECT_EQ(ahead_.next(), std::nullopt) << offset;
  }
  EXPECT_TRUE(ahead_.note_read(1600, 100, ++stamp, now_));
}

TEST_F(ReadAheadTest, OldBlocksAreNotShown) {
  ASSERT_TRUE(ahead_.note_read(0, 100, 1, now_));
  fill();
  now_ += std::chrono::seconds(4);
  ASSERT_TRUE(ahead_.note_read(100, 100, 1, now_));
  EXPECT_EQ(ahead_.find(100), nullptr);
}

TEST_F(ReadAheadTest, BlockThatIsVoidedWhileItIsReadIsNotShown) {
  ASSERT_TRUE(ahead_.note_read(0, 100, 1, now_));
  ReadAhead::Block& block = ahead_.begin(0, pool_.take(), now_);
  ASSERT_TRUE(ahead_.note_read(100, 100, 2, now_));
  ReadAhead::Block& anew = ahead_.begin(0, pool_.take(), now_);
  ahead_.end(block, kBlock, 0);
  EXPECT_EQ(ahead_.find(0), &anew);
  EXPECT_EQ(anew.state, ReadAhead::Block::State::kUnderWay);
  EXPECT_EQ(pool_.free_count(), pool_.count() - 1);
}

TEST_F(ReadAheadTest, NothingIsReadBehindTheEndOfTheFile) {
  ASSERT_TRUE(ahead_.note_read(0, 1000, 1, now_));
  EXPECT_EQ(fill(1500), (std::vector<std::uint64_t>{0, 1000}));
  ahead_.note_used(0, 1000);
  ASSERT_TRUE(ahead_.note_read(1000, 1000, 1, now_));
  EXPECT_TRUE(fill(1500).empty());
}

TEST_F(ReadAheadTest, FailedBlockIsReadAgainOnceItsErrorWasGiven) {
  ASSERT_TRUE(ahead_.note_read(0, 100, 1, now_));
  ahead_.end(ahead_.begin(0, pool_.take(), now_), 0, EIO);
  ASSERT_NE(ahead_.find(0), nullptr);
  EXPECT_EQ(ahead_.find(0)->error, EIO);
  ahead_.drop_failed(*ahead_.find(0));
  ASSERT_TRUE(ahead_.note_read(0, 100, 1, now_));
  EXPECT_EQ(ahead_.next(), 0U);
}

// `tail -f` reads so.
TEST_F(Lied, FileThatIsFollowedIsReadOnceAndNotBehindItsEnd) {
  TreeOptions options;
  options.read_size = 1000;
  mount_ = std::make_unique<MountForTest>(url(), options);
  std::string& content = liar_.content.emplace(2500, 'x');
  liar_.attributes = [&](const nfs3::nfs_fh3&) {
    auto made = attributes_of(ftype3::NF3REG, 7);
    made.size = made.mtime.seconds = made.ctime.seconds =
        static_cast<std::uint32_t>(content.size());
    return made;
  };
  liar_.found_attributes = liar_.attributes({});
  const auto file = mount_->open("name").id;
  const Hold node = mount_->look_up("name");
  std::string got;
  const auto read_on = [&] {
    while (got.size() < content.size()) {
      got +=
          mount_->read(file, got.size(), std::min<std::size_t>(500, content.size() - got.size()));
    }
  };
  read_on();
  for (char letter = 'a'; letter < 'k'; ++letter) {
    content += std::string(700, letter);
    EXPECT_TRUE(mount_->run(mount_->tree->ask_attributes(*node, {})));
    liar_.read_from.clear();
    read_on();
    for (const std::uint64_t each : liar_.read_from) EXPECT_LT(each, content.size());
    EXPECT_LE(liar_.read_from.size(), 2U) << "one for each block";
  }
  EXPECT_TRUE(got == content);
  mount_->run(mount_->files->release(file));
}

}  // namespace
}  // namespace mounts
