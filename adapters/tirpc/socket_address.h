// Addresses between the library's texts and the forms that libtirpc keeps.
#ifndef RPCRDMA_ADAPTERS_TIRPC_SOCKET_ADDRESS_H_
#define RPCRDMA_ADAPTERS_TIRPC_SOCKET_ADDRESS_H_

#include <netinet/in.h>
#include <rpc/rpc.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace rpcrdma::tirpc {

// An address of IPv4 or IPv6. Anything else, such as the name of a simulated node, is 0.0.0.0:0.
class SocketAddress {
 public:
  SocketAddress() noexcept : SocketAddress(std::string_view()) {}
  // "ADDR:PORT" or "[ADDR]:PORT", numeric, as Server::address() gives it.
  explicit SocketAddress(std::string_view text) noexcept;

  explicit SocketAddress(const netbuf& address) noexcept;

  std::uint16_t port() const noexcept;
  // Views of this object.
  netbuf view() noexcept;
  // Copies for somebody who frees them with free().
  netbuf copy() const;
  // Writes it where programs of the time before IPv6 look for it: xp_raddr and xp_addrlen.
  void write_to(sockaddr_in6& address, int& size) const noexcept;

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = sizeof(sockaddr_in);
};

// "ADDR" or "[ADDR]" for a URL; empty if the address is of neither family.
std::string host_of(const netbuf& address);

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_SOCKET_ADDRESS_H_
