// The limit: request and response on a bare TCP socket, as fast as we know how. Requests have 64
// bytes; responses have the payload, or 64 bytes as well. Everything is preallocated, all that can
// go out goes out in one system call, and nothing is parsed but the number of bytes. Each response
// in flight has a buffer of its own to land in, as the replies of an RPC have.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "tools/bench/contender.h"
#include "tools/bench/meter.h"

namespace rpcrdma::tools::bench {
namespace {

constexpr std::size_t kMessageSize = 64;
constexpr int kSocketBuffer = 512 * 1024;
constexpr std::size_t kPayloadMax = 1U << 20U;

// The first request of a connection tells the server how long its responses are.
struct Hello {
  std::uint32_t response_size;
};

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {
    if (fd < 0) throw std::runtime_error(fmt::format("raw TCP: {}", std::strerror(errno)));
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof(kSocketBuffer));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kSocketBuffer, sizeof(kSocketBuffer));
    // As rpcrdma does on loopback: pacing would hold large payloads up.
    constexpr std::string_view kReno = "reno";
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { ::close(fd_); }
  int fd() const { return fd_; }

  // Bytes that came, at least one; 0 at the end of the connection.
  std::size_t receive(void* into, std::size_t size) {
    const ssize_t count = recv(fd_, into, size, 0);
    return count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  // False when the connection has ended. Changes the parts.
  bool send_all(std::span<iovec> parts) {
    while (!parts.empty()) {
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = parts.size();
      const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      auto left = static_cast<std::size_t>(sent);
      while (!parts.empty() && left >= parts.front().iov_len) {
        left -= parts.front().iov_len;
        parts = parts.subspan(1);
      }
      if (parts.empty()) return true;
      parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + left;
      parts.front().iov_len -= left;
    }
    return true;
  }

 private:
  int fd_;
};

class Server {
 public:
  Server() : payload_(kPayloadMax, 'p'), requests_(64 * 1024) {}

  void serve(const Announce& announce) {
    Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener.fd(), generic, size) != 0 || listen(listener.fd(), 4) != 0 ||
        getsockname(listener.fd(), generic, &size) != 0) {
      throw std::runtime_error("raw TCP: cannot listen");
    }
    announce(std::to_string(ntohs(address.sin_port)));
    for (;;) {
      Socket connection(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      serve(connection);
    }
  }

 private:
  void serve(Socket& connection) {
    Hello hello{};
    if (recv(connection.fd(), &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello)) return;
    std::size_t bytes = 0;
    std::array<iovec, 64> parts;
    for (;;) {
      const std::size_t count = connection.receive(requests_.data(), requests_.size());
      if (count == 0) return;
      bytes += count;
      std::size_t ready = bytes / kMessageSize;
      bytes %= kMessageSize;
      while (ready > 0) {
        const std::size_t batch = std::min(ready, parts.size());
        const std::size_t count = make_parts(batch, hello.response_size, parts);
        if (!connection.send_all(std::span(parts).first(count))) return;
        ready -= batch;
      }
    }
  }

  // Small responses lie one behind the other, as they would in the buffer of a careful program: an
  // iovec for each costs the kernel a tenth of a short call. Large ones share their bytes, which
  // are in the cache then.
  std::size_t make_parts(std::size_t responses, std::size_t size, std::span<iovec> parts) {
    constexpr std::size_t kTogetherMax = 64 * 1024;
    if (responses * size <= kTogetherMax) {
      parts[0] = {payload_.data(), responses * size};
      return 1;
    }
    for (std::size_t i = 0; i < responses; ++i) parts[i] = {payload_.data(), size};
    return responses;
  }

  std::vector<char> payload_, requests_;
};

class Raw final : public Contender {
 public:
  explicit Raw(const Layout& layout)
      : server_(layout.server_cpu, [](const Announce& announce) { Server().serve(announce); }),
        requests_(64 * kMessageSize) {}

  Sample run(const Case& what, const Times& times) override {
    Socket connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(server_.address())));
    if (connect(connection.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("raw TCP: cannot connect");
    }
    const std::size_t size = what.kind == Kind::kNull ? kMessageSize : what.size;
    Hello hello{static_cast<std::uint32_t>(size)};
    iovec first{&hello, sizeof(hello)};
    if (!connection.send_all({&first, 1})) throw std::runtime_error("raw TCP: cannot send");
    return exchange(connection, what, size, times);
  }

 private:
  Sample exchange(Socket& connection, const Case& what, std::size_t size, const Times& times) {
    const auto depth = static_cast<std::size_t>(what.depth);
    std::vector<Clock::time_point> started(depth);  // of the calls in flight, oldest at `oldest`
    responses_.resize(depth * size);
    Meter meter(server_, times);
    std::size_t oldest = 0, bytes = 0, to_start = depth;  // bytes: of the oldest response
    for (;;) {
      if (to_start > 0) {
        iovec parts{requests_.data(), to_start * kMessageSize};
        if (!connection.send_all({&parts, 1})) break;
      }
      const std::size_t at = oldest * size + bytes;
      const std::size_t count = connection.receive(&responses_[at], responses_.size() - at);
      if (count == 0) break;
      meter.tick();
      if (meter.over()) return meter.sample(what.size);
      bytes += count;
      to_start = bytes / size;
      bytes %= size;
      for (std::size_t i = 0; i < to_start; ++i) {
        meter.ended(started[oldest]);
        started[oldest] = meter.now();
        oldest = (oldest + 1) % depth;
      }
    }
    throw std::runtime_error("raw TCP: the connection ended");
  }

  Child server_;
  std::vector<char> requests_, responses_;
};

}  // namespace

std::unique_ptr<Contender> make_raw(const Layout& layout) {
  return std::make_unique<Raw>(layout);
}

}  // namespace rpcrdma::tools::bench
