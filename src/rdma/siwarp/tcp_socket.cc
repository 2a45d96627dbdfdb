#include "rdma/siwarp/tcp_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "posix/vanished_peer.h"

namespace rpcrdma::rdma::siwarp {
namespace {

IoResult failed() {
  const int error = errno;
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) return {};
  return {IoResult::Kind::kError, 0, error};
}

void set_option(int fd, int level, int name, int value) noexcept {
  setsockopt(fd, level, name, &value, sizeof(value));  // a wish; without it things are only slower
}

}  // namespace

Expected<posix::Fd, Error> take_over_tcp(int descriptor) {
  posix::Fd fd(descriptor);
  int protocol = 0;
  socklen_t size = sizeof(protocol);
  sockaddr_storage peer{};
  socklen_t peer_size = sizeof(peer);
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0 ||
      protocol != IPPROTO_TCP ||
      getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0 ||
      fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0 ||
      fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) {
    return Unexpected<Error>(
        Error{Errc::kUnsupported, errno, "taking over what is no TCP connection"});
  }
  return fd;
}

Expected<posix::Fd, Error> open_tcp(int family, int descriptors_from) {
  posix::Fd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd) return Unexpected<Error>(Error{Errc::kNoResources, errno, "socket"});
  fd.move_up(descriptors_from);
  return fd;
}

void TcpSocket::configure(int buffer_size) noexcept {
  set_option(fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  posix::notice_vanished_peer(fd());
  if (buffer_size <= 0) return;
  set_option(fd(), SOL_SOCKET, SO_SNDBUF, buffer_size);
  set_option(fd(), SOL_SOCKET, SO_RCVBUF, buffer_size);
}

void TcpSocket::be_on_this_machine(int buffer_size) noexcept {
  constexpr std::string_view kReno = "reno";  // in every kernel, and free to use for everybody
  setsockopt(fd(), IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());  // a wish
  // Between two processes of one machine, data in transit needs no more room than the cache has.
  // With more, Reads of 1 MiB at depth 8 had a slow mode: once the peer read so much at a time that
  // yielding to it took long, we took it for a busy third party, yielded no more, and filled the
  // socket.
  constexpr int kBufferMax = 1024 * 1024;
  if (buffer_size <= kBufferMax) return;
  set_option(fd(), SOL_SOCKET, SO_SNDBUF, kBufferMax);
  set_option(fd(), SOL_SOCKET, SO_RCVBUF, kBufferMax);
}

void TcpSocket::record(Capture& capture, bool initiator) {
  flow_ = std::make_unique<CaptureFlow>(capture, local(), remote(), initiator);
}

IoResult TcpSocket::send(std::span<const Bytes> parts) {
  if (parts.size() == 1)
    return sent(parts, ::send(fd(), parts[0].data(), parts[0].size(), MSG_NOSIGNAL));
  std::array<iovec, kRoomMax> vector;
  const std::size_t count = std::min(parts.size(), vector.size());
  for (std::size_t i = 0; i < count; ++i) {
    // sendmsg only reads, although iovec has no const.
    vector[i] = {const_cast<std::byte*>(  // NOLINT(cppcoreguidelines-pro-type-const-cast)
                     parts[i].data()),
                 parts[i].size()};
  }
  msghdr message{};
  message.msg_iov = vector.data();
  message.msg_iovlen = count;
  return sent(parts, sendmsg(fd(), &message, MSG_NOSIGNAL));
}

IoResult TcpSocket::sent(std::span<const Bytes> parts, ssize_t size) {
  ++system_calls_;
  if (size < 0) return failed();
  if (flow_) flow_->sent(parts, static_cast<std::size_t>(size));
  return {IoResult::Kind::kBytes, static_cast<std::size_t>(size), 0};
}

IoResult TcpSocket::receive(std::span<const MutableBytes> parts) {
  if (parts.size() == 1) {
    return received(parts, recv(fd(), parts[0].data(), parts[0].size(), 0));
  }
  std::array<iovec, kRoomMax> vector;
  const std::size_t count = std::min(parts.size(), vector.size());
  for (std::size_t i = 0; i < count; ++i) vector[i] = {parts[i].data(), parts[i].size()};
  return received(parts, readv(fd(), vector.data(), static_cast<int>(count)));
}

IoResult TcpSocket::received(std::span<const MutableBytes> parts, ssize_t size) {
  ++system_calls_;
  if (size < 0) return failed();
  if (size == 0) return {IoResult::Kind::kEnd, 0, 0};
  if (flow_) flow_->received(parts, static_cast<std::size_t>(size));
  return {IoResult::Kind::kBytes, static_cast<std::size_t>(size), 0};
}

int TcpSocket::connect_error() const noexcept {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

void TcpSocket::finish_sending() noexcept {
  shutdown(fd(), SHUT_WR);
  if (flow_) flow_->finished();
}

std::size_t TcpSocket::segment_size() const noexcept {
  int value = 0;
  socklen_t size = sizeof(value);
  if (getsockopt(fd(), IPPROTO_TCP, TCP_MAXSEG, &value, &size) != 0 || value <= 0) return 536;
  return static_cast<std::size_t>(value);
}

posix::Address TcpSocket::local() const noexcept {
  posix::Address address;
  address.size = sizeof(address.storage);
  if (getsockname(fd(), address.pointer(), &address.size) != 0) address.size = 0;
  return address;
}

posix::Address TcpSocket::remote() const noexcept {
  posix::Address address;
  address.size = sizeof(address.storage);
  if (getpeername(fd(), address.pointer(), &address.size) != 0) address.size = 0;
  return address;
}

}  // namespace rpcrdma::rdma::siwarp
