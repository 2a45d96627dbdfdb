// Takes an existing TCP connection over for RDMA (RFC 5666 §3, docs/step_up.md).
#ifndef RPCRDMA_TAKE_OVER_H_
#define RPCRDMA_TAKE_OVER_H_

#include "rpcrdma/client.h"
#include "rpcrdma/error.h"
#include "rpcrdma/export.h"
#include "rpcrdma/options.h"

namespace rpcrdma {

// There is no reconnection. Both block as Client::connect() does.
class RPCRDMA_EXPORT TakeOver {
 public:
  // Continues on a TCP connection of the application after both upper layers have agreed to step
  // up: after the last byte that either side has sent or will read, such as between two
  // record-marked messages. The server calls Server::adopt(). The library owns the descriptor from
  // now on, even if this fails.
  static Expected<Client, Error> adopt(int descriptor, ClientOptions options = {});
  // The same for the connection of a tcp:// client, once the server has agreed in its answer to a
  // call (CallContext::step_up() on its side). The new client continues after that answer, and
  // `client` has ended, even if RDMA cannot be set up. Fails with kUnsupported, and changes
  // nothing, while calls are outstanding, if the server has sent anything after its answers, and
  // for a client that is not a tcp:// client.
  static Expected<Client, Error> step_up(Client& client, ClientOptions options = {});
};

}  // namespace rpcrdma

#endif  // RPCRDMA_TAKE_OVER_H_
