// This refuses names that differ in the file, and would not in C++.
#ifndef RPCRDMA_GEN_CLAIMS_H_
#define RPCRDMA_GEN_CLAIMS_H_

#include "gen/ast.h"
#include "gen/diagnostic.h"

namespace rpcrdma::gen {

// Gives the functions of unions their names, and reports two things of a scope that would have one
// name. Precondition: the file is checked otherwise.
void check_claims(File& file, Diagnostics& diagnostics);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_CLAIMS_H_
