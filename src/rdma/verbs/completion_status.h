// What the device's completions mean.
#ifndef RPCRDMA_RDMA_VERBS_COMPLETION_STATUS_H_
#define RPCRDMA_RDMA_VERBS_COMPLETION_STATUS_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

// In a completion's number: it is of the receive queue, not of the send queue.
inline constexpr std::uint64_t kOfReceive = std::uint64_t{1} << 63U;

Status status_of(ibv_wc_status status);
// Why a connection ends whose work failed so.
Error cause_of(ibv_wc_status status);

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_COMPLETION_STATUS_H_
