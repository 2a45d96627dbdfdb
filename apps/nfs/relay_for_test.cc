#include "nfs/relay_for_test.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <vector>

namespace nfs {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

files::File made_socket() {
  return files::File(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

}  // namespace

Relay::Relay(const std::string& target)
    : target_(static_cast<std::uint16_t>(std::stoul(target.substr(target.rfind(':') + 1)))),
      listening_(made_socket()),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  const sockaddr_in any = loopback(0);
  EXPECT_EQ(::bind(listening_.descriptor(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)),
            0);
  EXPECT_EQ(::listen(listening_.descriptor(), 16), 0);
  thread_ = std::thread([this] { run(); });
}

Relay::~Relay() {
  EXPECT_EQ(::eventfd_write(stop_.descriptor(), 1), 0);
  thread_.join();
}

std::string Relay::address() const {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  EXPECT_EQ(::getsockname(listening_.descriptor(), reinterpret_cast<sockaddr*>(&address), &size),
            0);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

void Relay::run() {
  std::vector<Pair> pairs;
  for (;;) {
    std::vector<pollfd> entries{{stop_.descriptor(), POLLIN, 0},
                                {listening_.descriptor(), POLLIN, 0}};
    for (const Pair& each : pairs) {
      entries.push_back({each.client.descriptor(), POLLIN, 0});
      entries.push_back({each.server.descriptor(), POLLIN, 0});
    }
    ::poll(entries.data(), entries.size(), -1);
    if (entries[0].revents != 0) return;
    for (std::size_t i = pairs.size(); i-- > 0;) {
      const bool from_client = entries[2 + 2 * i].revents != 0;
      const bool from_server = entries[3 + 2 * i].revents != 0;
      if ((from_client && !pass(pairs[i], false)) || (from_server && !pass(pairs[i], true))) {
        pairs.erase(pairs.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    if (entries[1].revents == 0) continue;
    Pair made{files::File(::accept4(listening_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC)),
              made_socket()};
    const sockaddr_in to = loopback(target_);
    if (::connect(made.server.descriptor(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) ==
        0) {
      pairs.push_back(std::move(made));
    }
  }
}

// False: the connection has ended, or is to end.
bool Relay::pass(Pair& pair, bool to_client) {
  std::array<char, 65536> buffer{};
  const int from = to_client ? pair.server.descriptor() : pair.client.descriptor();
  const int to = to_client ? pair.client.descriptor() : pair.server.descriptor();
  const ssize_t size = ::recv(from, buffer.data(), buffer.size(), 0);
  if (size <= 0) return false;
  if (to_client && left_ > 0 && --left_ == 0) return false;
  for (ssize_t done = 0; done < size;) {
    const ssize_t sent = ::send(to, &buffer[static_cast<std::size_t>(done)],
                                static_cast<std::size_t>(size - done), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    done += sent;
  }
  return true;
}

}  // namespace nfs
