// The network interfaces of this machine, one of which may be an RDMA device's.
#ifndef RPCRDMA_RDMA_VERBS_INTERFACES_H_
#define RPCRDMA_RDMA_VERBS_INTERFACES_H_

#include <string>
#include <vector>

#include "posix/address.h"

namespace rpcrdma::rdma::verbs {

struct Interface {  // once for each of its addresses
  std::string name;
  posix::Address address;  // without a port
};
// Returns the interfaces except the loopback.
std::vector<Interface> interfaces();

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_INTERFACES_H_
