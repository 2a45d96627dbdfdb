// The tables of rpcrdma_tirpc_add(): which data of a procedure RDMA may place.
#ifndef RPCRDMA_ADAPTERS_TIRPC_BULK_TABLES_H_
#define RPCRDMA_ADAPTERS_TIRPC_BULK_TABLES_H_

#include "rpcrdma-tirpc.h"

namespace rpcrdma::tirpc {

// Returns the binding of a procedure; null: no table has it.
const rpcrdma_tirpc_procedure* find_binding(rpcprog_t program, rpcvers_t version,
                                            rpcproc_t procedure) noexcept;

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_BULK_TABLES_H_
