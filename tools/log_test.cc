#include "tools/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace rpcrdma::tools {
namespace {

using blob::LogLevel;

class LogTest : public testing::Test {
 protected:
  LogTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader_ = ends[0];
    writer_ = ends[1];
    ::fcntl(reader_, F_SETFL, O_NONBLOCK);
  }
  ~LogTest() override {
    ::close(reader_);
    ::close(writer_);
  }

  StderrLog log(LogLevel level = LogLevel::kDebug) {
    return StderrLog(level, writer_, [this] { return now_; });
  }
  // Returns the lines that were written, without the times.
  std::vector<std::string> lines() const {
    std::string all;
    std::array<char, 4096> buffer;
    for (ssize_t size = 0; (size = ::read(reader_, buffer.data(), buffer.size())) > 0;) {
      all.append(buffer.data(), static_cast<std::size_t>(size));
    }
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = all.find('\n', at);
      const std::string line = all.substr(at, end - at);
      lines.push_back(line.substr(std::min(line.size(), line.find(' ') + 1)));
      at = end + 1;
    }
    return lines;
  }

  int reader_ = -1, writer_ = -1;
  StderrLog::Time now_{std::chrono::seconds(1'700'000'000)};
};

TEST_F(LogTest, RareLineIsWrittenOnceAMinuteAndCountsTheOthers) {
  StderrLog log = this->log();
  RareLine line(log, LogLevel::kInfo);
  const std::chrono::steady_clock::time_point start{};
  for (int second = 0; second < 60; ++second) line.write("a", start + std::chrono::seconds(second));
  line.write("b", start + std::chrono::seconds(60));
  line.write("c", start + std::chrono::seconds(120));
  EXPECT_EQ(lines(),
            (std::vector<std::string>{
                "info a", "info b (and 59 others since the last line of this kind)", "info c"}));
}

TEST_F(LogTest, LineHasTimeLevelAndText) {
  log().write(LogLevel::kWarning, "10.0.0.1:5 is lost");
  std::array<char, 100> buffer{};
  const ssize_t size = ::read(reader_, buffer.data(), buffer.size());
  EXPECT_EQ(std::string(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size))),
            "2023-11-14T22:13:20.000Z warning 10.0.0.1:5 is lost\n");
}

TEST_F(LogTest, WritesWhatTheLevelAllows) {
  for (const auto level : {LogLevel::kNone, LogLevel::kError, LogLevel::kInfo, LogLevel::kDebug}) {
    StderrLog each = log(level);
    each.write(LogLevel::kError, "a");
    each.write(LogLevel::kInfo, "b");
    each.write(LogLevel::kDebug, "c");
    const std::size_t expected = level == LogLevel::kNone    ? 0
                                 : level == LogLevel::kError ? 1
                                 : level == LogLevel::kInfo  ? 2
                                                             : 3;
    EXPECT_EQ(lines().size(), expected);
  }
}

TEST_F(LogTest, TextOfOthersIsOneLineAndMovesNoCursor) {
  StderrLog one = log();
  one.write(LogLevel::kInfo, "a\nb\x1b[2J\xff");
  EXPECT_EQ(lines(), std::vector<std::string>{"info a\\x0ab\\x1b[2J\\xff"});
}

TEST_F(LogTest, FloodIsCutAndCounted) {
  StderrLog one = log();
  for (int i = 0; i < 1000; ++i) one.write(LogLevel::kInfo, "x");
  EXPECT_EQ(lines().size(), 100U);
  one.write(LogLevel::kError, "y");
  EXPECT_EQ(lines(), std::vector<std::string>{"error y"}) << "levels do not suppress each other";
  now_ += std::chrono::seconds(1);
  for (int i = 0; i < 1000; ++i) one.write(LogLevel::kInfo, "x");
  const auto later = lines();
  ASSERT_EQ(later.size(), 21U);
  EXPECT_EQ(later[0], "info 900 lines were left out here");
}

TEST_F(LogTest, ReportsOmittedLinesAtTheEnd) {
  {
    StderrLog one = log();
    for (int i = 0; i < 130; ++i) one.write(LogLevel::kInfo, "x");
  }
  EXPECT_EQ(lines().back(), "info 30 lines were left out here");
}

TEST_F(LogTest, ReaderThatDoesNotReadHoldsNobodyUp) {
  const std::string long_text(1900, 'x');
  {
    StderrLog one = log();
    for (int i = 0; i < 90; ++i) one.write(LogLevel::kInfo, long_text);  // a pipe holds 64 KiB
    EXPECT_LT(lines().size(), 90U);
    one.write(LogLevel::kInfo, "last");
    EXPECT_EQ(lines().back(), "info last");
  }
}

}  // namespace
}  // namespace rpcrdma::tools
