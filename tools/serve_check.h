// `rpcrdma serve --check`: what would be served, and `--unit`: what the service needs for that.
#ifndef RPCRDMA_TOOLS_SERVE_CHECK_H_
#define RPCRDMA_TOOLS_SERVE_CHECK_H_

#include "tools/log.h"
#include "tools/serve_options.h"

namespace rpcrdma::tools {

// Prints what the options would serve. Neither listens nor changes any file. Ends the command if
// the options cannot be served.
void check_serving(const ServeOptions& options, StderrLog& log);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_CHECK_H_
