// rdma://HOST[:PORT] and the numeric addresses that providers take.
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

// Numeric "ADDR:PORT" or "[ADDR]:PORT" for each address of the host, in the order to try. May block
// on the system's resolver when the host is a name.
Expected<std::vector<std::string>, Error> resolve(const Url& url, bool to_listen);

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_URL_H_
