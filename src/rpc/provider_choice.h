// The one place that names back ends.
#ifndef RPCRDMA_RPC_PROVIDER_CHOICE_H_
#define RPCRDMA_RPC_PROVIDER_CHOICE_H_

#include <cstdint>
#include <memory>

#include "rdma/provider.h"
#include "rpcrdma/error.h"
#include "rpcrdma/options.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// Open the provider that the options name, with queues deep enough for the calls that they let be
// under way on a connection. kUnsupported when it is not in this build.
Expected<std::unique_ptr<rdma::Provider>, Error> make_provider(const ClientOptions& options);
Expected<std::unique_ptr<rdma::Provider>, Error> make_provider(const ServerOptions& options);

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_PROVIDER_CHOICE_H_
