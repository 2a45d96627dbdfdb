// RDMA devices, by libibverbs and librdmacm.
//
// The work of each post() is with the device when it returns, except for windows over exposed
// memory, which are bound in front of the next work that leaves, or in progress(). Completions that
// are available at once (exposures) do not make wait_fd() readable, but wait() does not block then.
#ifndef RPCRDMA_RDMA_VERBS_PROVIDER_H_
#define RPCRDMA_RDMA_VERBS_PROVIDER_H_

#include <memory>

#include "rdma/verbs/options.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

// Fails with kUnsupported for options out of range or where there is no connection manager,
// kNoResources when the system refuses descriptors. That there is no device shows later.
Expected<std::unique_ptr<Provider>, Error> make_provider(const Options& options);

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_PROVIDER_H_
