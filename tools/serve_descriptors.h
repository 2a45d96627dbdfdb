// The descriptors that `rpcrdma serve` needs for connections and files.
#ifndef RPCRDMA_TOOLS_SERVE_DESCRIPTORS_H_
#define RPCRDMA_TOOLS_SERVE_DESCRIPTORS_H_

#include <cstddef>

#include "tools/log.h"
#include "tools/serve_options.h"

namespace rpcrdma::tools {

// Ends the command if neither this process nor the service of the package may have as many
// descriptors as the connections and the files of so many exports take.
void check_descriptors(const ServeOptions& options, std::size_t exports);

// Ends the command if this process may not have them, and raises the limit to what connections and
// open files need, as far as that may be done; files have what is left.
void make_room_for_descriptors(ServeOptions& options, std::size_t exports, StderrLog& log);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_DESCRIPTORS_H_
