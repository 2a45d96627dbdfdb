// Where programs are: URLs of servers, and rpcbind under the netids "rdma" and "rdma6".
#ifndef RPCRDMA_ADAPTERS_TIRPC_PLACES_H_
#define RPCRDMA_ADAPTERS_TIRPC_PLACES_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "rpcrdma/error.h"
#include "rpcrdma/types.h"

namespace rpcrdma::tirpc {

// Returns the URL of the program. `server`: a URL, which is returned as it is, or a host, whose
// rpcbind is asked over TCP. NFS listens on port 20049 where rpcbind does not know better.
Expected<std::string, Error> url_of_program(const std::string& server, std::uint32_t program,
                                            std::uint32_t version,
                                            std::chrono::milliseconds timeout);

// Registers a program that listens at these addresses (Server::address()) with this machine's
// rpcbind until unregister_program(). Returns whether it was; else one line to stderr says why.
bool register_program(std::uint32_t program, std::uint32_t version,
                      const std::vector<std::string>& addresses);
void unregister_program(std::uint32_t program, std::uint32_t version);

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_PLACES_H_
