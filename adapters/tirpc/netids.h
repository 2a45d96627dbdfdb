// The netids "rdma" and "rdma6", which /etc/netconfig does not have.
#ifndef RPCRDMA_ADAPTERS_TIRPC_NETIDS_H_
#define RPCRDMA_ADAPTERS_TIRPC_NETIDS_H_

#include <netconfig.h>
#include <rpc/rpc.h>

namespace rpcrdma::tirpc {

// Null is none of them.
bool is_rdma(const char* netid) noexcept;
// "tcp", "udp", "tcp6", "udp6": what a Mode moves to RDMA.
bool is_movable(const char* netid) noexcept;

// Returns an entry for freenetconfigent(); null: no such netid, or no memory.
netconfig* make_netconfig(const char* netid) noexcept;
// Frees an entry of make_netconfig(); false: it is of libtirpc.
bool free_netconfig(netconfig* entry) noexcept;
bool describe(const netconfig& entry, __rpc_sockinfo& info) noexcept;

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_NETIDS_H_
