// A connection that a listener has taken, before it has an owner.
#ifndef RPCRDMA_TCP_ACCEPTED_H_
#define RPCRDMA_TCP_ACCEPTED_H_

#include <string>

#include "posix/fd.h"

namespace rpcrdma::tcp {

struct Accepted {
  posix::Fd socket;  // non-blocking
  // "ADDR:PORT", or "local (user UID, process PID)" of a Unix socket, whose client has no name.
  // Known here only: once the peer has reset the connection, the socket does not tell it.
  std::string peer;
};

}  // namespace rpcrdma::tcp

#endif  // RPCRDMA_TCP_ACCEPTED_H_
