#include "conformance/fabric.h"

namespace rpcrdma::test {

std::vector<FabricKind> fabrics() {
  std::vector<FabricKind> all = sim_fabrics();
  for (FabricKind& kind : siwarp_fabrics()) all.push_back(std::move(kind));
  for (FabricKind& kind : own_provider_fabrics()) all.push_back(std::move(kind));
  for (FabricKind& kind : verbs_fabrics()) all.push_back(std::move(kind));
  return all;
}

}  // namespace rpcrdma::test
