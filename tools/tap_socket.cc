#include "tools/tap_socket.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace rpcrdma::tools {
namespace {

constexpr int kPause_ms = 20;  // between two looks at the tap

// Bytes on their way to a client.
class Outgoing {
 public:
  explicit Outgoing(int client) : client_(client) {}

  bool is_empty() const noexcept { return sent_ == bytes_.size(); }
  void set(std::vector<std::byte> bytes) {
    bytes_ = std::move(bytes);
    sent_ = 0;
  }
  // Sends what the client takes at once. False: it is gone.
  bool send_some() {
    while (!is_empty()) {
      const ssize_t sent = ::send(client_, bytes_.data() + sent_, bytes_.size() - sent_,
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) return errno == EAGAIN || errno == EINTR;
      sent_ += static_cast<std::size_t>(sent);
    }
    return true;
  }

  // Waits for the client to take it, for so long that it must be stuck. False: it has not.
  bool send_all() {
    constexpr int kPatience_ms = 2000;
    while (send_some() && !is_empty()) {
      pollfd entry{client_, POLLOUT, 0};
      if (::poll(&entry, 1, kPatience_ms) == 0) return false;
    }
    return is_empty();
  }

 private:
  const int client_;
  std::vector<std::byte> bytes_;
  std::size_t sent_ = 0;
};

// Keeps the tap on, also when there is no memory for what it gives.
class Looking {
 public:
  explicit Looking(Tap& tap) : tap_(tap) { tap_.start(); }
  ~Looking() { tap_.stop(); }
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;

 private:
  Tap& tap_;
};

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

}  // namespace

void serve_tap(Tap& tap, const std::string& rdma_address, const std::string& tcp_address,
               int client, int ending) {
  Outgoing outgoing(client);
  outgoing.set(bytes_of(
      fmt::format("rpcrdma tap 1 {} {}\n", rdma_address, tcp_address.empty() ? "-" : tcp_address)));
  const Looking looking(tap);
  while (outgoing.send_some()) {
    const auto wanted = static_cast<short>(outgoing.is_empty() ? POLLIN : POLLIN | POLLOUT);
    std::array<pollfd, 2> entries{{{client, wanted, 0}, {ending, POLLIN, 0}}};
    if (::poll(entries.data(), entries.size(), outgoing.is_empty() ? kPause_ms : -1) < 0 &&
        errno != EINTR) {
      break;
    }
    if (entries[1].revents != 0 || (entries[0].revents & (POLLERR | POLLHUP)) != 0) break;
    // A client that says no more wants what has happened until now, and no more.
    if ((entries[0].revents & POLLIN) != 0) {
      if (outgoing.send_all()) outgoing.set(tap.take());
      (void)outgoing.send_all();
      break;
    }
    if (outgoing.is_empty()) outgoing.set(tap.take());
  }
}

}  // namespace rpcrdma::tools
