#include "socket_address.h"

#include <arpa/inet.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace rpcrdma::tirpc {

namespace {

template <class Family>
Family& as(sockaddr_storage& storage) noexcept {
  return reinterpret_cast<Family&>(storage);
}
template <class Family>
const Family& as(const sockaddr_storage& storage) noexcept {
  return reinterpret_cast<const Family&>(storage);
}

}  // namespace

SocketAddress::SocketAddress(std::string_view text) noexcept {
  storage_.ss_family = AF_INET;
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return;
  std::string_view host = text.substr(0, colon);
  std::uint16_t port = 0;
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  const bool is_six = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_six) host = host.substr(1, host.size() - 2);
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  if (host.size() >= terminated.size()) return;
  host.copy(terminated.data(), host.size());
  if (is_six) {
    auto& address = as<sockaddr_in6>(storage_);
    if (::inet_pton(AF_INET6, terminated.data(), &address.sin6_addr) != 1) return;
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    size_ = sizeof(address);
  } else {
    auto& address = as<sockaddr_in>(storage_);
    if (::inet_pton(AF_INET, terminated.data(), &address.sin_addr) == 1) {
      address.sin_port = htons(port);
    }
  }
}

SocketAddress::SocketAddress(const netbuf& address) noexcept : SocketAddress() {
  if (address.buf == nullptr || address.len > sizeof(storage_)) return;
  std::memcpy(&storage_, address.buf, address.len);
  size_ = static_cast<socklen_t>(address.len);
}

std::uint16_t SocketAddress::port() const noexcept {
  return ntohs(storage_.ss_family == AF_INET6 ? as<sockaddr_in6>(storage_).sin6_port
                                              : as<sockaddr_in>(storage_).sin_port);
}

netbuf SocketAddress::view() noexcept {
  return {sizeof(storage_), size_, &storage_};
}

netbuf SocketAddress::copy() const {
  void* const memory = std::calloc(1, sizeof(storage_));
  if (memory == nullptr) return {0, 0, nullptr};
  std::memcpy(memory, &storage_, size_);
  return {sizeof(storage_), size_, memory};
}

void SocketAddress::write_to(sockaddr_in6& address, int& size) const noexcept {
  std::memcpy(&address, &storage_, size_);
  size = static_cast<int>(size_);
}

std::string host_of(const netbuf& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.buf == nullptr || address.len < sizeof(sa_family_t)) return {};
  const int family = static_cast<const sockaddr*>(address.buf)->sa_family;
  if (family == AF_INET && address.len >= sizeof(sockaddr_in)) {
    const auto* const four = static_cast<const sockaddr_in*>(address.buf);
    if (::inet_ntop(family, &four->sin_addr, text.data(), text.size()) != nullptr) {
      return text.data();
    }
  } else if (family == AF_INET6 && address.len >= sizeof(sockaddr_in6)) {
    const auto* const six = static_cast<const sockaddr_in6*>(address.buf);
    if (::inet_ntop(family, &six->sin6_addr, text.data(), text.size()) != nullptr) {
      return "[" + std::string(text.data()) + "]";
    }
  }
  return {};
}

}  // namespace rpcrdma::tirpc
