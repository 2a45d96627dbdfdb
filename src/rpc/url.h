// Reads rdma://HOST[:PORT], tcp://HOST:PORT and unix:///PATH, and finds their addresses.
#ifndef RPCRDMA_RPC_URL_H_
#define RPCRDMA_RPC_URL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/error.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

struct Url {
  std::string host;  // without brackets
  std::uint16_t port;
};

// Errors are kBadUrl, of names kUnknownHost, and say what is wrong.
Expected<Url, Error> parse_url(std::string_view url);
// tcp://HOST:PORT; there is no default port, since each program has its own.
Expected<Url, Error> parse_tcp_url(std::string_view url);
// The path of unix:///PATH, which is absolute and short enough for a socket.
Expected<std::string, Error> parse_unix_url(std::string_view url);

// Returns whether calls travel as records over a stream socket (tcp://, unix://), not over RDMA.
bool is_stream_url(std::string_view url) noexcept;
// Returns its host, of any scheme, and of a list the first one; for unix:// this machine. Empty: it
// has none.
std::string host_of_url(std::string_view url);

// Returns numeric "ADDR:PORT" or "[ADDR]:PORT" of a URL of any scheme, in the order to try; the
// path of unix://. A client's URL may list hosts, as in rdma://A,B:20050; those that are not known
// are left out if another one is. Fails as the functions above and resolve() do.
Expected<std::vector<std::string>, Error> addresses_of(std::string_view url, bool to_listen);

// Returns whether a client's URL names a host that the system's resolver has to look up: other
// addresses than numeric ones.
bool has_host_name(std::string_view url);

// Numeric "ADDR:PORT" or "[ADDR]:PORT" for each address of the host, in the order to try. May block
// on the system's resolver when the host is a name.
Expected<std::vector<std::string>, Error> resolve(const Url& url, bool to_listen);

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_URL_H_
