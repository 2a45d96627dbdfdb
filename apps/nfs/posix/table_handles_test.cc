#include <fcntl.h>
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "nfs/posix/beneath.h"
#include "nfs/posix/handles.h"

namespace nfs::posix {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TableHandles : public testing::Test {
 protected:
  TableHandles() {
    std::string name = (fs::temp_directory_path() / "table-handles-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    fs::create_directory(exported());
    begin();
  }
  ~TableHandles() override { fs::remove_all(folder_); }

  fs::path exported() const { return folder_ / "export"; }
  std::string table() const { return folder_ / "table.db"; }
  void begin() {
    handles_.reset();
    root_ = files::File(exported(), O_PATH | O_DIRECTORY);
    auto made = table_handles(root_, table());
    ASSERT_TRUE(made) << made.error();
    handles_ = std::move(*made);
    root_handle_ = handles_->of(root_, {}, {}).value();
  }
  void write(const fs::path& name, const std::string& content = "x") const {
    std::ofstream(exported() / name) << content;
  }
  // By names from the export's directory on, as LOOKUPs would.
  InnerHandle look_up(const fs::path& path) {
    InnerHandle here = root_handle_;
    files::File file(exported(), O_PATH | O_DIRECTORY);
    for (const fs::path& name : path) {
      file = open_beneath(file, name);
      EXPECT_TRUE(file.is_open()) << path;
      here = handles_->of(file, here, name).value_or(InnerHandle());
    }
    return here;
  }
  // The content, or "stale".
  std::string read(const InnerHandle& handle) {
    const files::File file = handles_->open(handle);
    if (!file.is_open()) return errno == ESTALE ? "stale" : std::to_string(errno);
    std::ifstream stream("/proc/self/fd/" + std::to_string(file.descriptor()));
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }
  // Returns whether the file system can tell a file from a later one with the same inode number.
  bool tells_files_apart() const { return kernel_handle_of(root_).has_value(); }

  fs::path folder_;
  files::File root_;
  std::unique_ptr<Handles> handles_;
  InnerHandle root_handle_;
};

TEST_F(TableHandles, OpensWhatWasLookedUp) {
  fs::create_directories(exported() / "a/b");
  write("a/b/file", "content");
  const InnerHandle file = look_up("a/b/file");
  EXPECT_EQ(read(file), "content");
  EXPECT_EQ(look_up("a/b/file"), file);
  EXPECT_NE(look_up("a/b"), file);
  EXPECT_TRUE(handles_->open(root_handle_).is_open());
}

TEST_F(TableHandles, OutlastsARestart) {
  write("file", "content");
  const InnerHandle file = look_up("file"), root = root_handle_;
  begin();
  EXPECT_EQ(root_handle_, root);
  EXPECT_EQ(read(file), "content");
  EXPECT_EQ(look_up("file"), file);
}

TEST_F(TableHandles, KnowsNothingOfAnotherTable) {
  write("file");
  const InnerHandle file = look_up("file"), root = root_handle_;
  handles_.reset();
  fs::remove(table());
  begin();
  EXPECT_NE(root_handle_, root);
  (void)look_up("file");
  EXPECT_EQ(read(file), "stale");
  EXPECT_EQ(read(root), "stale");
}

TEST_F(TableHandles, BeginsAnewForAnotherDirectory) {
  write("file");
  const InnerHandle file = look_up("file");
  handles_.reset();
  fs::rename(exported(), folder_ / "before");
  fs::create_directory(exported());
  write("file", "another");
  begin();
  EXPECT_EQ(read(file), "stale");
  EXPECT_EQ(read(look_up("file")), "another");
}

TEST_F(TableHandles, FollowsWhatIsMovedThroughTheServer) {
  fs::create_directories(exported() / "from");
  fs::create_directories(exported() / "to");
  write("from/file", "content");
  const InnerHandle file = look_up("from/file");
  fs::rename(exported() / "from/file", exported() / "to/other");
  handles_->rename([] { return 0; }, file, look_up("to"), "other");
  EXPECT_EQ(read(file), "content");
  // A directory takes what is in it along.
  const InnerHandle directory = look_up("to");
  fs::rename(exported() / "to", exported() / "from/to");
  handles_->rename([] { return 0; }, directory, look_up("from"), "to");
  EXPECT_EQ(read(file), "content");
}

TEST_F(TableHandles, FindsWhatWasMovedOnTheMachineWhenItIsLookedUp) {
  write("file", "content");
  const InnerHandle file = look_up("file");
  fs::rename(exported() / "file", exported() / "other");
  EXPECT_EQ(read(file), "stale");
  const InnerHandle again = look_up("other");
  EXPECT_EQ(read(again), "content");
  if (tells_files_apart()) {
    EXPECT_EQ(again, file);
  }
}

TEST_F(TableHandles, NeverTakesOneFileForAnother) {
  if (!tells_files_apart()) GTEST_SKIP() << "no file system here that tells files apart";
  // File systems give the number of a file that is gone to the next one.
  write("file", "first");
  const InnerHandle first = look_up("file");
  fs::remove(exported() / "file");
  write("file", "second");
  EXPECT_EQ(read(first), "stale");
  const InnerHandle second = look_up("file");
  EXPECT_NE(second, first);
  EXPECT_EQ(read(first), "stale");
  EXPECT_EQ(read(second), "second");
}

TEST_F(TableHandles, GivesNoNumberTwice) {
  write("file");
  const InnerHandle first = look_up("file");
  handles_->removed(first);
  EXPECT_EQ(read(first), "stale");
  EXPECT_NE(look_up("file"), first);
}

TEST_F(TableHandles, LeavesAPlaceWhereARenameFailed) {
  write("file", "content");
  const InnerHandle file = look_up("file");
  EXPECT_EQ(handles_->rename([] { return -1; }, file, root_handle_, "other"), -1);
  EXPECT_EQ(read(file), "content");
}

TEST_F(TableHandles, PassesOverNumbersThatMayHaveBeenLostWithThePower) {
  const auto copy_all = [&](const std::string& from, const std::string& to) {
    for (const char* const part : {"", "-wal"}) {
      fs::remove(to + part);
      if (fs::exists(from + part)) fs::copy_file(from + part, to + part);
    }
  };
  // The copy is what reached the disk first, and all that is left when the power comes back.
  begin();
  copy_all(table(), table() + ".kept");
  write("file");
  const InnerHandle lost = look_up("file");
  handles_.reset();
  copy_all(table() + ".kept", table());
  begin();
  write("other", "another");
  EXPECT_NE(look_up("other"), lost);
  EXPECT_EQ(read(lost), "stale");
}

TEST_F(TableHandles, HasOneHandleForAFileOfSeveralNames) {
  write("one", "content");
  fs::create_hard_link(exported() / "one", exported() / "two");
  const InnerHandle file = look_up("one");
  EXPECT_EQ(look_up("two"), file);
  EXPECT_EQ(look_up("one"), file);
  fs::remove(exported() / "one");
  // Else "two" may as well be the next file of that inode number.
  if (!tells_files_apart()) return;
  EXPECT_EQ(look_up("two"), file);
  EXPECT_EQ(read(file), "content");
}

TEST_F(TableHandles, FollowsNoLinkOutOfTheExport) {
  fs::create_directory(exported() / "directory");
  write("directory/file", "content");
  const InnerHandle file = look_up("directory/file");
  // The path through the link leads to the very same file.
  fs::rename(exported() / "directory", folder_ / "outside");
  fs::create_directory_symlink(folder_ / "outside", exported() / "directory");
  EXPECT_EQ(read(file), "stale");
  const InnerHandle link = look_up("directory");
  const files::File opened = handles_->open(link);
  ASSERT_TRUE(opened.is_open());
  EXPECT_TRUE(S_ISLNK(opened.status()->st_mode));
}

TEST_F(TableHandles, GoesAsDeepAsTheFileSystemDoes) {
  const std::string name(200, 'd');
  files::File here(exported(), O_PATH | O_DIRECTORY);
  InnerHandle handle = root_handle_;
  for (int depth = 0; depth < 40; ++depth) {
    ASSERT_EQ(::mkdirat(here.descriptor(), name.c_str(), 0755), 0);
    here = open_beneath(here, name);
    handle = handles_->of(here, handle, name).value();
  }
  const files::File deepest = handles_->open(handle);
  ASSERT_TRUE(deepest.is_open());
  EXPECT_EQ(deepest.status()->st_ino, here.status()->st_ino);
}

TEST_F(TableHandles, SaysThatAnotherServerHasIt) {
  const auto second = table_handles(root_, table());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error(), HasSubstr("another server has it open"));
}

TEST_F(TableHandles, SaysWhatToDoWithWhatIsNoTable) {
  handles_.reset();
  std::ofstream(table()) << std::string(5000, 'x');
  const auto wrong = table_handles(root_, table());
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error(), HasSubstr("remove it"));
}

TEST_F(TableHandles, IsNotForOthersToRead) {
  struct stat status {};
  ASSERT_EQ(::stat(table().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

}  // namespace
}  // namespace nfs::posix
