#include "files/beneath.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

namespace files {
namespace {

namespace fs = std::filesystem;

class BeneathTest : public testing::TestWithParam<Resolving> {
 protected:
  BeneathTest() {
    std::string pattern = testing::TempDir() + "rpcrdma-beneath.XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    fs::create_directories(root_ / "served" / "folder" / "deep");
    write("outside", "secret");
    write("served/file", "file");
    write("served/folder/deep/file", "deep");
    directory_ = File((root_ / "served").string(), O_RDONLY | O_DIRECTORY);
  }
  ~BeneathTest() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    std::ofstream(root_ / path) << text;
  }
  void link(const std::string& name, const std::string& target) const {
    fs::create_symlink(target, root_ / "served" / name);
  }
  // Returns the content of the file; empty, with errno, if it cannot be opened.
  std::string content(const std::string& path) const {
    return content(open_beneath(directory_.descriptor(), path, O_RDONLY, GetParam()));
  }
  static std::string content(const File& file) {
    if (!file.is_open()) return {};
    std::array<std::byte, 100> buffer;
    const auto size = file.read_at(buffer, 0);
    return size ? std::string(reinterpret_cast<const char*>(buffer.data()), *size) : "error";
  }
  void expect_refused(const std::string& path, int error) const {
    EXPECT_EQ(content(path), "") << path;
    EXPECT_EQ(errno, error) << path;
  }

  fs::path root_;
  File directory_;
};

INSTANTIATE_TEST_SUITE_P(Ways, BeneathTest, testing::Values(Resolving::kAuto, Resolving::kByHand));

TEST_P(BeneathTest, OpensWhatLiesBelow) {
  EXPECT_EQ(content("file"), "file");
  EXPECT_EQ(content("folder/deep/file"), "deep");
  EXPECT_EQ(content("./folder//./deep/../../file"), "file");
  expect_refused("nothing", ENOENT);
  expect_refused("file/file", ENOTDIR);
}

TEST_P(BeneathTest, FollowsLinksThatStayBelow) {
  link("direct", "file");
  link("way", "folder/deep");
  link("twice", "way/file");
  link("folder/deep/up", "../../file");
  link("dangling", "nothing");
  EXPECT_EQ(content("direct"), "file");
  EXPECT_EQ(content("way/file"), "deep");
  EXPECT_EQ(content("twice"), "deep");
  EXPECT_EQ(content("folder/deep/up"), "file");
  EXPECT_EQ(content("way/up"), "file");
  expect_refused("dangling", ENOENT);
}

TEST_P(BeneathTest, LeavesTheDirectoryOnNoWay) {
  link("absolute", (root_ / "outside").string());
  link("inside", (root_ / "served" / "file").string());
  link("up", "../outside");
  link("back", "../served/file");
  link("folder/up", "../../outside");
  link("parent", "..");
  for (const char* const path : {"absolute", "inside", "up", "back", "folder/up", "parent/outside",
                                 "../outside", "folder/../../outside"}) {
    expect_refused(path, EXDEV);
  }
  expect_refused((root_ / "outside").string(), EXDEV);
}

TEST_P(BeneathTest, LinksInACircleEnd) {
  link("one", "two");
  link("two", "one");
  link("self", "self/self/self");
  expect_refused("one", ELOOP);
  expect_refused("self", ELOOP);
}

class InMemory : public BeneathTest {};

INSTANTIATE_TEST_SUITE_P(Ways, InMemory, testing::Values(Resolving::kInMemory));

TEST_P(InMemory, OpensWhatTheKernelKnows) {
  link("absolute", (root_ / "outside").string());
  // The kernel may forget a name, or be in doubt while others rename.
  constexpr int kAttempts = 100;
  File known;
  for (int i = 0; i < kAttempts && !known.is_open(); ++i) {
    for (const char* const path : {"folder/deep/file", "absolute"}) {
      (void)open_beneath(directory_.descriptor(), path, O_PATH);  // the kernel knows it now
    }
    known = open_beneath(directory_.descriptor(), "folder/deep/file", O_RDONLY, GetParam());
  }
  if (!known.is_open() && (errno == EINVAL || errno == ENOSYS || errno == EPERM)) {
    GTEST_SKIP() << "this kernel, or a filter of system calls, knows no RESOLVE_CACHED";
  }
  EXPECT_EQ(content(known), "deep");
  EXPECT_EQ(content("absolute"), "") << "it leads out of the directory";
}

TEST_P(BeneathTest, FlagsHold) {
  ASSERT_EQ(::mkfifo((root_ / "served" / "fifo").c_str(), 0600), 0);
  link("to_fifo", "fifo");
  for (const char* const path : {"fifo", "to_fifo"}) {
    const File opened =
        open_beneath(directory_.descriptor(), path, O_RDONLY | O_NONBLOCK, GetParam());
    ASSERT_TRUE(opened.is_open());
    EXPECT_TRUE(S_ISFIFO(opened.status()->st_mode));
  }
}

}  // namespace
}  // namespace files
