// Loads the shared object with the verbs provider, so that nothing else needs rdma-core.
#ifndef RPCRDMA_RDMA_VERBS_LOADER_H_
#define RPCRDMA_RDMA_VERBS_LOADER_H_

#include <string>

#include "rdma/verbs/plugin.h"

namespace rpcrdma::rdma::verbs {

// The first call loads librpcrdma_verbs.so, from where posix::load_shared_object() finds it. Fails
// with a text that says why and what to do, each time the same. From any thread.
Expected<Plugin*, std::string> load();

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_LOADER_H_
