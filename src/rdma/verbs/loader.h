// Finds and loads the shared object with the verbs provider, so that nothing else needs rdma-core.
#ifndef RPCRDMA_RDMA_VERBS_LOADER_H_
#define RPCRDMA_RDMA_VERBS_LOADER_H_

#include <filesystem>
#include <string>
#include <vector>

#include "rdma/verbs/plugin.h"

namespace rpcrdma::rdma::verbs {

// The first call loads, from the first of these places that has librpcrdma_verbs.so: the folder
// RPCRDMA_PROVIDER_DIR of the environment (not for programs that run with raised rights),
// plugin_places() of this program, places_beside() a shared librpcrdma, the library folder of the
// installation, the system's search path. Fails with a text that says why and what to do, each time
// the same. From any thread.
Expected<Plugin*, std::string> load();

// Where a program looks from its own place: next to itself, and in lib and lib/rpcrdma of the tree
// that it is in as bin/PROGRAM or libexec/rpcrdma/PROGRAM.
std::vector<std::string> plugin_places(const std::filesystem::path& program);

// Next to a shared library, and in its folder rpcrdma, so that an installation may be moved. None
// unless the path is absolute.
std::vector<std::string> places_beside(const std::filesystem::path& library);

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_LOADER_H_
