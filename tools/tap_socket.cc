#include "tools/tap_socket.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rpcrdma::tools {
namespace {

constexpr int kPause_ms = 20;  // between two looks at the tap
using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPatience{2000};  // with a client that takes nothing
constexpr std::chrono::milliseconds kLastTime{500};   // for all that is left when the server ends

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

  // Waits for the client to take it, as long as it goes on taking some. Once `ending` is readable,
  // the server waits for this, and `end` bounds it. Returns whether the client has taken all.
  bool send_all(int ending, std::optional<Clock::time_point>& end) {
    while (send_some() && !is_empty()) {
      auto patience = kPatience;
      if (end) patience = std::chrono::ceil<std::chrono::milliseconds>(*end - Clock::now());
      if (patience.count() <= 0) return false;
      std::array<pollfd, 2> entries{{{client_, POLLOUT, 0}, {end ? -1 : ending, POLLIN, 0}}};
      const auto wait = static_cast<int>(patience.count());
      if (::poll(entries.data(), entries.size(), wait) == 0) return false;
      if (!end && entries[1].revents != 0) end = Clock::now() + kLastTime;
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
    if ((entries[0].revents & (POLLERR | POLLHUP)) != 0) break;
    // A client that says no more wants what has happened until now, and no more; nor does more
    // happen at a server that ends.
    if (entries[1].revents != 0 || (entries[0].revents & POLLIN) != 0) {
      std::optional<Clock::time_point> end;
      if (!outgoing.send_all(ending, end)) break;
      outgoing.set(tap.take());
      (void)outgoing.send_all(ending, end);
      break;
    }
    if (outgoing.is_empty()) outgoing.set(tap.take());
  }
}

}  // namespace rpcrdma::tools
