// Adds up what a connection counted.
#ifndef RPCRDMA_RPC_COUNTERS_H_
#define RPCRDMA_RPC_COUNTERS_H_

#include "engine/types.h"
#include "rdma/provider.h"
#include "rpcrdma/counters.h"

namespace rpcrdma::rpc {

void add(TransferCounters& sum, const engine::Counters& engine,
         const rdma::Counters& link) noexcept;
void add(TransferCounters& sum, const TransferCounters& other) noexcept;

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_COUNTERS_H_
