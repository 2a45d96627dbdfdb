#include "nfs/handle_seal.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

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
