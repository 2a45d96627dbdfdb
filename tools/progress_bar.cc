#include "tools/progress_bar.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tools/command.h"

namespace rpcrdma::tools {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);
constexpr auto kPause = std::chrono::milliseconds(100);
constexpr auto kWatchPause = std::chrono::seconds(1);
constexpr auto kStillMin = std::chrono::seconds(3);
constexpr std::size_t kBarWidth = 16;
constexpr const char* kWipe = "\r\x1b[K";  // to the first column; to the end of the line: nothing

std::size_t columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string time_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::min(seconds + 0.5, 359'999.0));
  return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

ProgressBar::ProgressBar(std::string name, std::string peer)
    : name_(std::move(name)),
      peer_(std::move(peer)),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      next_(start_ + kPatience),
      moved_(start_) {
  if (is_terminal_ && !peer_.empty()) watcher_ = std::thread([this] { watch(); });
}

ProgressBar::~ProgressBar() {
  if (watcher_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
    }
    end_.notify_one();
    watcher_.join();
  }
  if (!drawn_) return;
  std::fputs(kWipe, stderr);
  std::fflush(stderr);
}

void ProgressBar::watch() {
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, kWatchPause, [this] { return has_ended_; })) {
    const auto still = Clock::now() - moved_;
    if (still < kStillMin) continue;
    draw(fmt::format(" waiting for {} ({} s) ...", peer_,
                     std::chrono::floor<std::chrono::seconds>(still).count()));
  }
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!is_terminal_) return;
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  if (done != done_) moved_ = now;
  done_ = done;
  if (now < next_) return;
  next_ = now + kPause;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  if (total == 0) {
    draw(fmt::format(" {}, {}/s", size_text(done),
                     size_text(static_cast<std::uint64_t>(static_cast<double>(done) / seconds))));
    return;
  }
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const double rate = static_cast<double>(done) / seconds;
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kBarWidth));
  const std::string numbers =
      fmt::format(" [{}{}] {:3.0f}% {} of {}, {}/s, {} left", std::string(filled, '#'),
                  std::string(kBarWidth - filled, '.'), share * 100, size_text(done),
                  size_text(total), size_text(static_cast<std::uint64_t>(rate)),
                  done == 0 ? "?" : time_text(seconds * (1 - share) / std::max(share, 1e-9)));
  draw(numbers);
}

void ProgressBar::draw(const std::string& numbers) {
  // A line that the terminal breaks could not be wiped away; the numbers say more than the name.
  const std::size_t room = columns() - 1;
  std::string line = name_.substr(0, room > numbers.size() ? room - numbers.size() : 0) + numbers;
  line.resize(std::min(line.size(), room));
  std::fputs(fmt::format("{}{}", kWipe, line).c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace rpcrdma::tools
