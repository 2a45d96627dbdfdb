// Finds and loads the shared object with the verbs provider, so that nothing else needs rdma-core.
#ifndef RPCRDMA_RDMA_VERBS_LOADER_H_
#define RPCRDMA_RDMA_VERBS_LOADER_H_

#include <string>

#include "rdma/verbs/plugin.h"

namespace rpcrdma::rdma::verbs {

// The first call loads, from the first of these places that has librpcrdma_verbs.so: the folder
// RPCRDMA_PROVIDER_DIR of the environment (not for programs that run with raised rights), next to
// the program, ../lib and ../lib/rpcrdma beside it, the library folder of the installation, the
// system's search path. Fails with a text that says why and what to do, each time the same. From
// any thread.
Expected<Plugin*, std::string> load();

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_LOADER_H_
