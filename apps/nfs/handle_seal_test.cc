#include "nfs/handle_seal.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "nfs/posix/disk_for_test.h"

namespace nfs {
namespace {

using testing::HasSubstr;

std::vector<std::byte> inner(std::size_t size) {
  std::vector<std::byte> made(size);
  for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<std::byte>(i + 1);
  return made;
}

class HandleKeyTest : public testing::Test {
 protected:
  HandleKeyTest() {
    std::string name = (std::filesystem::temp_directory_path() / "handle-key-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~HandleKeyTest() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/key"; }

  const HandleKey key_ = HandleKey::random();
  std::string folder_;
};

TEST_F(HandleKeyTest, OpensWhatItSealed) {
  for (std::size_t size = 0; size <= HandleMaker::kInnerHandleMax; ++size) {
    const auto handle = key_.seal(7, inner(size));
    EXPECT_LE(handle.data.size(), nfs3::NFS3_FHSIZE);
    const auto opened = key_.open(handle);
    ASSERT_TRUE(opened) << size;
    EXPECT_EQ(opened->id, 7U);
    EXPECT_TRUE(std::ranges::equal(opened->inner, inner(size)));
  }
}

TEST_F(HandleKeyTest, RefusesAHandleOfWhichOneBitIsAnother) {
  const auto handle = key_.seal(7, inner(8));
  for (std::size_t bit = 0; bit < handle.data.size() * 8; ++bit) {
    auto changed = handle;
    changed.data[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(key_.open(changed)) << "bit " << bit;
  }
}

TEST_F(HandleKeyTest, RefusesAHandleThatIsCutOffOrLonger) {
  auto handle = key_.seal(7, inner(8));
  handle.data.push_back(std::byte{0});
  EXPECT_FALSE(key_.open(handle));
  while (!handle.data.empty()) {
    handle.data.pop_back();
    if (handle.data.size() == key_.seal(7, inner(8)).data.size()) continue;
    EXPECT_FALSE(key_.open(handle)) << handle.data.size();
  }
}

TEST_F(HandleKeyTest, RefusesAHandleOfAnotherKey) {
  EXPECT_FALSE(HandleKey::random().open(key_.seal(7, inner(8))));
}

TEST_F(HandleKeyTest, IsTheSameWhenItIsLoadedAgain) {
  const auto made = HandleKey::load(path());
  ASSERT_TRUE(made) << made.error();
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  const auto again = HandleKey::load(path());
  ASSERT_TRUE(again) << again.error();
  EXPECT_TRUE(again->open(made->seal(1, inner(3))));
}

TEST_F(HandleKeyTest, RefusesAFileThatOthersMayRead) {
  ASSERT_TRUE(HandleKey::load(path()));
  ASSERT_EQ(::chmod(path().c_str(), 0640), 0);
  const auto loaded = HandleKey::load(path());
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error(), HasSubstr("chmod 600"));
}

TEST_F(HandleKeyTest, RefusesAFileOfAnotherSize) {
  for (const std::size_t size : {0U, 15U, 17U}) {
    std::ofstream(path(), std::ios::trunc) << std::string(size, 'x');
    ASSERT_EQ(::chmod(path().c_str(), 0600), 0);
    const auto loaded = HandleKey::load(path());
    ASSERT_FALSE(loaded) << size;
    EXPECT_THAT(loaded.error(), HasSubstr("16 bytes"));
  }
}

// The test's own disk holds the servers in the middle of it.
TEST_F(HandleKeyTest, IsWholeOrNotThereAndTheSameForServersThatBeginAtOnce) {
  posix::DiskForTest::is_slow = true;
  const auto load = [this] { return HandleKey::load(path()); };
  auto one = std::async(std::launch::async, load), other = std::async(std::launch::async, load);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (posix::DiskForTest::waiting < 2 && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
  EXPECT_EQ(posix::DiskForTest::waiting, 2) << "neither has seen the key of the other";
  EXPECT_FALSE(std::filesystem::exists(path())) << "it may not be on the disk";
  posix::DiskForTest::is_slow = false;
  const auto its = one.get(), of_other = other.get();
  ASSERT_TRUE(its) << its.error();
  ASSERT_TRUE(of_other) << of_other.error();
  EXPECT_TRUE(of_other->open(its->seal(1, inner(3))));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "the key alone";
}

TEST_F(HandleKeyTest, LeavesNothingOfOneThatIsNotOnTheDisk) {
  posix::DiskForTest::sync_error = EIO;
  const auto loaded = HandleKey::load(path());
  posix::DiskForTest::sync_error = 0;
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error(), HasSubstr("cannot be made"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(HandleKeyTest, IsNotMadeByReading) {
  const auto read = HandleKey::read(path());
  ASSERT_TRUE(read) << read.error();
  EXPECT_FALSE(*read);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(HandleKeyTest, SaysThatThePlaceIsNotThere) {
  const auto loaded = HandleKey::load(folder_ + "/none/key");
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error(), HasSubstr("No such file or directory"));
}

TEST(ExportId, IsOfTheNameAndTheDirectory) {
  EXPECT_EQ(export_id("/data", inner(8)), export_id("/data", inner(8)));
  EXPECT_NE(export_id("/data", inner(8)), export_id("/date", inner(8)));
  EXPECT_NE(export_id("/data", inner(8)), export_id("/data", inner(9)));
}

}  // namespace
}  // namespace nfs
