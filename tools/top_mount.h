// The mounts that `rpcrdma top` shows: what `rpcrdma mount` says at its socket.
#ifndef RPCRDMA_TOOLS_TOP_MOUNT_H_
#define RPCRDMA_TOOLS_TOP_MOUNT_H_

#include <string>

#include "tools/figures.h"
#include "tools/json.h"

namespace rpcrdma::tools {

// Returns whether the figures are those of a mount, not of a server.
bool is_of_mount(const Figures& figures);
// `seconds`: between the two readings.
std::string mount_table(const Figures& before, const Figures& now, double seconds);
Json mount_json(const Figures& before, const Figures& now, double seconds);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_TOP_MOUNT_H_
