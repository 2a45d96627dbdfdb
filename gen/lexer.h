// Words of the XDR and RPC languages (RFC 4506 §6, RFC 5531 §12), without comments, `%` lines and
// the directives of the C preprocessor that .x files have. An included file is read at its first
// #include, and not again.
#ifndef RPCRDMA_GEN_LEXER_H_
#define RPCRDMA_GEN_LEXER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gen/diagnostic.h"

namespace rpcrdma::gen {

// A number from -2^63 to 2^64 - 1.
struct Integer {
  bool negative = false;
  std::uint64_t magnitude = 0;
  bool operator==(const Integer&) const = default;
};

struct Token {
  enum class Kind : std::uint8_t { kName, kNumber, kCharacter, kText, kPunctuation, kEnd };

  Kind kind = Kind::kEnd;
  Location at;
  std::string_view text;  // of the source; empty at the end
  Integer number{};       // of kNumber, kCharacter, and of a name that is defined here
  bool defined = false;   // #define gives the name a number here

  bool is(std::string_view word) const { return kind != Kind::kEnd && text == word; }
};

// A comment that says something to the compiler, as docs/idl.md lists them.
struct Annotation {
  Location at;  // the whole comment
  std::string_view text;
  bool used = false;
};

// #define NAME NUMBER, which counts as a constant, with the number that it has at the end.
struct Define {
  std::string_view name;
  Location at;
  Integer value;
  bool gives_way = false;  // "%#define": what the language itself defines takes its place
};

struct Lexed {
  std::vector<Token> tokens;  // the last one is kEnd
  std::vector<Annotation> annotations;
  std::vector<Define> defines;
  bool has_c_headers = false;  // "%#include", which only rpcgen's output reads
};

struct Included {
  std::string name;  // as messages say it
  std::string text;
};

// Finds a file that another one includes, in quotes (which begins beside that one) or not.
using FindIncluded = std::function<std::optional<Included>(std::string_view from,
                                                           std::string_view path, bool in_quotes)>;

// Reads all files of the source, and adds those that they include.
Lexed lex(Source& source, Diagnostics& diagnostics, const FindIncluded& find = {});

// A number as RFC 4506 §6.2 writes it: decimal, hexadecimal or octal, with a sign or not.
bool parse_integer(std::string_view text, Integer& value);

// The bytes between spaces.
std::string_view trimmed(std::string_view text);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_LEXER_H_
