#include "tools/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "tools/text.h"

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

  StderrLog log(const LogLevels& levels = LogLevels(LogLevel::kDebug),
                LogFormat format = LogFormat::kText) {
    return StderrLog(levels, format, writer_, [this] { return now_; });
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
  for (int second = 0; second < 60; ++second, now_ += std::chrono::seconds(1)) {
    log.write(LogKind::kConnectionReset, "a");
    log.report_left_out();
  }
  log.write(LogKind::kConnectionReset, "b");
  now_ += std::chrono::seconds(1);
  log.report_left_out();
  now_ += std::chrono::seconds(59);
  log.write(LogKind::kConnectionReset, "c");
  EXPECT_EQ(lines(), (std::vector<std::string>{
                         "info connections: a", "info connections: b",
                         "info connections: 59 lines about resets without a call under way were "
                         "left out here",
                         "info connections: c"}));
}

TEST_F(LogTest, LineHasTimeLevelSubsystemAndText) {
  log().write(LogKind::kConnectionLost, "10.0.0.1:5 is lost");
  std::array<char, 100> buffer{};
  const ssize_t size = ::read(reader_, buffer.data(), buffer.size());
  EXPECT_EQ(std::string(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size))),
            "2023-11-14T22:13:20.000Z warning connections: 10.0.0.1:5 is lost\n");
}

TEST_F(LogTest, WritesWhatTheLevelAllows) {
  for (const auto level : {LogLevel::kNone, LogLevel::kError, LogLevel::kInfo, LogLevel::kDebug}) {
    StderrLog each = log(LogLevels(level));
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

TEST_F(LogTest, SubsystemsHaveLevelsOfTheirOwn) {
  StderrLog one = log(*LogLevels::parse("nfs=info,error,connections=debug"));
  const auto write_all = [&one] {
    one.write(LogKind::kState, "a");
    one.write(LogKind::kFailure, "b");
    one.write(LogKind::kConnectionDetail, "c");
    one.write(LogKind::kMount, "d");
  };
  write_all();
  EXPECT_EQ(lines(),
            (std::vector<std::string>{"error serve: b", "debug connections: c", "info nfs: d"}));
  one.set_levels(*LogLevels::parse("connections=none"));
  write_all();
  EXPECT_EQ(lines(), (std::vector<std::string>{"info serve: a", "error serve: b", "info nfs: d"}));
}

TEST(LogLevelsTest, MistakesAreNamedWithWhatWasProbablyMeant) {
  const auto problem = [](const char* text) {
    const auto levels = LogLevels::parse(text);
    return levels ? std::string() : levels.error();
  };
  EXPECT_EQ(problem("info,nfs=debug"), "");
  EXPECT_THAT(problem("loud"), testing::HasSubstr("takes none, error, warning, info or debug"));
  EXPECT_THAT(problem("info,nfs=debg"), testing::HasSubstr("did you mean 'debug'?"));
  EXPECT_THAT(problem("connection=info"), testing::HasSubstr("did you mean 'connections'?"));
  EXPECT_THAT(problem("info,debug"), testing::HasSubstr("one level for the subsystems not named"));
  EXPECT_THAT(problem("nfs=info,nfs=debug"), testing::HasSubstr("one level for nfs"));
  for (const char* const text : {"", ",", "info,", "nfs=", "=info", "nfs=info=debug"}) {
    EXPECT_NE(problem(text), "") << text;
  }
}

TEST_F(LogTest, TextOfOthersIsOneLineAndMovesNoCursor) {
  StderrLog one = log();
  one.write(LogKind::kMount, "a\nb\x1b[2J\xff");
  EXPECT_EQ(lines(), std::vector<std::string>{"info nfs: a\\x0ab\\x1b[2J\\xff"});
}

// Returns the number of a line that counts others; 0: it is another one.
std::uint64_t left_out_by(const std::string& line) {
  const std::size_t end = line.find(" lines about ");
  if (end == std::string::npos) return 0;
  return std::stoull(line.substr(line.rfind(' ', end - 1) + 1));
}

bool is_of_peers(LogKind kind) {
  return facts_of(kind).rate.may_share;
}

TEST_F(LogTest, FloodIsCutAndCountedWithinAMinute) {
  StderrLog one = log();
  for (int i = 0; i < 1000; ++i) one.write(LogKind::kConnected, "x");
  EXPECT_EQ(lines().size(), 42U) << "the common allowance, and its own";
  now_ += std::chrono::seconds(59);
  one.report_left_out();
  EXPECT_EQ(lines().size(), 0U);
  now_ += std::chrono::seconds(1);
  one.report_left_out();
  one.report_left_out();
  EXPECT_EQ(lines(), std::vector<std::string>{
                         "info connections: 958 lines about new connections were left out here"});
}

TEST_F(LogTest, KindThatFloodsHidesNoOther) {
  StderrLog one = log();
  for (int minute = 0; minute < 10; ++minute, now_ += std::chrono::minutes(1)) {
    for (std::size_t flood = 0; flood < kLogKinds; ++flood) {
      for (int i = 0; i < 100; ++i) {
        if (is_of_peers(static_cast<LogKind>(flood))) one.write(static_cast<LogKind>(flood), "x");
      }
    }
    (void)lines();
    one.write(LogKind::kState, "reload");
    EXPECT_EQ(lines(), std::vector<std::string>{"info serve: reload"});
  }
  // A disk that becomes full while everybody connects.
  now_ += std::chrono::minutes(10);
  for (int i = 0; i < 10000; ++i) one.write(LogKind::kConnected, "x");
  (void)lines();
  one.write(LogKind::kFull, "full");
  EXPECT_EQ(lines(), std::vector<std::string>{"error nfs: full"});
}

TEST_F(LogTest, PeersCauseFewerThanTwoHundredLinesInAnyMinute) {
  StderrLog one = log(LogLevels(LogLevel::kInfo));
  std::vector<std::size_t> written;  // in each second
  std::uint64_t asked = 0, seen = 0, counted = 0;
  const auto take = [&] {
    written.push_back(0);
    for (const std::string& line : lines()) {
      const std::uint64_t left_out = left_out_by(line);
      counted += left_out;
      if (left_out == 0) ++seen;
      ++written.back();
    }
  };
  for (int second = 0; second < 600; ++second, now_ += std::chrono::seconds(1)) {
    for (std::size_t kind = 0; kind < kLogKinds; ++kind) {
      const LogRate rate = facts_of(static_cast<LogKind>(kind)).rate;
      const bool is_rare = rate.at_once == 1;
      if (!is_of_peers(static_cast<LogKind>(kind)) && !is_rare) continue;
      for (int i = 0; i < 20; ++i, ++asked) one.write(static_cast<LogKind>(kind), "x");
    }
    one.report_left_out();
    take();
  }
  for (std::size_t second = 0; second + 60 <= written.size(); ++second) {
    const auto begin = written.begin() + static_cast<std::ptrdiff_t>(second);
    EXPECT_LT(std::accumulate(begin, begin + 60, std::size_t{0}), 200U) << second;
  }
  now_ += std::chrono::minutes(1);
  one.report_left_out();
  take();
  EXPECT_EQ(seen + counted, asked);
}

TEST_F(LogTest, ClockThatIsSetBackHoldsNoCountBack) {
  StderrLog one = log();
  for (int i = 0; i < 100; ++i) one.write(LogKind::kMount, "x");
  (void)lines();
  now_ -= std::chrono::hours(24);
  one.report_left_out();
  EXPECT_EQ(lines().size(), 1U);
}

TEST_F(LogTest, ReportsOmittedLinesAtTheEnd) {
  {
    StderrLog one = log();
    for (int i = 0; i < 130; ++i) one.write(LogKind::kMount, "x");
  }
  EXPECT_EQ(lines().back(), "info nfs: 88 lines about mounts and unmounts were left out here");
}

TEST_F(LogTest, JsonIsOneObjectALineForAnyText) {
  StderrLog one = log(LogLevels(), LogFormat::kJson);
  one.write(LogKind::kMountRefused, "a\"\n\xff\xc3\xa9");
  const std::vector<std::string> written = lines();
  ASSERT_EQ(written.size(), 1U);
  // lines() takes the text up to the first space away, and JSON has none before the text.
  EXPECT_THAT(written[0], testing::EndsWith("mounts\",\"text\":\"a\\\"\\n\xef\xbf\xbd\xc3\xa9\"}"));
}

TEST_F(LogTest, JsonThatIsTooLongForALineIsCutInItsText) {
  StderrLog one = log(LogLevels(), LogFormat::kJson);
  one.write(LogKind::kMount, std::string(5000, '\x01'));
  one.write(LogKind::kMount, std::string(5000, 'x'));
  const std::vector<std::string> written = lines();
  ASSERT_EQ(written.size(), 2U);
  for (const std::string& line : written) {
    EXPECT_LE(line.size(), 2000U);
    EXPECT_THAT(line, testing::EndsWith("\"}"));
  }
}

TEST_F(LogTest, LineThatIsTooLongIsCutBetweenLetters) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJournal, LogFormat::kJson}) {
    StderrLog one = log(LogLevels(LogLevel::kDebug), format);
    for (const std::string letter : {"\u00e9", "\u20ac", "\U0001f600"}) {
      for (std::size_t offset = 0; offset < letter.size(); ++offset) {
        std::string text(offset, 'x');
        while (text.size() < 3000) text += letter;
        one.write(LogKind::kMount, text);
        const std::vector<std::string> written = lines();
        ASSERT_EQ(written.size(), 1U);
        EXPECT_TRUE(is_utf8(written.front())) << letter << " at " << offset;
        EXPECT_THAT(written.front(), testing::Not(testing::HasSubstr("\ufffd")));
        EXPECT_THAT(written.front(), testing::Not(testing::HasSubstr("\\ufffd")));
        EXPECT_GT(written.front().size(), 1400U);
      }
    }
  }
}

TEST_F(LogTest, TextThatIsNoUtf8IsCutAtTheLengthOfALine) {
  log().write(LogKind::kMount, std::string(5000, '\x80'));
  StderrLog(LogLevels(LogLevel::kDebug), LogFormat::kJson, writer_, [this] {
    return now_;
  }).write(LogKind::kMount, std::string(5000, '\x80'));
  for (const std::string& line : lines()) EXPECT_GT(line.size(), 400U);
}

TEST_F(LogTest, JournalGetsPrioritiesAndNoTime) {
  StderrLog one = log(LogLevels(LogLevel::kDebug), LogFormat::kJournal);
  one.write(LogKind::kFailure, "a b");
  one.write(LogKind::kSetting, "a b");
  one.write(LogKind::kState, "a\n<0>b");
  one.write(LogKind::kConnectionDetail, "a b");
  std::array<char, 200> buffer{};
  const ssize_t size = ::read(reader_, buffer.data(), buffer.size());
  EXPECT_EQ(std::string(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size))),
            "<3>serve: a b\n<4>serve: a b\n<6>serve: a\\x0a<0>b\n<7>connections: a b\n");
}

TEST_F(LogTest, JournalIsWhereTheVariableNamesTheDescriptor) {
  struct stat status {};
  ASSERT_EQ(::fstat(writer_, &status), 0);
  const std::string own = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  ::unsetenv("JOURNAL_STREAM");
  EXPECT_EQ(log_format("auto", writer_), LogFormat::kText);
  ::setenv("JOURNAL_STREAM", (own + "0").c_str(), 1);
  EXPECT_EQ(log_format("auto", writer_), LogFormat::kText);
  ::setenv("JOURNAL_STREAM", own.c_str(), 1);
  EXPECT_EQ(log_format("auto", writer_), LogFormat::kJournal);
  EXPECT_EQ(log_format("text", writer_), LogFormat::kText);
  EXPECT_EQ(log_format("json", writer_), LogFormat::kJson);
  ::unsetenv("JOURNAL_STREAM");
  EXPECT_EQ(log_format("journal", writer_), LogFormat::kJournal);
}

TEST_F(LogTest, ReaderThatDoesNotReadHoldsNobodyUp) {
  const std::string long_text(1900, 'x');
  {
    StderrLog one = log();
    for (int i = 0; i < 90; ++i) {  // a pipe holds 64 KiB
      one.write(LogKind::kConnectionDetail, long_text);
    }
    EXPECT_LT(lines().size(), 90U);
    one.write(LogKind::kConnectionDetail, "last");
    EXPECT_EQ(lines().back(), "debug connections: last");
  }
}

}  // namespace
}  // namespace rpcrdma::tools
