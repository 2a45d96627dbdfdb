// Knows the types and numbers that C's headers give rpcgen's output: .x files use them undefined.
#ifndef RPCRDMA_GEN_DIALECT_H_
#define RPCRDMA_GEN_DIALECT_H_

#include <optional>
#include <string_view>

#include "gen/ast.h"

namespace rpcrdma::gen {

// A type such as u_int or uint32_t; kNone: there is none of that name.
Basic dialect_type(std::string_view name);
// TRUE, FALSE, and numbers of <rpc/auth.h>.
std::optional<Integer> dialect_constant(std::string_view name);
// Adds netobj and des_block to a file that uses them and does not define them.
void add_rpc_types(File& file);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_DIALECT_H_
