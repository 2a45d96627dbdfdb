// The figures that `rpcrdma top` shows of a mount, in the form of metrics.h.
#ifndef RPCRDMA_TOOLS_MOUNT_FIGURES_H_
#define RPCRDMA_TOOLS_MOUNT_FIGURES_H_

#include <string>

#include "mount/fuse_session.h"

namespace rpcrdma::tools {

// Returns a line for each figure. From any thread.
std::string mount_figures(const mounts::Session& session, const std::string& url,
                          const std::string& directory);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_MOUNT_FIGURES_H_
