#include "rpcbind/universal_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace rpcrdma::rpcbinding {
namespace {

// A decimal number without a sign and without zeros before it.
template <class T>
std::optional<T> decimal(std::string_view text) {
  if (text.empty() || (text[0] == '0' && text.size() > 1)) return std::nullopt;
  T value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// Cuts off what stands behind the last dot.
std::optional<std::uint8_t> take_last_octet(std::string_view& text) {
  const auto dot = text.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto octet = decimal<std::uint8_t>(text.substr(dot + 1));
  text = text.substr(0, dot);
  return octet;
}

// inet_pton() wants a string that ends in NUL, and would not see one in the middle.
bool read_address(bool six, std::string_view text, std::array<std::uint8_t, 16>& address) {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  if (text.size() >= buffer.size() || text.find('\0') != std::string_view::npos) return false;
  std::ranges::copy(text, buffer.begin());
  return inet_pton(six ? AF_INET6 : AF_INET, buffer.data(), address.data()) == 1;
}

}  // namespace

bool Endpoint::is_wildcard() const noexcept {
  return std::ranges::all_of(address, [](std::uint8_t byte) { return byte == 0; });
}

bool Endpoint::is_loopback() const noexcept {
  if (!six) return address[0] == 127;
  in6_addr value{};
  std::ranges::copy(address, value.s6_addr);
  return IN6_IS_ADDR_LOOPBACK(&value) || (IN6_IS_ADDR_V4MAPPED(&value) && address[12] == 127);
}

std::string Endpoint::host() const {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  inet_ntop(six ? AF_INET6 : AF_INET, address.data(), buffer.data(), buffer.size());
  return buffer.data();
}

std::optional<Endpoint> from_universal(std::string_view netid, std::string_view text) {
  const bool six = netid == kNetidRdma6 || netid == kNetidTcp6;
  if (!six && netid != kNetidRdma && netid != kNetidTcp) return std::nullopt;
  Endpoint endpoint{.six = six};
  const auto low = take_last_octet(text);
  if (!low) return std::nullopt;
  const auto high = take_last_octet(text);
  if (!high || !read_address(endpoint.six, text, endpoint.address)) return std::nullopt;
  endpoint.port = static_cast<std::uint16_t>(*high * 256U + *low);
  return endpoint;
}

std::string to_universal(const Endpoint& endpoint) {
  return endpoint.host() + "." + std::to_string(endpoint.port / 256U) + "." +
         std::to_string(endpoint.port % 256U);
}

std::optional<Endpoint> from_socket_text(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = decimal<std::uint16_t>(text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  Endpoint endpoint{.six = host.size() > 2 && host.front() == '[' && host.back() == ']'};
  if (endpoint.six) host = host.substr(1, host.size() - 2);
  if (!port || !read_address(endpoint.six, host, endpoint.address)) return std::nullopt;
  endpoint.port = *port;
  return endpoint;
}

std::string to_url(std::string_view host, std::uint16_t port) {
  const bool six = host.find(':') != std::string_view::npos && host[0] != '[';
  return (six ? "rdma://[" : "rdma://") + std::string(host) + (six ? "]:" : ":") +
         std::to_string(port);
}

}  // namespace rpcrdma::rpcbinding
