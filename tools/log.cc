#include "tools/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

using blob::LogLevel;

constexpr std::chrono::minutes kPause{1};  // between the first line left out and their count
constexpr std::size_t kLineMax = 2000;     // bytes; a pipe that poll() calls writable takes as many

std::string time_text(StderrLog::Time now) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), milliseconds);
}

// The priorities of syslog(3), by level.
constexpr std::array<int, 5> kPriorities = {6, 3, 4, 6, 7};

std::string json_line(const LogKindFacts& facts, std::string_view text, StderrLog::Time now,
                      std::uint64_t left_out) {
  Json line = Json::ordered_object();
  line.set("time", time_text(now));
  line.set("level", name_of(facts.level));
  line.set("subsystem", name_of(facts.subsystem));
  line.set("kind", facts.name);
  line.set("text", text);
  if (left_out > 0) line.set("left_out", left_out);
  return line.text();
}

// Returns the beginning of the text, of so many bytes at most, without a part of a letter of UTF-8
// at its end. Bytes that belong to none are no reason to go back further than a letter is long.
std::string_view beginning_of(std::string_view text, std::size_t size_max) {
  if (text.size() <= size_max) return text;
  constexpr std::size_t kContinuationsMax = 3;
  for (std::size_t back = 0; back <= std::min(kContinuationsMax, size_max); ++back) {
    const auto next = static_cast<std::uint8_t>(text[size_max - back]);
    if ((next & 0xc0U) != 0x80) return text.substr(0, size_max - back);
  }
  return text.substr(0, size_max);
}

// Cuts the text until its line fits: what is cut from the line itself would be no JSON.
std::string short_json_line(const LogKindFacts& facts, std::string_view text, StderrLog::Time now,
                            std::uint64_t left_out) {
  text = beginning_of(text, kLineMax);
  for (;;) {
    std::string line = json_line(facts, text, now, left_out);
    if (line.size() <= kLineMax || text.empty()) return line;
    text = beginning_of(text, text.size() * 3 / 4);
  }
}

}  // namespace

LogFormat log_format(std::string_view name, int descriptor) {
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  if (name == "journal") return LogFormat::kJournal;
  return is_journal(descriptor) ? LogFormat::kJournal : LogFormat::kText;
}

StderrLog::StderrLog(const LogLevels& levels, LogFormat format, int descriptor,
                     std::function<Time()> now)
    : format_(format), descriptor_(descriptor), now_(std::move(now)) {
  set_levels(levels);
  const Time begin = now_();
  for (std::size_t i = 0; i < kLogKinds; ++i) {
    const LogRate rate = facts_of(static_cast<LogKind>(i)).rate;
    allowances_[i] = {rate, rate.at_once, begin};
  }
  shared_ = {kSharedRate, kSharedRate.at_once, begin};
}

StderrLog::~StderrLog() {
  report_all_left_out();
}

void StderrLog::report_all_left_out() {
  const std::lock_guard lock(mutex_);
  const Time now = now_();
  for (std::size_t i = 0; i < kLogKinds; ++i) put_left_out(static_cast<LogKind>(i), now);
}

void StderrLog::set_levels(const LogLevels& levels) noexcept {
  for (std::size_t i = 0; i < kSubsystems; ++i) levels_[i] = levels[static_cast<Subsystem>(i)];
}

void StderrLog::write(LogKind kind, std::string_view text) {
  if (!takes(kind)) return;
  const std::lock_guard lock(mutex_);
  const Time now = now_();
  if (!may_write(kind, now) || !put(kind, text, now)) leave_out(kind, now);
}

void StderrLog::write(LogLevel level, std::string_view text) {
  switch (level) {
    case LogLevel::kNone:
      return;
    case LogLevel::kError:
      return write(LogKind::kBlobFailed, text);
    case LogLevel::kWarning:
      return write(LogKind::kBlobRefused, text);
    case LogLevel::kInfo:
      return write(LogKind::kBlobChanged, text);
    case LogLevel::kDebug:
      return write(LogKind::kBlobDetail, text);
  }
}

void StderrLog::report_left_out() {
  const std::lock_guard lock(mutex_);
  const Time now = now_();
  for (std::size_t i = 0; i < kLogKinds; ++i) {
    // A clock that was set back would hold the count back for as long.
    const Time since = left_out_[i].since;
    if (now - since >= kPause || now < since) put_left_out(static_cast<LogKind>(i), now);
  }
}

bool StderrLog::takes(LogKind kind) const noexcept {
  const LogKindFacts& facts = facts_of(kind);
  return facts.level <= levels_[static_cast<std::size_t>(facts.subsystem)];
}

void StderrLog::Allowance::fill(Time now) {
  const double minutes = std::chrono::duration<double, std::ratio<60>>(now - since).count();
  since = now;
  lines = std::min(rate.at_once, lines + std::max(0.0, minutes) * rate.a_minute);
}

// The kind's own allowance is for when the others have used the common one up.
bool StderrLog::may_write(LogKind kind, Time now) {
  Allowance& own = allowances_[static_cast<std::size_t>(kind)];
  own.fill(now);
  shared_.fill(now);
  Allowance& from = own.rate.may_share && shared_.lines >= 1 ? shared_ : own;
  if (from.lines < 1) return false;
  from.lines -= 1;
  return true;
}

void StderrLog::leave_out(LogKind kind, Time now) {
  LeftOut& left_out = left_out_[static_cast<std::size_t>(kind)];
  if (left_out.lines++ == 0) left_out.since = now;
}

void StderrLog::put_left_out(LogKind kind, Time now) {
  LeftOut& left_out = left_out_[static_cast<std::size_t>(kind)];
  if (left_out.lines == 0) return;
  const std::string text =
      fmt::format("{} lines about {} were left out here", left_out.lines, facts_of(kind).name);
  if (put(kind, text, now, left_out.lines)) left_out.lines = 0;
}

bool StderrLog::put(LogKind kind, std::string_view text, Time now, std::uint64_t left_out) const {
  const LogKindFacts& facts = facts_of(kind);
  std::string line;
  switch (format_) {
    case LogFormat::kJson:
      line = short_json_line(facts, text, now, left_out);
      break;
    case LogFormat::kJournal:
      line = fmt::format("<{}>{}: {}", kPriorities[static_cast<std::size_t>(facts.level)],
                         name_of(facts.subsystem), printable(text));
      break;
    case LogFormat::kText:
      line = fmt::format("{} {} {}: {}", time_text(now), name_of(facts.level),
                         name_of(facts.subsystem), printable(text));
      break;
  }
  line.resize(beginning_of(line, kLineMax).size());
  line += '\n';
  pollfd entry{descriptor_, POLLOUT, 0};
  if (::poll(&entry, 1, 0) != 1 || (entry.revents & POLLOUT) == 0) return false;
  return ::write(descriptor_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

}  // namespace rpcrdma::tools
