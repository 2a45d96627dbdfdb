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

// Opens the provider that the options name, with queues deep enough for `calls_max` calls under way
// on a connection. `share_port`: see ServerOptions. kUnsupported when it is not in this build.
Expected<std::unique_ptr<rdma::Provider>, Error> make_provider(const ProviderOptions& provider,
                                                               const ConnectionOptions& connection,
                                                               std::uint32_t calls_max,
                                                               bool share_port = false);

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_PROVIDER_CHOICE_H_
