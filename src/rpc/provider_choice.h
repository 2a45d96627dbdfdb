// The one place that names back ends.
#ifndef RPCRDMA_RPC_PROVIDER_CHOICE_H_
#define RPCRDMA_RPC_PROVIDER_CHOICE_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "rpcrdma/error.h"
#include "rpcrdma/options.h"
#include "rpcrdma/provider.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// Open the provider that the options name, with queues deep enough for the calls that they let be
// under way on a connection. "auto" is verbs when an RDMA device that can be used leads to the
// numeric "ADDR:PORT" (client), has it (server), or is there (server, wildcard address); else
// siwarp, also when the options want what only TCP has; errors tell of a device that was passed
// over. kUnsupported when what was named is not there or cannot do what the options want.
Expected<std::unique_ptr<rdma::Provider>, Error> make_provider(const ClientOptions& options,
                                                               std::string_view address);
Expected<std::unique_ptr<rdma::Provider>, Error> make_provider(const ServerOptions& options,
                                                               std::string_view address);
// The same for a TCP connection that is there already.
Expected<std::unique_ptr<rdma::Provider>, Error> make_tcp_provider(const ClientOptions& options);

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_PROVIDER_CHOICE_H_
