// Parts of rpcrdma that are shared objects in packages of their own, which a machine may lack.
#ifndef RPCRDMA_TOOLS_PLUG_IN_H_
#define RPCRDMA_TOOLS_PLUG_IN_H_

#include <string_view>

namespace rpcrdma::tools {

// Returns whether the library's text about a part that it could not load says that there is no such
// object on this machine. Otherwise the object is there and does not load. The public interface
// gives this text alone.
bool is_absent(std::string_view problem);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_PLUG_IN_H_
