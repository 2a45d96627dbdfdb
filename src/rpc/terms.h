// Gathers the terms of a connection from the engine and the provider.
#ifndef RPCRDMA_RPC_TERMS_H_
#define RPCRDMA_RPC_TERMS_H_

#include <string_view>

#include "rpcrdma/terms.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

// `version`: of RPC-over-RDMA, as far as it is known; `credits`: of the direction that matters.
ConnectionTerms terms_of(const transport::Connection& connection, std::string_view provider,
                         std::uint32_t version, std::uint32_t credits) noexcept;

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_TERMS_H_
