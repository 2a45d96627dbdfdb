// Layout of what the emitters write: they break lines and leave the indentation to this.
#ifndef RPCRDMA_GEN_INDENT_H_
#define RPCRDMA_GEN_INDENT_H_

#include <string>
#include <string_view>

namespace rpcrdma::gen {

// The same lines of C++, each indented as its braces and parentheses say: two columns for a block,
// four for a line that goes on.
std::string indented(std::string_view text);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_INDENT_H_
