// The whole compiler over text in memory.
#ifndef RPCRDMA_GEN_COMPILER_H_
#define RPCRDMA_GEN_COMPILER_H_

#include <string>
#include <string_view>

namespace rpcrdma::gen {

struct CompileOptions {
  std::string name;            // of the input, as messages tell it: DIR/blob.x
  std::string namespace_name;  // empty: from the name
  bool fields = false;         // make NAME_fields.h too
  bool random = false;         // make NAME_random.h too, and NAME_fields.h, which it includes
};

struct Compiled {
  bool ok = false;
  std::string messages;  // errors and warnings, as they are printed
  std::string stem;  // "blob"; the text of blob.h, blob.cc, blob_fields.h, blob_random.h follows
  std::string header, source, fields, random;
};

Compiled compile(std::string_view text, const CompileOptions& options);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_COMPILER_H_
