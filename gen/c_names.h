// The names that C's headers take (ADR 37): sorted, with white space between them.
#ifndef RPCRDMA_GEN_C_NAMES_H_
#define RPCRDMA_GEN_C_NAMES_H_

namespace rpcrdma::gen {

extern const char* const kCMacros;
// Functions, objects, types and enumerators.
extern const char* const kCGlobals;

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_C_NAMES_H_
