// Tables of direct placement for programs of rpcgen's that use librpcrdma-tirpc.
#ifndef RPCRDMA_GEN_EMIT_TIRPC_H_
#define RPCRDMA_GEN_EMIT_TIRPC_H_

#include <string>

#include "gen/ast.h"

namespace rpcrdma::gen {

// Writes a C file that adds one table for each version of each program (rpcrdma_tirpc_add()). It
// needs nothing of rpcgen's. `name` is that of the .x file.
std::string emit_tirpc_tables(const File& file, const std::string& name);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_EMIT_TIRPC_H_
