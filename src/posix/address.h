// Numeric addresses of sockets.
#ifndef RPCRDMA_POSIX_ADDRESS_H_
#define RPCRDMA_POSIX_ADDRESS_H_

#include <sys/socket.h>

#include <optional>
#include <string>
#include <string_view>

namespace rpcrdma::posix {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family() const noexcept { return storage.ss_family; }
  const sockaddr* pointer() const noexcept;
  sockaddr* pointer() noexcept;
};
// "127.0.0.1:20049" or "[::1]:20049". No names, no service names.
std::optional<Address> parse_address(std::string_view text);
std::string to_string(const Address& address);

}  // namespace rpcrdma::posix

#endif  // RPCRDMA_POSIX_ADDRESS_H_
