// Received messages: views of them are read-only, their memory is this side's own.
#ifndef RPCRDMA_RPC_RECEIVED_H_
#define RPCRDMA_RPC_RECEIVED_H_

#include <cstddef>

#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// Steps of authentication decipher in place. Precondition: `message` is in a Receive, a buffer of
// the pool or the room of a record, which the peer can no longer write to, and no other view of it
// is going to be read.
inline MutableBytes changeable(Bytes message) noexcept {
  return {const_cast<std::byte*>(message.data()), message.size()};
}

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_RECEIVED_H_
