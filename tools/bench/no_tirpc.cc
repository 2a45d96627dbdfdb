// Built where libtirpc is not installed.
#include "tools/bench/contender.h"

namespace rpcrdma::tools::bench {

bool have_tirpc() noexcept {
  return false;
}

std::unique_ptr<Contender> make_tirpc(const Layout& /*layout*/) {
  return nullptr;
}

}  // namespace rpcrdma::tools::bench
