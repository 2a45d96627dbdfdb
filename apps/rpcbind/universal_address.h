// Network identifiers and universal addresses (RFC 5665) of RPC over RDMA: how rpcbind names where
// a program listens.
//
// An IPv4 address and a port are h1.h2.h3.h4.p1.p2, all of them decimal, with the netid "rdma"; an
// IPv6 address and a port are its text and .p1.p2, with the netid "rdma6" (RFC 5666 §12).
#ifndef RPCRDMA_RPCBIND_UNIVERSAL_ADDRESS_H_
#define RPCRDMA_RPCBIND_UNIVERSAL_ADDRESS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rpcrdma::rpcbinding {

inline constexpr std::string_view kNetidRdma = "rdma";    // over IPv4
inline constexpr std::string_view kNetidRdma6 = "rdma6";  // over IPv6
inline constexpr std::string_view kNetidTcp = "tcp", kNetidTcp6 = "tcp6";

// The transport for which a program is registered.
enum class Over : std::uint8_t { kRdma, kTcp };

// An IP address and a port.
struct Endpoint {
  bool six = false;                        // IPv6
  std::array<std::uint8_t, 16> address{};  // the first four with IPv4, the others are zero then
  std::uint16_t port = 0;

  std::string_view netid(Over over = Over::kRdma) const noexcept {
    if (over == Over::kTcp) return six ? kNetidTcp6 : kNetidTcp;
    return six ? kNetidRdma6 : kNetidRdma;
  }
  bool is_wildcard() const noexcept;  // 0.0.0.0 or ::, every address of its host
  bool is_loopback() const noexcept;  // 127/8, ::1
  std::string host() const;           // "192.0.2.1", "2001:db8::1"
  bool operator==(const Endpoint&) const = default;
};

// Strict: exactly the form of the netid, nothing before or behind it, no zero before another digit,
// no zone. nullopt for everything else, and for another netid.
std::optional<Endpoint> from_universal(std::string_view netid, std::string_view text);
std::string to_universal(const Endpoint& endpoint);

// "ADDR:PORT" or "[ADDR]:PORT", numeric, as Server::address() and CallContext::peer_address() give
// it.
std::optional<Endpoint> from_socket_text(std::string_view text);

// rdma://HOST:PORT; brackets go around an IPv6 address.
std::string to_url(std::string_view host, std::uint16_t port);

}  // namespace rpcrdma::rpcbinding

#endif  // RPCRDMA_RPCBIND_UNIVERSAL_ADDRESS_H_
