#include "tools/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace rpcrdma::tools {
namespace {

// The handler may use nothing else.
std::atomic<bool> is_waited_for = false, has_one_come = false;
std::atomic<const char*> last_line = nullptr;
std::atomic<int> last_status = 0;
std::atomic<void (*)()> before_end = nullptr;
std::array<int, 2> pipe_ends{-1, -1};

extern "C" void note_interrupt(int number) {
  if (!is_waited_for) {
    const char* const line = last_line;
    [[maybe_unused]] const auto said = ::write(2, line, std::strlen(line));
    ::_exit(last_status);
  }
  if (has_one_come.exchange(true)) {
    if (void (*const act)() = before_end) act();
    ::signal(number, SIG_DFL);
    (void)::raise(number);
    return;
  }
  const int error = errno;  // the interrupted code's
  [[maybe_unused]] const auto written = ::write(pipe_ends[1], "", 1);
  errno = error;
}

void handle_signals(void (*handler)(int), unsigned int flags = 0) noexcept {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(flags);
  for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt(const char* line, int status) {
  if (::pipe2(pipe_ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw std::system_error(errno, std::generic_category(), "making a pipe for signals");
  }
  last_line = line;
  last_status = status;
  is_waited_for = has_one_come = false;
  handle_signals(note_interrupt);
}

Interrupt::~Interrupt() {
  handle_signals(SIG_DFL);
  for (const int end : pipe_ends) ::close(end);
}

// A write that waits for a slow reader goes on: cut short, it would lose lines. poll() ends all the
// same.
void Interrupt::wait_for_it(void (*at_end)()) noexcept {
  before_end = at_end;
  handle_signals(note_interrupt, SA_RESTART);
  is_waited_for = true;
}

int Interrupt::descriptor() const noexcept {
  return pipe_ends[0];
}

bool Interrupt::has_come() const noexcept {
  return has_one_come;
}

}  // namespace rpcrdma::tools
