// The limit: request and response on a bare TCP socket, as fast as we know how. Requests have 64
// bytes; responses have the payload, or 64 bytes as well. Everything is preallocated, all that can
// go out goes out in one system call, and nothing is parsed but the number of bytes. Each response
// in flight has a buffer of its own to land in, as the replies of an RPC have.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/bench/contender.h"
#include "tools/bench/meter.h"

namespace rpcrdma::tools::bench {
namespace {

constexpr std::size_t kMessageSize = 64;
constexpr int kSocketBuffer = 512 * 1024;
constexpr std::size_t kPayloadMax = 16U << 20U;

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

// A connection to the server, which knows how long responses have to be.
int connect_to(const std::string& port, std::size_t size) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
  const Hello hello{static_cast<std::uint32_t>(size)};
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
    throw std::runtime_error(fmt::format("raw TCP: connecting: {}", std::strerror(errno)));
  }
  return fd;
}

class Epoll {
 public:
  Epoll() : fd_(epoll_create1(EPOLL_CLOEXEC)) {}
  Epoll(const Epoll&) = delete;
  Epoll& operator=(const Epoll&) = delete;
  ~Epoll() { ::close(fd_); }
  void add(int fd, void* who) {
    epoll_event event{EPOLLIN, {.ptr = who}};
    if (epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
      throw std::runtime_error("raw TCP: cannot watch a connection");
    }
  }
  std::span<void*> wait() {
    const int ready = epoll_wait(fd_, events_.data(), static_cast<int>(events_.size()), -1);
    const auto count = static_cast<std::size_t>(std::max(ready, 0));
    for (std::size_t i = 0; i < count; ++i) who_[i] = events_[i].data.ptr;
    return std::span(who_).first(count);
  }

 private:
  const int fd_;
  std::array<epoll_event, 256> events_{};
  std::array<void*, 256> who_{};
};

class RawServer {
 public:
  RawServer() : payload_(kPayloadMax, 'p'), requests_(64 * 1024) {}

  // `many`: several connections at a time, which costs one that is alone a system call more.
  void serve(bool many, const Announce& announce) {
    raise_descriptors();
    Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener.fd(), generic, size) != 0 || listen(listener.fd(), 1024) != 0 ||
        getsockname(listener.fd(), generic, &size) != 0) {
      throw std::runtime_error("raw TCP: cannot listen");
    }
    announce(std::to_string(ntohs(address.sin_port)));
    if (many) serve_many(listener);
    for (;;) {
      Peer peer(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      while (answer(peer)) {
      }
    }
  }

 private:
  struct Peer {
    explicit Peer(int fd) : socket(fd) {}
    Socket socket;
    std::uint32_t response_size = 0;  // 0: it has not said Hello
    std::size_t bytes = 0;            // of a request that is not complete
  };

  [[noreturn]] void serve_many(Socket& listener) {
    Epoll epoll;
    epoll.add(listener.fd(), nullptr);
    for (;;) {
      for (void* who : epoll.wait()) {
        auto* const peer = static_cast<Peer*>(who);
        if (peer == nullptr) {
          auto made =
              std::make_unique<Peer>(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
          epoll.add(made->socket.fd(), made.get());
          made.release();  // deleted at its end
        } else if (!answer(*peer)) {
          delete peer;
        }
      }
    }
  }

  // Answers all requests that can be received at once. False: the peer has gone.
  bool answer(Peer& peer) {
    Socket& connection = peer.socket;
    if (peer.response_size == 0) {
      Hello hello{};
      if (recv(connection.fd(), &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello)) return false;
      peer.response_size = hello.response_size;
      return true;
    }
    const std::size_t count = connection.receive(requests_.data(), requests_.size());
    if (count == 0) return false;
    peer.bytes += count;
    std::size_t ready = peer.bytes / kMessageSize;
    peer.bytes %= kMessageSize;
    while (ready > 0) {
      const std::size_t batch = std::min(ready, parts_.size());
      const std::size_t used = make_parts(batch, peer.response_size, parts_);
      if (!connection.send_all(std::span(parts_).first(used))) return false;
      ready -= batch;
    }
    return true;
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
  std::array<iovec, 64> parts_{};
};

std::size_t response_size(const Case& what) {
  return what.kind == Kind::kNull ? kMessageSize : what.size;
}

// Remembers when the calls of a connection began, which end in their order.
class InFlight {
 public:
  explicit InFlight(std::size_t depth) : started_(depth) {}
  void start_all(Clock::time_point now) { std::ranges::fill(started_, now); }
  // Returns when the oldest call began, whose successor begins now.
  Clock::time_point restart(Clock::time_point now) {
    const auto began = std::exchange(started_[oldest_], now);
    oldest_ = (oldest_ + 1) % started_.size();
    return began;
  }
  std::size_t oldest() const { return oldest_; }

 private:
  std::vector<Clock::time_point> started_;
  std::size_t oldest_ = 0;
};

// A case on many connections, until the process ends.
void be_busy(const Case& what, std::size_t count, const std::string& port, const Announce& announce,
             Tally& tally) {
  struct Peer {
    Peer(int fd, std::size_t depth) : socket(fd), in_flight(depth) {}
    Socket socket;
    InFlight in_flight;
    std::size_t bytes = 0;  // of the oldest response
  };
  raise_descriptors();
  const auto depth = static_cast<std::size_t>(what.depth);
  const std::size_t size = response_size(what);
  std::vector<char> requests(depth * kMessageSize), responses(depth * size);
  std::vector<std::unique_ptr<Peer>> peers;
  Epoll epoll;
  const auto start = [&](Peer& peer, std::size_t calls) {
    iovec part{requests.data(), calls * kMessageSize};
    if (!peer.socket.send_all({&part, 1})) throw std::runtime_error("raw TCP: cannot send");
  };
  for (std::size_t i = 0; i < count; ++i) {
    Peer& peer = *peers.emplace_back(std::make_unique<Peer>(connect_to(port, size), depth));
    epoll.add(peer.socket.fd(), &peer);
  }
  announce("ready");
  await_begin(tally);
  for (const auto& peer : peers) {
    peer->in_flight.start_all(Clock::now());
    start(*peer, depth);
  }
  for (;;) {
    for (void* who : epoll.wait()) {
      Peer& peer = *static_cast<Peer*>(who);
      const std::size_t got = peer.socket.receive(responses.data(), responses.size());
      if (got == 0) throw std::runtime_error("raw TCP: the connection ended");
      peer.bytes += got;
      const std::size_t ended = peer.bytes / size;
      peer.bytes %= size;
      tally.ended(ended);
      const auto now = Clock::now();
      for (std::size_t i = 0; i < ended; ++i) tally.took(now - peer.in_flight.restart(now));
      if (ended > 0) start(peer, ended);
    }
  }
}

class Raw final : public Contender {
 public:
  explicit Raw(const Layout& layout)
      : client_cpu_(layout.client_cpu),
        many_(layout.connections > 0),
        server_(layout.server_cpu, [many = many_](const Announce& announce, Tally&) {
          RawServer().serve(many, announce);
        }) {}

  const Child* server() const override { return &server_; }
  Load start_load(const Case& what, std::size_t connections) override {
    Load made;
    made.push_back(
        std::make_unique<Child>(client_cpu_, [&](const Announce& announce, Tally& tally) {
          be_busy(what, connections, server_.address(), announce, tally);
        }));
    begin_all(made, connections * static_cast<std::uint64_t>(what.depth));
    return made;
  }
  Sample run(const Case& what, const Times& times, const Load& load) override {
    Socket connection(connect_to(server_.address(), response_size(what)));
    return exchange(connection, what, times, load);
  }

 private:
  Sample exchange(Socket& connection, const Case& what, const Times& times, const Load& load) {
    const std::size_t size = response_size(what);
    const auto depth = static_cast<std::size_t>(what.depth);
    InFlight in_flight(depth);
    responses_.resize(depth * size);
    requests_.resize(depth * kMessageSize);
    Meter meter({.server = &server_, .load = load, .load_is_the_case = many_}, times);
    in_flight.start_all(meter.now());
    std::size_t bytes = 0, to_start = depth;  // bytes: of the oldest response
    for (;;) {
      if (to_start > 0) {
        iovec parts{requests_.data(), to_start * kMessageSize};
        if (!connection.send_all({&parts, 1})) break;
      }
      const std::size_t at = in_flight.oldest() * size + bytes;
      const std::size_t count = connection.receive(&responses_[at], responses_.size() - at);
      if (count == 0) break;
      meter.tick();
      if (meter.over()) return meter.sample(what.size);
      bytes += count;
      to_start = bytes / size;
      bytes %= size;
      for (std::size_t i = 0; i < to_start; ++i) {
        meter.ended(in_flight.restart(meter.now()));
      }
    }
    throw std::runtime_error("raw TCP: the connection ended");
  }

  const std::optional<int> client_cpu_;
  const bool many_;  // connections
  Child server_;
  std::vector<char> requests_, responses_;
};

}  // namespace

std::unique_ptr<Contender> make_raw(const Layout& layout) {
  return std::make_unique<Raw>(layout);
}

}  // namespace rpcrdma::tools::bench
