#include "tools/output.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace {

int close_error = 0;  // of the next close(2), as of a network file system without room

}  // namespace

extern "C" int close(int descriptor) {
  const int error = std::exchange(close_error, 0);
  const auto closed = static_cast<int>(::syscall(SYS_close, descriptor));
  if (error == 0) return closed;
  errno = error;
  return -1;
}

namespace rpcrdma::tools {
namespace {

namespace fs = std::filesystem;
using Temporary = Output::Temporary;

class OutputTest : public testing::TestWithParam<Temporary> {
 protected:
  OutputTest() {
    std::string pattern = testing::TempDir() + "rpcrdma-output.XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~OutputTest() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  static bool write(Output& output, std::string_view text) {
    return output.write(std::as_bytes(std::span(text)), [](int) {});
  }
  std::string content(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }

  fs::path directory_;
};

INSTANTIATE_TEST_SUITE_P(Temporaries, OutputTest,
                         testing::Values(Temporary::kAny, Temporary::kNamed));

TEST_P(OutputTest, FileAppearsWhenItIsCompleteAndReplacesTheOldOne) {
  for (const std::string_view text : {"first", "second"}) {
    const std::string before = content("file");
    Output output(path("file"), "name", GetParam());
    ASSERT_EQ(output.problem(), "");
    ASSERT_TRUE(write(output, text));
    EXPECT_EQ(content("file"), before);
    ASSERT_TRUE(output.finish());
    EXPECT_EQ(content("file"), text);
    EXPECT_EQ(files(), 1U);
  }
}

TEST_P(OutputTest, OldFileStaysWhenTheFileSystemFindsNoRoomAtTheClose) {
  std::ofstream(path("file")) << "old";
  {
    Output output(path("file"), "name", GetParam());
    ASSERT_TRUE(write(output, "new"));
    close_error = ENOSPC;
    EXPECT_FALSE(output.finish());
    EXPECT_EQ(errno, ENOSPC);
  }
  EXPECT_EQ(content("file"), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_P(OutputTest, LeavesNothingWhenGivenUp) {
  {
    Output output(path("file"), "name", GetParam());
    ASSERT_TRUE(write(output, "half"));
  }
  EXPECT_EQ(files(), 0U);
}

TEST_P(OutputTest, SignalLeavesNothing) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = ::fork();
    if (child == 0) {
      Output output(path("file"), "name", GetParam());
      if (write(output, "half")) ::raise(number);
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number);
    EXPECT_EQ(files(), 0U);
  }
}

TEST_P(OutputTest, TwoAtOnceDoNotMeet) {
  Output first(path("file"), "name", GetParam());
  Output second(path("file"), "name", GetParam());
  ASSERT_TRUE(write(first, "first"));
  ASSERT_TRUE(write(second, "second"));
  ASSERT_TRUE(first.finish());
  EXPECT_EQ(content("file"), "first");
  ASSERT_TRUE(second.finish());
  EXPECT_EQ(content("file"), "second");
  EXPECT_EQ(files(), 1U);
}

TEST_P(OutputTest, NameMayHaveAsManyBytesAsTheFileSystemTakes) {
  const std::string name(255, 'x');
  Output output(path(name), "name", GetParam());
  ASSERT_TRUE(write(output, "text"));
  ASSERT_TRUE(output.finish());
  EXPECT_EQ(content(name), "text");
}

TEST_P(OutputTest, DirectoryGetsAFileOfTheName) {
  Output output(directory_.string(), "name", GetParam());
  ASSERT_TRUE(write(output, "text"));
  ASSERT_TRUE(output.finish());
  EXPECT_EQ(content("name"), "text");
}

TEST_P(OutputTest, ProblemsAreSaid) {
  EXPECT_NE(Output(path("none/file"), "name", GetParam()).problem(), "");
  EXPECT_NE(Output(path(std::string(256, 'x')), "name", GetParam()).problem(), "");
  fs::create_directories(path("name/name"));
  EXPECT_NE(Output(directory_.string(), "name", GetParam()).problem(), "");
}

}  // namespace
}  // namespace rpcrdma::tools
