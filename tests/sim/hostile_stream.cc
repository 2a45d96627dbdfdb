#include "sim/hostile_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "rpcrdma/xdr.h"
#include "sim/hostile_peer.h"

namespace rpcrdma::simulation {
namespace {

constexpr std::uint32_t kLast = 0x80000000;    // in the mark of a fragment, RFC 5531 §11
constexpr std::size_t kUnsentMax = 1U << 18U;  // bytes

}  // namespace

void HostileStream::act(const std::string& path) {
  if (!is_there()) return come(path);
  pass_on();
  if (takes_replies_) take(4096);
  if (is_there()) act_on_connection();
}

void HostileStream::come(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  posix::Fd made(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto* const where = reinterpret_cast<const sockaddr*>(&address);
  if (!made || ::connect(made.value(), where, sizeof(address)) != 0) return;
  totals_.add(Count::kHostileStreams);
  socket_ = std::move(made);
  takes_replies_ = !random_.one_in(3);
  next_xid_ = static_cast<std::uint32_t>(random_.next());
}

void HostileStream::end() noexcept {
  socket_ = posix::Fd();
  unsent_.clear();
}

void HostileStream::act_on_connection() {
  switch (random_.below(14)) {
    case 0: {
      Words words(1 + random_.below(20));
      for (auto& word : words) word = static_cast<std::uint32_t>(random_.next());
      return add(words);
    }
    case 1:  // a fragment of any length, of which there is little
      return add({static_cast<std::uint32_t>(random_.next()), ++next_xid_, 0, 2});
    case 2:  // fragments without a byte
      return add(Words(1 + random_.below(200), 0));
    case 3: {
      Words words = make_call(static_cast<std::uint32_t>(random_.below(200)));
      for (std::uint64_t left = 1 + random_.below(3); left > 0; --left) {
        words[random_.below(words.size())] = static_cast<std::uint32_t>(random_.below(300));
      }
      return send_record(words, 1);
    }
    case 4:
      return leave_rest();
    case 5:
      return takes_replies_ ? take(1U << 20U) : void(takes_replies_ = random_.one_in(2));
    case 6:
      if (random_.one_in(3)) (void)::shutdown(socket_.value(), SHUT_WR);
      return;
    case 7:
      if (random_.one_in(3)) end();
      return;
    default:
      return send_record(make_call(static_cast<std::uint32_t>(random_.below(20'000))),
                         1 + random_.below(4));
  }
}

void HostileStream::make_server_wait(const std::string& path) {
  end();
  come(path);
  if (!is_there()) return;
  takes_replies_ = false;
  if (random_.one_in(2)) {
    for (std::uint64_t left = 1 + random_.below(40); left > 0; --left) {
      send_record(make_call(static_cast<std::uint32_t>(random_.below(2000))), 1);
    }
  }
  leave_rest();
}

bool HostileStream::is_waited_for() {
  if (!is_there() || takes_replies_) return false;
  pollfd asked{socket_.value(), 0, 0};
  return ::poll(&asked, 1, 0) == 0;
}

// A call of a program that takes any arguments, with one that has so many bytes.
HostileStream::Words HostileStream::make_call(std::uint32_t argument_size) {
  const std::uint32_t xid = random_.one_in(10) ? next_xid_ : ++next_xid_;
  const auto procedure = static_cast<std::uint32_t>(random_.below(5));
  Words words{xid, 0 /* CALL */, 2, kHostileProgram, 1, procedure, 0, 0, 0, 0, argument_size};
  for (std::uint32_t i = 0; i < (argument_size + 3) / 4; ++i) words.push_back(xid + i);
  return words;
}

void HostileStream::send_record(const Words& words, std::size_t fragments) {
  std::span<const std::uint32_t> left(words);
  for (; fragments > 0; --fragments) {
    const std::size_t size = fragments == 1 ? left.size() : random_.below(left.size() + 1);
    Words fragment{static_cast<std::uint32_t>(4 * size) | (fragments == 1 ? kLast : 0)};
    fragment.insert(fragment.end(), left.begin(), left.begin() + static_cast<std::ptrdiff_t>(size));
    left = left.subspan(size);
    add(fragment);
  }
  totals_.add(Count::kHostileMessages);
}

// Begins a record whose rest does not come, or comes when something else is sent.
void HostileStream::leave_rest() {
  Words words = make_call(static_cast<std::uint32_t>(random_.below(60'000)));
  words.insert(words.begin(), static_cast<std::uint32_t>(4 * words.size()) | kLast);
  words.resize(1 + random_.below(words.size()));
  add(words);
}

void HostileStream::add(const Words& words) {
  if (unsent_.size() > kUnsentMax) return;
  for (const std::uint32_t word : words) {
    std::array<std::byte, xdr::kWordSize> bytes{};
    xdr::store_word(bytes.data(), word);
    unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
  }
  pass_on();
}

// Sends what the socket takes. A server that is gone takes nothing any more.
void HostileStream::pass_on() {
  while (is_there() && !unsent_.empty()) {
    const auto sent =
        ::send(socket_.value(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN) end();
      return;
    }
    unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
  }
}

void HostileStream::take(std::size_t size) {
  std::array<std::byte, 4096> bytes{};
  while (size > 0) {
    const auto taken =
        ::recv(socket_.value(), bytes.data(), std::min(size, bytes.size()), MSG_DONTWAIT);
    if (taken == 0 || (taken < 0 && errno != EAGAIN)) return end();
    if (taken < 0) return;
    size -= static_cast<std::size_t>(taken);
  }
}

}  // namespace rpcrdma::simulation
