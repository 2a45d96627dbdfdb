// Numbers as #define has them in C.
#ifndef RPCRDMA_GEN_C_NUMBER_H_
#define RPCRDMA_GEN_C_NUMBER_H_

#include <functional>
#include <optional>
#include <string_view>

#include "gen/lexer.h"

namespace rpcrdma::gen {

// Returns the value of a number, a name that `find` knows, or an expression of these with + - * <<
// | and parentheses, in 64 bits with a sign (a number alone may have 64 without); nullopt if the
// text is something else, or the value does not fit.
std::optional<Integer> c_number(
    std::string_view text, const std::function<std::optional<Integer>(std::string_view)>& find);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_C_NUMBER_H_
