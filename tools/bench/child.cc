#include "tools/bench/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <stdexcept>

#include "tools/bench/allocations.h"

namespace rpcrdma::tools::bench {

struct Child::Shared {
  std::atomic<std::uint64_t> allocations = 0;
};

namespace {

[[noreturn]] void throw_errno(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

void write_all(int fd, const std::string& text) {
  if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(1);
}

std::string read_line(int fd) {
  std::string line;
  for (char each = 0; ::read(fd, &each, 1) == 1 && each != '\n';) line += each;
  return line;
}

}  // namespace

void pin_to(std::optional<int> cpu) {
  if (!cpu) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(*cpu), &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) throw_errno("sched_setaffinity");
}

Child::Child(std::optional<int> cpu, const std::function<void(const Announce&)>& serve) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno("mmap");
  shared_ = ::new (memory) Shared;
  std::array<int, 2> channel{};
  if (pipe2(channel.data(), O_CLOEXEC) != 0) throw_errno("pipe2");
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw_errno("fork");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    ::close(channel[0]);
    count_allocations_in(shared_->allocations);
    try {
      pin_to(cpu);
      serve([&](const std::string& address) { write_all(channel[1], address + "\n"); });
    } catch (const std::exception& error) {
      fmt::print(stderr, "rpcrdma: bench server: {}\n", error.what());
    }
    _exit(1);
  }
  ::close(channel[1]);
  address_ = read_line(channel[0]);
  ::close(channel[0]);
  if (address_.empty()) {
    waitpid(pid_, nullptr, 0);
    munmap(shared_, sizeof(Shared));
    throw std::runtime_error("a server process of the benchmark did not come up");
  }
}

Child::~Child() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  munmap(shared_, sizeof(Shared));
}

double Child::cpu_seconds() const {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::uint64_t Child::allocations() const noexcept {
  return shared_->allocations.load(std::memory_order_relaxed);
}

}  // namespace rpcrdma::tools::bench
