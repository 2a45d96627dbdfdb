// Numbers and conditions as directives of C's preprocessor have them.
#ifndef RPCRDMA_GEN_C_NUMBER_H_
#define RPCRDMA_GEN_C_NUMBER_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "gen/lexer.h"

namespace rpcrdma::gen {

// Finds what #define puts in the place of a name; nullopt: the name stays.
using FindText = std::function<std::optional<std::string_view>(std::string_view name)>;

// Returns the text with names replaced, as text, and those in what takes their place: "A*2" is
// "2+3*2" if A is "2+3". As in C, a name stays inside of its own text, and so does `name`, whose
// text this is. nullopt if the result is far longer, or names stand for each other too deep.
std::optional<std::string> c_expanded(std::string_view text, const FindText& find,
                                      std::string_view name = {});

// Returns the value of a number, or of an expression of these with ! - * + << < > <= >= == != | &&
// || and parentheses, in 64 bits with a sign (a number alone may have 64 without); nullopt if the
// text is something else, or the value does not fit.
std::optional<Integer> c_number(std::string_view text);

// Returns the condition with 1 or 0 in the place of each defined(NAME) or defined NAME; nullopt if
// there is no name.
std::optional<std::string> c_condition(std::string_view text,
                                       const std::function<bool(std::string_view)>& is_defined);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_C_NUMBER_H_
