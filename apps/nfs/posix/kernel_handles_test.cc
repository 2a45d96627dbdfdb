#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "nfs/posix/handles.h"

namespace nfs::posix {
namespace {

class KernelHandlesTest : public testing::Test {
 protected:
  KernelHandlesTest() {
    std::string name = (std::filesystem::temp_directory_path() / "handles-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
    root_ = files::File(path_.c_str(), O_PATH | O_DIRECTORY);
  }
  ~KernelHandlesTest() override { std::filesystem::remove_all(path_); }

  void SetUp() override {
    if (!kernel_opens_handles()) {
      GTEST_SKIP() << "the kernel opens no handles of files in " << path_ << " for this user";
    }
  }
  bool kernel_opens_handles() const {
    struct alignas(file_handle) Room {
      std::array<char, sizeof(file_handle) + MAX_HANDLE_SZ> bytes{};
    } room;
    auto* const handle = reinterpret_cast<file_handle*>(room.bytes.data());
    handle->handle_bytes = MAX_HANDLE_SZ;
    int mount = 0;
    const files::File top(path_.c_str(), O_RDONLY | O_DIRECTORY);
    if (::name_to_handle_at(top.descriptor(), "", handle, &mount, AT_EMPTY_PATH) != 0) return false;
    return files::File(::open_by_handle_at(top.descriptor(), handle, O_PATH)).is_open();
  }
  static ino_t number_of(const files::File& file) {
    struct stat status {};
    EXPECT_EQ(::fstat(file.descriptor(), &status), 0);
    return status.st_ino;
  }

  std::filesystem::path path_;
  files::File root_;
};

TEST_F(KernelHandlesTest, FindAFileUnderAnyName) {
  std::ofstream(path_ / "file") << "x";
  std::ofstream(path_ / "other") << "y";
  const auto handles = kernel_handles(root_);
  ASSERT_NE(handles, nullptr);
  const files::File file((path_ / "file").c_str(), O_PATH);
  const auto handle = handles->of(file, {}, "file");
  ASSERT_TRUE(handle);
  std::filesystem::create_directory(path_ / "folder");
  std::filesystem::rename(path_ / "file", path_ / "folder/moved");
  const files::File opened = handles->open(*handle);
  ASSERT_TRUE(opened.is_open());
  EXPECT_EQ(number_of(opened), number_of(file));
}

TEST_F(KernelHandlesTest, AreStaleWhereTheyAreOfAnotherKind) {
  const auto handles = kernel_handles(root_);
  ASSERT_NE(handles, nullptr);
  EXPECT_FALSE(handles->open({}).is_open());
  EXPECT_EQ(errno, ESTALE);
  const auto good = handles->of(root_, {}, {});
  ASSERT_TRUE(good);
  InnerHandle other = *good;
  other.bytes[0] = std::byte{0xfe};
  EXPECT_FALSE(handles->open(other).is_open());
  EXPECT_EQ(errno, ESTALE);
}

}  // namespace
}  // namespace nfs::posix
