#include "explain/live_reader.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>

namespace explaining {
namespace {

using rpcrdma::TapRecord;
using rpcrdma::explain::Endpoint;

constexpr int kPatience_ms = 3000;
constexpr std::size_t kReadSize = 256U << 10U;
constexpr std::size_t kGreetingMax = 512;
constexpr std::string_view kGreeting = "rpcrdma tap 1 ";

// Reads "ADDR:PORT" or "[ADDR]:PORT". Others, as those of Unix sockets, have no address.
Endpoint endpoint_of(std::string_view text) {
  Endpoint endpoint;
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return endpoint;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string name(host.substr(0, host.find('%')));
  endpoint.is_v6 = ::inet_pton(AF_INET6, name.c_str(), endpoint.address.data()) == 1;
  if (!endpoint.is_v6 && ::inet_pton(AF_INET, name.c_str(), endpoint.address.data()) != 1) {
    return {};
  }
  (void)std::from_chars(text.data() + colon + 1, text.data() + text.size(), endpoint.port);
  return endpoint;
}

std::string_view text_of(rpcrdma::Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

LiveReader::LiveReader(int socket, int stop) : socket_(socket), stop_(stop) {
  if (greet() || !problem_.empty()) return;
  problem_ = has_timed_out_ ? "the server does not answer: somebody else looks at its traffic, "
                              "perhaps, which one at a time may"
                            : "the socket is not one at which a server shows its traffic";
}

bool LiveReader::greet() {
  while (true) {
    const std::string_view text = text_of(unread());
    const std::size_t end = text.find('\n');
    if (end != std::string_view::npos) {
      if (!text.starts_with(kGreeting)) return false;
      const std::string_view addresses = text.substr(kGreeting.size(), end - kGreeting.size());
      const std::size_t space = addresses.find(' ');
      servers_.rdma = endpoint_of(addresses.substr(0, space));
      if (space != std::string_view::npos) servers_.tcp = endpoint_of(addresses.substr(space + 1));
      begin_ += end + 1;
      return true;
    }
    if (text.size() > kGreetingMax || !read_more(kPatience_ms)) return false;
  }
}

bool LiveReader::has_buffered() const noexcept {
  std::uint32_t length = 0;
  const rpcrdma::Bytes left = unread();
  if (left.size() < sizeof(TapRecord)) return false;
  std::memcpy(&length, left.data(), sizeof length);
  return left.size() >= length;
}

bool LiveReader::next() {
  while (!has_buffered()) {
    if (!read_more(-1)) return false;
  }
  std::memcpy(&record_, unread().data(), sizeof record_);
  if (record_.length < sizeof record_ || record_.kept > record_.length - sizeof record_) {
    problem_ = "the server sent no record where one begins: it is of another version, perhaps";
    return false;
  }
  bytes_ = unread().subspan(sizeof record_, record_.kept);
  begin_ += record_.length;
  if (record_.kind == TapRecord::Kind::kConnection) peer_ = endpoint_of(text_of(bytes_));
  return true;
}

bool LiveReader::read_more(int timeout_ms) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  std::array<pollfd, 2> entries{{{socket_, POLLIN, 0}, {stop_, POLLIN, 0}}};
  const bool may_stop = stop_ >= 0 && !is_stopping_;
  const int ready =
      ::poll(entries.data(), may_stop ? 2 : 1, is_stopping_ ? kPatience_ms : timeout_ms);
  if (ready < 0 && errno == EINTR) return true;
  has_timed_out_ = ready == 0;
  if (ready <= 0) return false;
  if (may_stop && entries[1].revents != 0) {
    // The server sends what has happened until now, and closes.
    is_stopping_ = true;
    return ::shutdown(socket_, SHUT_WR) == 0;
  }
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kReadSize);
  const ssize_t size = ::recv(socket_, buffer_.data() + before, kReadSize, 0);
  buffer_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (size < 0 && errno == EINTR) return true;
  if (size < 0) problem_ = std::generic_category().message(errno);
  return size > 0;
}

}  // namespace explaining
