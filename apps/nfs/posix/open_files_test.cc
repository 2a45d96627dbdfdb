#include "nfs/posix/open_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

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

TEST_F(OpenFilesTest, SaysWhyThereIsNone) {
  EXPECT_FALSE(files_.find(numbered(99)));
  EXPECT_EQ(errno, ESTALE);
  EXPECT_EQ(files_.size(), 0U);
}

}  // namespace
}  // namespace nfs::posix
