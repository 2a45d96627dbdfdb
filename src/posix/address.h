// Numeric addresses of sockets, and paths of Unix sockets.
#ifndef RPCRDMA_POSIX_ADDRESS_H_
#define RPCRDMA_POSIX_ADDRESS_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
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
// Reads "127.0.0.1:20049", "[::1]:20049" or "[fe80::1%eth0]:20049", whose zone (RFC 4007 §11) is
// the name or the number of an interface. No names, no service names.
std::optional<Address> parse_address(std::string_view text);

// The longest path of a Unix socket, bytes: sun_path of unix(7), without the zero at its end.
inline constexpr std::size_t kLocalPathMax = sizeof(sockaddr_un::sun_path) - 1;
// nullopt: not absolute, longer than kLocalPathMax, or with a zero inside.
std::optional<Address> local_address(std::string_view path);
inline bool is_local_path(std::string_view text) noexcept {
  return text.starts_with('/');
}
// Parses an address as parse_address() does, or a path as local_address() does.
std::optional<Address> parse_stream_address(std::string_view text);

// Formats an address so that the functions above parse it again.
std::string to_string(const Address& address);

}  // namespace rpcrdma::posix

#endif  // RPCRDMA_POSIX_ADDRESS_H_
