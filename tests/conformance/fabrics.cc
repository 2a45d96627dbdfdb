#include "conformance/fabric.h"

namespace rpcrdma::test {

std::vector<FabricKind> fabrics() {
  return sim_fabrics();
}

}  // namespace rpcrdma::test
