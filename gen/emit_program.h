// Clients and services of the programs in a file.
#ifndef RPCRDMA_GEN_EMIT_PROGRAM_H_
#define RPCRDMA_GEN_EMIT_PROGRAM_H_

#include "gen/ast.h"
#include "gen/emit.h"

namespace rpcrdma::gen {

bool has_programs(const File& file);
// Classes VERSION_Client and VERSION_Service for each version of each program.
void emit_program_classes(Text& out, const File& file, const EmitOptions& options);
void emit_program_functions(Text& out, const File& file, const EmitOptions& options);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_EMIT_PROGRAM_H_
