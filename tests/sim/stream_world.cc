#include "sim/stream_world.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <utility>

namespace rpcrdma::simulation {
namespace {

StreamWorld* the_world = nullptr;

std::string make_folder() {
  constexpr std::size_t kSocketPathMax = 107;
  std::string folder = (std::filesystem::temp_directory_path() / "rpcrdma-sim.XXXXXX").string();
  if (folder.size() + 10 > kSocketPathMax) folder = "/tmp/rpcrdma-sim.XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    std::perror("rpcrdma-sim: making a folder for sockets");
    std::abort();
  }
  return folder;
}

int as_result(long result) noexcept {
  return static_cast<int>(result);
}

}  // namespace

StreamWorld* StreamWorld::current() noexcept {
  return the_world;
}

StreamWorld::StreamWorld(const rdma::sim::World& world, std::function<void(int)> wait_for)
    : world_(world), wait_for_(std::move(wait_for)), folder_(make_folder()) {
  the_world = this;
}

StreamWorld::~StreamWorld() {
  the_world = nullptr;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string StreamWorld::next_path() {
  return fmt::format("{}/{}", folder_, paths_++);
}

void StreamWorld::ring() {
  for (auto& [descriptor, timer] : timers_) {
    if (!timer.due || *timer.due > now()) continue;
    timer.due.reset();
    const std::uint64_t one = 1;
    if (::write(descriptor, &one, sizeof(one)) < 0) std::abort();
  }
}

bool StreamWorld::is_ready(int epoll) {
  ring();
  pollfd asked{epoll, POLLIN, 0};
  return ::poll(&asked, 1, 0) > 0;
}

std::optional<Instant> StreamWorld::timer_of(int epoll) const {
  std::optional<Instant> first;
  for (const auto& [descriptor, timer] : timers_) {
    if (timer.epoll == epoll && timer.due && (!first || *timer.due < *first)) first = timer.due;
  }
  return first;
}

bool StreamWorld::break_one(SeededRandom& random) {
  if (accepted_.empty()) return false;
  const int socket = accepted_[random.below(accepted_.size())];
  note_closed(socket);
  ::shutdown(socket, SHUT_RDWR);
  return true;
}

void StreamWorld::note_accepted(int socket) {
  accepted_.push_back(socket);
  narrow(socket);
}

// The other side has no other way to learn who connects. An abstract name needs no file.
void StreamWorld::note_connecting(int socket) {
  narrow(socket);
  sockaddr_un own{};
  own.sun_family = AF_UNIX;
  const std::string name = fmt::format("{}{}:{}", folder_, actor_, connections_++);
  const std::size_t size = std::min(name.size(), sizeof(own.sun_path) - 1);
  std::copy_n(name.begin(), size, own.sun_path + 1);
  const auto all = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  (void)::bind(socket, reinterpret_cast<const sockaddr*>(&own), all);
}

std::optional<pid_t> StreamWorld::peer_of(int socket) const {
  if (std::ranges::find(accepted_, socket) == accepted_.end()) return std::nullopt;
  sockaddr_un peer{};
  socklen_t size = sizeof(peer);
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return std::nullopt;
  const std::string_view name(peer.sun_path + 1);
  if (!name.starts_with(folder_)) return std::nullopt;
  return std::atoi(name.data() + folder_.size());
}

void StreamWorld::narrow(int socket) const noexcept {
  const int size = 1;  // the system's least is more
  if (is_narrow_) (void)::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

void StreamWorld::note_closed(int descriptor) {
  timers_.erase(descriptor);
  std::erase(accepted_, descriptor);
}

}  // namespace rpcrdma::simulation

// --- In place of the system's ------------------------------------------------------------------

using rpcrdma::simulation::StreamWorld;

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  StreamWorld* const world = StreamWorld::current();
  if (world == nullptr || clock != CLOCK_MONOTONIC) {
    return rpcrdma::simulation::as_result(::syscall(SYS_clock_gettime, clock, time));
  }
  const std::chrono::nanoseconds since = world->now().time_since_epoch();
  time->tv_sec = since.count() / 1'000'000'000;
  time->tv_nsec = since.count() % 1'000'000'000;
  return 0;
}

int timerfd_create(int clock, int flags) noexcept {
  StreamWorld* const world = StreamWorld::current();
  if (world == nullptr) {
    return rpcrdma::simulation::as_result(::syscall(SYS_timerfd_create, clock, flags));
  }
  const int made = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (made >= 0) world->timers()[made] = {};
  return made;
}

int timerfd_settime(int descriptor, int flags, const itimerspec* time, itimerspec* old) noexcept {
  StreamWorld* const world = StreamWorld::current();
  if (world == nullptr || !world->timers().contains(descriptor)) {
    return rpcrdma::simulation::as_result(
        ::syscall(SYS_timerfd_settime, descriptor, flags, time, old));
  }
  const auto seconds = std::chrono::seconds(time->it_value.tv_sec);
  const auto rest = std::chrono::nanoseconds(time->it_value.tv_nsec);
  world->timers()[descriptor].due = rpcrdma::Instant(seconds + rest);
  return 0;
}

int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept {
  StreamWorld* const world = StreamWorld::current();
  if (world != nullptr && operation == EPOLL_CTL_ADD) {
    if (const auto timer = world->timers().find(descriptor); timer != world->timers().end()) {
      timer->second.epoll = epoll;
    }
  }
  return rpcrdma::simulation::as_result(
      ::syscall(SYS_epoll_ctl, epoll, operation, descriptor, event));
}

int epoll_wait(int epoll, epoll_event* events, int count, int timeout) {
  StreamWorld* const world = StreamWorld::current();
  if (world != nullptr && timeout != 0) {
    world->wait_for(epoll);
    timeout = 0;
  }
  return rpcrdma::simulation::as_result(
      ::syscall(SYS_epoll_pwait, epoll, events, count, timeout, nullptr, 8));
}

int accept4(int socket, sockaddr* address, socklen_t* size, int flags) {
  const int made =
      rpcrdma::simulation::as_result(::syscall(SYS_accept4, socket, address, size, flags));
  if (StreamWorld* const world = StreamWorld::current(); world != nullptr && made >= 0) {
    world->note_accepted(made);
  }
  return made;
}

int connect(int socket, const sockaddr* address, socklen_t size) {
  if (StreamWorld* const world = StreamWorld::current()) world->note_connecting(socket);
  return rpcrdma::simulation::as_result(::syscall(SYS_connect, socket, address, size));
}

int getsockopt(int socket, int level, int name, void* value, socklen_t* size) noexcept {
  const StreamWorld* const world = StreamWorld::current();
  const bool is_asked = world != nullptr && level == SOL_SOCKET && name == SO_PEERCRED;
  const int result =
      rpcrdma::simulation::as_result(::syscall(SYS_getsockopt, socket, level, name, value, size));
  if (!is_asked || result != 0 || *size < sizeof(ucred)) return result;
  if (const auto process = world->peer_of(socket)) {
    *static_cast<ucred*>(value) = {*process, static_cast<uid_t>(*process), 0};
  }
  return result;
}

int close(int descriptor) {
  if (StreamWorld* const world = StreamWorld::current()) world->note_closed(descriptor);
  return rpcrdma::simulation::as_result(::syscall(SYS_close, descriptor));
}

}  // extern "C"
