#include "tools/serve_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

#include "tools/systemd.h"

namespace rpcrdma::tools {
namespace {

// The handlers may use nothing else.
std::atomic<Server*> server_to_stop = nullptr;
std::atomic<bool> is_draining = false;
std::atomic<int> news = -1;  // a pipe's end, to which they write what has come

enum class Word : char { kReload = 'r', kStop = 's', kEnd = 'e' };

void write_word(Word word) noexcept {
  const int error = errno;  // the interrupted code's
  const char letter = static_cast<char>(word);
  // A full pipe has words that say the same.
  [[maybe_unused]] const auto written = ::write(news, &letter, 1);
  errno = error;
}

// Server::stop() is safe in a signal handler.
extern "C" void stop_server(int) {
  is_draining = true;
  if (Server* server = server_to_stop.load()) server->stop();
  write_word(Word::kStop);
}

extern "C" void ask_for_reload(int) {
  write_word(Word::kReload);
}

std::array<int, 2> pipe_ends{-1, -1};

}  // namespace

ServeSignals::ServeSignals(Server& server, std::function<void()> reload,
                           std::function<void()> stopping)
    : reload_(std::move(reload)), stopping_(std::move(stopping)) {
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0 ||
      ::fcntl(pipe_ends[1], F_SETFL, O_NONBLOCK) != 0) {
    throw std::system_error(errno, std::generic_category(), "making a pipe for signals");
  }
  news = pipe_ends[1];
  server_to_stop = &server;
  struct sigaction action {};
  action.sa_handler = stop_server;
  // The second one ends the process: a disk that hangs may keep calls for ever.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGTERM, SIGINT}) sigaction(number, &action, nullptr);
  action.sa_handler = ask_for_reload;
  action.sa_flags = SA_RESTART;
  sigaction(SIGHUP, &action, nullptr);
  // A file over the limit of this process is an error for its client, not the end of the server.
  // A log whose reader is gone loses its lines. The others would end the server without a drain.
  action.sa_handler = SIG_IGN;
  action.sa_flags = 0;
  for (const int number : {SIGXFSZ, SIGPIPE, SIGUSR1, SIGUSR2}) {
    sigaction(number, &action, nullptr);
  }
  reloader_ = std::thread([this] { run_reloads(); });
  thread_ = std::thread([this] { run(); });
}

ServeSignals::~ServeSignals() {
  server_to_stop = nullptr;
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &action, nullptr);
  write_word(Word::kEnd);
  thread_.join();
  (void)end_reloads(std::chrono::steady_clock::now());
  reloader_.join();
  // The pipe stays: a signal may still be about to write to it.
}

bool ServeSignals::is_stopping() noexcept {
  return is_draining;
}

void ServeSignals::run() {
  for (;;) {
    // Requests to reload that came while one was answered are one: each would read the same.
    std::array<char, 512> come{};
    const auto size = ::read(pipe_ends[0], come.data(), come.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    const std::string_view words(come.data(), static_cast<std::size_t>(size));
    const auto has = [words](Word word) {
      return words.find(static_cast<char>(word)) != words.npos;
    };
    if (has(Word::kStop)) {
      systemd::report_stopping();
      stopping_();
    }
    if (has(Word::kEnd)) return;
    if (!has(Word::kReload)) continue;
    const std::lock_guard lock(mutex_);
    is_wanted_ = true;
    changed_.notify_all();
  }
}

// A reload may wait for names to resolve, and a request to stop must not wait behind it.
void ServeSignals::run_reloads() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_wanted_ || is_over_; });
    if (is_over_) return;
    is_wanted_ = false;
    if (is_draining) continue;  // a server that ends has no use for settings
    is_under_way_ = true;
    lock.unlock();
    reload_();
    lock.lock();
    is_under_way_ = false;
    changed_.notify_all();
  }
}

bool ServeSignals::end_reloads(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
  return changed_.wait_until(lock, until, [this] { return !is_under_way_; });
}

}  // namespace rpcrdma::tools
