// Translates the statuses of the device's completions.
#ifndef RPCRDMA_RDMA_VERBS_COMPLETION_STATUS_H_
#define RPCRDMA_RDMA_VERBS_COMPLETION_STATUS_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

// This bit of a completion's number marks the receive queue; without it, it is of the send queue.
inline constexpr std::uint64_t kOfReceive = std::uint64_t{1} << 63U;

Status status_of(ibv_wc_status status);
// Returns why a connection ends whose work failed so.
Error cause_of(ibv_wc_status status);

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_COMPLETION_STATUS_H_
