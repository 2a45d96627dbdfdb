#include "tcp/listener.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "posix/accept.h"

namespace rpcrdma::tcp {
namespace {

constexpr int kBacklog = 1024;
constexpr std::chrono::milliseconds kExhaustedRest{100};
constexpr std::chrono::seconds kReportsEvery{1};  // while it lasts

// Returns Accepted::peer. `address`: what accept() said.
std::string name_of(const posix::Address& address, int fd) {
  if (address.family() == AF_INET || address.family() == AF_INET6) return posix::to_string(address);
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return "local";
  return fmt::format("local (user {}, process {})", peer.uid, peer.pid);
}

}  // namespace

SocketFile::SocketFile(std::string path) noexcept : path_(std::move(path)) {
  struct stat status {};
  if (::lstat(path_.c_str(), &status) != 0) path_.clear();
  device_ = status.st_dev;
  number_ = status.st_ino;
}

SocketFile::SocketFile(SocketFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), device_(other.device_), number_(other.number_) {}

SocketFile::~SocketFile() {
  struct stat status {};
  if (path_.empty() || ::lstat(path_.c_str(), &status) != 0) return;
  if (status.st_dev == device_ && status.st_ino == number_) ::unlink(path_.c_str());
}

Expected<std::unique_ptr<Listener>, posix::SystemError> Listener::open(
    posix::Reactor& reactor, const posix::Address& address, bool share_port) {
  posix::Fd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return posix::failed("socket");
  const bool is_local = address.family() == AF_UNIX;
  const int on = 1;
  setsockopt(fd.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (share_port && !is_local &&
      setsockopt(fd.value(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) {
    return posix::failed("sharing a port");
  }
  if (bind(fd.value(), address.pointer(), address.size) != 0) return posix::failed("bind");
  SocketFile file = is_local ? SocketFile(posix::to_string(address)) : SocketFile();
  if (listen(fd.value(), kBacklog) != 0) return posix::failed("listen");
  return watch(reactor, std::move(fd), std::move(file));
}

Expected<std::unique_ptr<Listener>, posix::SystemError> Listener::take_over(posix::Reactor& reactor,
                                                                            posix::Fd socket) {
  const auto option = [&socket](int name) -> std::optional<int> {
    int value = 0;
    socklen_t size = sizeof(value);
    if (getsockopt(socket.value(), SOL_SOCKET, name, &value, &size) != 0) return std::nullopt;
    return value;
  };
  const auto type = option(SO_TYPE), listens = option(SO_ACCEPTCONN);
  if (!type || !listens) return posix::failed("getsockopt");
  if (*type != SOCK_STREAM || *listens == 0) {
    errno = EINVAL;
    return posix::failed("taking over a socket that does not listen for streams");
  }
  const int flags = fcntl(socket.value(), F_GETFL);
  if (flags < 0 || fcntl(socket.value(), F_SETFL, flags | O_NONBLOCK) != 0 ||
      fcntl(socket.value(), F_SETFD, FD_CLOEXEC) != 0) {
    return posix::failed("fcntl");
  }
  // The file of a Unix socket stays: the service manager that made the socket removes it.
  return watch(reactor, std::move(socket), SocketFile());
}

Expected<std::unique_ptr<Listener>, posix::SystemError> Listener::watch(posix::Reactor& reactor,
                                                                        posix::Fd socket,
                                                                        SocketFile file) {
  posix::Address real;
  real.size = sizeof(real.storage);
  if (getsockname(socket.value(), real.pointer(), &real.size) != 0) {
    return posix::failed("getsockname");
  }
  std::unique_ptr<Listener> listener(
      new Listener(reactor, std::move(socket), std::move(file), posix::to_string(real)));
  if (!reactor.watch(listener->socket_.value(), EPOLLIN | EPOLLET, *listener)) {
    return posix::failed("epoll_ctl");
  }
  return listener;
}

Listener::Listener(posix::Reactor& reactor, posix::Fd socket, SocketFile file, std::string address)
    : reactor_(reactor),
      socket_(std::move(socket)),
      file_(std::move(file)),
      address_(std::move(address)) {}

Listener::~Listener() {
  if (reactor_.is_copy()) file_.release();  // the parent still listens there
  reactor_.unwatch(socket_.value(), *this);
}

std::optional<Accepted> Listener::accept() {
  while (ready_) {
    posix::Address peer;
    peer.size = sizeof(peer.storage);
    posix::Fd fd(
        ::accept4(socket_.value(), peer.pointer(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      std::string name = name_of(peer, fd.value());
      return Accepted{std::move(fd), std::move(name)};
    }
    const int error = errno;
    if (posix::is_about_one_connection(error)) continue;
    ready_ = false;
    if (error == EAGAIN || error == EWOULDBLOCK) {
      reports_at_ = {};  // a lack is over when everybody has come in, not when one has
      break;
    }
    const bool waits_for_nothing =
        posix::is_about_resources(error) && !posix::has_waiting_connection(socket_.value());
    // No descriptors, or no memory; or another process that has the socket has shut it down.
    if (!waits_for_nothing) {
      const Instant now = posix::Reactor::now();
      if (now >= reports_at_) {
        failure_ = error;
        reports_at_ = now + kReportsEvery;
      }
      reactor_.set_deadline(*this, now + kExhaustedRest);
    }
  }
  return std::nullopt;
}

}  // namespace rpcrdma::tcp
