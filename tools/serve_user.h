// The user that the service can have in place of root, for `rpcrdma serve --check --unit`.
#ifndef RPCRDMA_TOOLS_SERVE_USER_H_
#define RPCRDMA_TOOLS_SERVE_USER_H_

#include <string>
#include <vector>

#include "nfs/exports.h"
#include "tools/serve_options.h"

namespace rpcrdma::tools {

// Returns why a service with these settings, which do not need root to act as callers, cannot have
// the user rpcrdma, and what would change that; a sentence each. Empty: it can.
std::vector<std::string> obstacles_to_user(const ServeOptions& options,
                                           const std::vector<nfs::Export>& exports);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_USER_H_
