// Functions that find the DDP-eligible items in encoded arguments and results.
#ifndef RPCRDMA_GEN_EMIT_LOCATE_H_
#define RPCRDMA_GEN_EMIT_LOCATE_H_

#include <string_view>

#include "gen/ast.h"
#include "gen/emit.h"

namespace rpcrdma::gen {

// One function for each type of the file; for a file with programs.
void emit_locate_types(Text& out, const File& file, std::string_view scope);
// V_Binding::locate_items().
void emit_locate_items(Text& out, const Version& version, std::string_view scope);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_EMIT_LOCATE_H_
