// The user that the service can have in place of root, for `rpcrdma serve --check --unit`.
#ifndef RPCRDMA_TOOLS_SERVE_USER_H_
#define RPCRDMA_TOOLS_SERVE_USER_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nfs/exports.h"
#include "tools/serve_options.h"

namespace rpcrdma::tools {

// Returns whether systemd makes the folder for the service, or one above it, and gives it to its
// user (StateDirectory= and RuntimeDirectory= of the unit). `real` has no links.
bool is_folder_of_unit(const std::filesystem::path& real);

// Returns what keeps a service with these settings from the user rpcrdma, and what would change
// that; a sentence each. Empty: it can have that user. nullopt: only root can do what they ask for,
// which is to act as the callers or to open files by handles of the kernel.
std::optional<std::vector<std::string>> obstacles_to_user(const ServeOptions& options,
                                                          const std::vector<nfs::Export>& exports);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_USER_H_
