// Describes why a client over TCP gets no connection, or loses one.
#ifndef RPCRDMA_RPC_CALL_TCP_ERRORS_H_
#define RPCRDMA_RPC_CALL_TCP_ERRORS_H_

#include <string>
#include <string_view>

#include "posix/address.h"
#include "posix/reactor.h"
#include "rpcrdma/error.h"
#include "rpcrdma/options.h"
#include "tcp/connection.h"

namespace rpcrdma::rpc {

// `peer`: the address, or the path of a Unix socket.
Error tcp_failure(std::string_view operation, std::string_view peer,
                  const posix::SystemError& error);
std::string longest_reply(const ClientOptions& options);
std::string cause_of_end(const tcp::End& end, const ClientOptions& options);

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_TCP_ERRORS_H_
