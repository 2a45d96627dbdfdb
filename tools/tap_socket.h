// Gives the records of a server's tap to `rpcrdma explain --pid`.
#ifndef RPCRDMA_TOOLS_TAP_SOCKET_H_
#define RPCRDMA_TOOLS_TAP_SOCKET_H_

#include <string>

#include "rpcrdma/tap.h"

namespace rpcrdma::tools {

// Switches the tap on, and writes a line with the addresses of the server and then its records to
// the client, until that goes away or `ending` is readable; the client then has half a second for
// what has happened until now. Records for which a slow client has no
// room are left out and counted, and no call waits for it.
void serve_tap(Tap& tap, const std::string& rdma_address, const std::string& tcp_address,
               int client, int ending);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_TAP_SOCKET_H_
