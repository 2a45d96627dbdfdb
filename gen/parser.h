// Reads a .x file: the XDR language (RFC 4506 §6), the RPC language (RFC 5531 §12) and rpcgen's
// dialect of both.
#ifndef RPCRDMA_GEN_PARSER_H_
#define RPCRDMA_GEN_PARSER_H_

#include "gen/ast.h"
#include "gen/diagnostic.h"
#include "gen/lexer.h"

namespace rpcrdma::gen {

// Stops at the first error. Types that are declared inside of others become definitions of their
// own. Names are not looked up yet. The source gets the files that are included.
File parse(Source& source, Diagnostics& diagnostics, const FindIncluded& find = {});

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_PARSER_H_
