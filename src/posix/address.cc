#include "posix/address.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <utility>

namespace rpcrdma::posix {
namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || port > 0xffff) {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(port);
}

// Returns 0 for an interface that this machine does not have.
std::uint32_t zone_of(const std::string& text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  return is_number ? number : if_nametoindex(text.c_str());
}

bool read_six(std::string host, sockaddr_in6& six) {
  const std::size_t percent = host.find('%');
  if (percent != std::string::npos) {
    six.sin6_scope_id = zone_of(host.substr(percent + 1));
    if (six.sin6_scope_id == 0) return false;
    host.resize(percent);
  }
  return inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1;
}

// "%eth0", or nothing.
std::string zone_text(const sockaddr_in6& six) {
  if (six.sin6_scope_id == 0) return {};
  std::array<char, IF_NAMESIZE> name{};
  if (if_indextoname(six.sin6_scope_id, name.data()) != nullptr) {
    return fmt::format("%{}", name.data());
  }
  return fmt::format("%{}", six.sin6_scope_id);
}

}  // namespace

const sockaddr* Address::pointer() const noexcept {
  return reinterpret_cast<const sockaddr*>(&storage);
}
sockaddr* Address::pointer() noexcept {
  return reinterpret_cast<sockaddr*>(&storage);
}

std::optional<Address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = parse_port(text.substr(colon + 1));
  std::string host(text.substr(0, colon));
  if (!port) return std::nullopt;
  Address address;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(*port);
    if (!read_six(std::move(host), six)) return std::nullopt;
    std::memcpy(&address.storage, &six, sizeof(six));
    address.size = sizeof(six);
    return address;
  }
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(*port);
  if (inet_pton(AF_INET, host.c_str(), &four.sin_addr) != 1) return std::nullopt;
  std::memcpy(&address.storage, &four, sizeof(four));
  address.size = sizeof(four);
  return address;
}

std::optional<Address> local_address(std::string_view path) {
  if (!is_local_path(path) || path.size() > kLocalPathMax || path.find('\0') != path.npos) {
    return std::nullopt;
  }
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  path.copy(local.sun_path, path.size());
  Address address;
  std::memcpy(&address.storage, &local, sizeof(local));
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

std::optional<Address> parse_stream_address(std::string_view text) {
  return is_local_path(text) ? local_address(text) : parse_address(text);
}

std::string to_string(const Address& address) {
  if (address.family() == AF_UNIX) {
    sockaddr_un local{};
    std::memcpy(&local, &address.storage, sizeof(local));
    return {local.sun_path, strnlen(local.sun_path, sizeof(local.sun_path))};
  }
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (address.family() == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &address.storage, sizeof(six));
    inet_ntop(AF_INET6, &six.sin6_addr, host.data(), host.size());
    return fmt::format("[{}{}]:{}", host.data(), zone_text(six), ntohs(six.sin6_port));
  }
  sockaddr_in four{};
  std::memcpy(&four, &address.storage, sizeof(four));
  inet_ntop(AF_INET, &four.sin_addr, host.data(), host.size());
  return fmt::format("{}:{}", host.data(), ntohs(four.sin_port));
}

}  // namespace rpcrdma::posix
