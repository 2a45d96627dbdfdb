// Adds up what a connection counted.
#ifndef RPCRDMA_RPC_COUNTERS_H_
#define RPCRDMA_RPC_COUNTERS_H_

#include "rpcrdma/counters.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

void add(TransferCounters& sum, const transport::Connection& connection) noexcept;
void add(TransferCounters& sum, const TransferCounters& other) noexcept;

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_COUNTERS_H_
