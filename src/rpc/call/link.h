// The connections of a client that makes its own.
#ifndef RPCRDMA_RPC_CALL_LINK_H_
#define RPCRDMA_RPC_CALL_LINK_H_

#include <memory>

#include "rpc/serve/session.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

// One connection, and what answers the backward Calls that come over it, if anything does.
struct Link {
  std::unique_ptr<Session> session;
  std::unique_ptr<transport::Connection> connection;  // goes first
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_LINK_H_
