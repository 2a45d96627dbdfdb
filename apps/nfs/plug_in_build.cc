// Compiled into the server and into each back end; load_back_end() compares the two results.
#include <fmt/core.h>

#include "nfs/plug_in.h"
#include "rpcrdma/version.h"

namespace nfs {

std::string back_end_build() {
  // The sizes tell most builds of one version apart.
  return fmt::format("{}, {}, {}, {} {} {} {}", rpcrdma::kLibraryVersion, __VERSION__,
                     kBackEndInterface, sizeof(BackEndSettings), sizeof(Caller),
                     sizeof(nfs3::fattr3), sizeof(Done<nfs3::READ3res>));
}

}  // namespace nfs
