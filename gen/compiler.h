// The whole compiler over text in memory.
#ifndef RPCRDMA_GEN_COMPILER_H_
#define RPCRDMA_GEN_COMPILER_H_

#include <string>
#include <string_view>
#include <vector>

#include "gen/lexer.h"

namespace rpcrdma::gen {

struct CompileOptions {
  std::string name;                    // of the input, as messages tell it: DIR/blob.x
  std::vector<std::string> imports{};  // files that are read before it, as if it included them
  // NAME or NAME=NUMBER, as #define has them.
  std::vector<std::string> definitions{};
  // Empty: what is included is an error.
  FindIncluded find_included{};
  std::string namespace_name{};  // empty: from the name
  bool fields = false;           // make NAME_fields.h too
  bool tirpc_table = false;      // make NAME_tirpc.c, and nothing else
  bool random = false;           // make NAME_random.h too, and NAME_fields.h, which it includes
};

struct Compiled {
  bool ok = false;
  std::string messages;  // errors and warnings, as they are printed
  // "blob"; the text of blob.h, blob.cc, blob_fields.h, blob_random.h follows. A name of a header
  // of C gets a '_', since a folder of "time.h" would take <time.h> from everybody.
  std::string stem;
  std::vector<std::string> included;  // the names of the files that were included
  std::string header, source, fields, random;
  std::string tirpc;  // the text of blob_tirpc.c, in place of all others
};

Compiled compile(std::string_view text, const CompileOptions& options);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_COMPILER_H_
