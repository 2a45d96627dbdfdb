#include "tools/bench/child.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>
#include <stdexcept>

#include "tools/bench/allocations.h"

namespace rpcrdma::tools::bench {

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

void await_begin(const Tally& tally) {
  while (!tally.may_begin) ::poll(nullptr, 0, 1);
}

void begin_all(std::span<const std::unique_ptr<Child>> clients, std::uint64_t calls) {
  for (const auto& client : clients) client->begin();
  for (std::uint64_t made = 0; made < calls; ::poll(nullptr, 0, 1)) {
    made = 0;
    for (const auto& client : clients) {
      if (client->has_ended()) throw std::runtime_error("a process of the load has ended");
      made += client->tally().calls;
    }
  }
}

void raise_descriptors() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &files);
}

void pin_to(std::optional<int> cpu) {
  if (!cpu) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(*cpu), &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) throw_errno("sched_setaffinity");
}

Child::Child(std::optional<int> cpu, const std::function<void(const Announce&, Tally&)>& body) {
  void* memory =
      mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno("mmap");
  tally_ = ::new (memory) Tally;
  std::array<int, 2> channel{};
  if (pipe2(channel.data(), O_CLOEXEC) != 0) throw_errno("pipe2");
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw_errno("fork");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    ::close(channel[0]);
    count_allocations_in(tally_->allocations);
    try {
      pin_to(cpu);
      body([&](const std::string& text) { write_all(channel[1], text + "\n"); }, *tally_);
    } catch (const std::exception& error) {
      fmt::print(stderr, "rpcrdma: bench: {}\n", error.what());
    }
    _exit(1);
  }
  ::close(channel[1]);
  address_ = read_line(channel[0]);
  ::close(channel[0]);
  if (address_.empty()) {
    waitpid(pid_, nullptr, 0);
    munmap(tally_, sizeof(Tally));
    throw std::runtime_error("a process of the benchmark did not come up");
  }
}

Child::~Child() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  munmap(tally_, sizeof(Tally));
}

bool Child::has_ended() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid != 0;
}

double Child::cpu_seconds() const {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::uint64_t Child::resident_kib() const {
  std::ifstream file(fmt::format("/proc/{}/statm", pid_));
  std::uint64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

}  // namespace rpcrdma::tools::bench
