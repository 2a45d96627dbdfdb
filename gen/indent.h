// Layout of what the emitters write: they break lines and leave the indentation to this.
#ifndef RPCRDMA_GEN_INDENT_H_
#define RPCRDMA_GEN_INDENT_H_

#include <string>
#include <string_view>

namespace rpcrdma::gen {

// Returns the same C++, each line indented as its braces and parentheses say: two columns for a
// block, four for a line that goes on. A block of one statement becomes one line if that is short.
std::string indented(std::string_view text);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_INDENT_H_
