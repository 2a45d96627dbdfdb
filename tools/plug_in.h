// Parts of rpcrdma that are shared objects in packages of their own, which a machine may lack.
#ifndef RPCRDMA_TOOLS_PLUG_IN_H_
#define RPCRDMA_TOOLS_PLUG_IN_H_

#include <string>
#include <string_view>

namespace rpcrdma::tools {

// Returns whether the library's text about a part that it could not load says that there is no such
// object on this machine. Otherwise the object is there and does not load. The public interface
// gives this text alone.
bool is_absent(std::string_view problem);

// Each tries to load a part that this build has, and returns what to do if it cannot be loaded:
// which package to install, or why the object that is there does not load. Empty: it is loaded.
std::string remedy_for_verbs();
std::string remedy_for_kerberos();
std::string remedy_for_cephfs();
std::string remedy_for_tirpc();

// Returns the path of librpcrdma-tirpc, which `rpcrdma run` preloads; empty: it is not installed,
// or this build has none.
std::string tirpc_adapter();

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_PLUG_IN_H_
