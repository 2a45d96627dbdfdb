#include "tools/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

using blob::LogLevel;

constexpr double kLinesAtOnce = 100;
constexpr double kLinesPerSecond = 20;
constexpr std::size_t kLineMax = 2000;  // bytes; a pipe that poll() calls writable takes as many
constexpr std::array<std::string_view, 5> kNames = {"none", "error", "warning", "info", "debug"};

std::size_t index_of(LogLevel level) {
  return static_cast<std::size_t>(level);
}

}  // namespace

blob::LogLevel log_level(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  return found == kNames.end() ? LogLevel::kInfo
                               : static_cast<LogLevel>(std::distance(kNames.begin(), found));
}

StderrLog::StderrLog(LogLevel level, int descriptor, std::function<Time()> now)
    : level_(level), descriptor_(descriptor), now_(std::move(now)) {
  allowances_.fill({kLinesAtOnce, now_(), 0});
}

StderrLog::~StderrLog() {
  const Time now = now_();
  for (std::size_t i = 0; i < allowances_.size(); ++i) {
    const std::uint64_t left_out = allowances_[i].left_out;
    if (left_out == 0) continue;
    put(static_cast<LogLevel>(i), fmt::format("{} lines were left out here", left_out), now);
  }
}

void StderrLog::write(LogLevel level, std::string_view text) {
  if (level == LogLevel::kNone || level > level_) return;
  const std::lock_guard lock(mutex_);
  const Time now = now_();
  Allowance& allowance = allowances_[index_of(level)];
  if (!may_write(allowance, now)) {
    ++allowance.left_out;
    return;
  }
  if (allowance.left_out > 0 &&
      put(level, fmt::format("{} lines were left out here", allowance.left_out), now)) {
    allowance.left_out = 0;
  }
  if (put(level, text, now)) {
    allowance.lines -= 1;
  } else {
    ++allowance.left_out;
  }
}

void RareLine::write(std::string_view text, std::chrono::steady_clock::time_point now) {
  constexpr std::chrono::minutes kPause{1};
  const std::lock_guard lock(mutex_);
  if (written_ && now - *written_ < kPause) {
    ++left_out_;
    return;
  }
  written_ = now;
  const std::uint64_t others = std::exchange(left_out_, 0);
  log_.write(level_, others == 0
                         ? std::string(text)
                         : fmt::format("{} (and {} others since the last line of this kind)", text,
                                       others));
}

bool StderrLog::may_write(Allowance& allowance, Time now) const {
  const double seconds = std::chrono::duration<double>(now - allowance.since).count();
  allowance.since = now;
  allowance.lines =
      std::min(kLinesAtOnce, allowance.lines + std::max(0.0, seconds) * kLinesPerSecond);
  return allowance.lines >= 1;
}

bool StderrLog::put(LogLevel level, std::string_view text, Time now) const {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::string line = fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z {} {}",
                                 fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                                 milliseconds, kNames[index_of(level)], printable(text));
  line.resize(std::min(line.size(), kLineMax));
  line += '\n';
  pollfd entry{descriptor_, POLLOUT, 0};
  if (::poll(&entry, 1, 0) != 1 || (entry.revents & POLLOUT) == 0) return false;
  return ::write(descriptor_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

}  // namespace rpcrdma::tools
