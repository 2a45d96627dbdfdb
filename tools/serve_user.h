// The user that the service can have in place of root, for `rpcrdma serve --check --unit`.
#ifndef RPCRDMA_TOOLS_SERVE_USER_H_
#define RPCRDMA_TOOLS_SERVE_USER_H_

#include <filesystem>
#include <string>
#include <vector>

#include "nfs/exports.h"
#include "tools/serve_options.h"

namespace rpcrdma::tools {

// Returns whether systemd makes the folder for the service, or one above it, and gives it to its
// user (StateDirectory= and RuntimeDirectory= of the unit). `real` has no links.
bool is_folder_of_unit(const std::filesystem::path& real);

// Returns why a service with these settings, which do not need root to act as callers, cannot have
// the user rpcrdma, and what would change that; a sentence each. Empty: it can.
std::vector<std::string> obstacles_to_user(const ServeOptions& options,
                                           const std::vector<nfs::Export>& exports);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_USER_H_
