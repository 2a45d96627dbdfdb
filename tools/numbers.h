// Reads the numbers that options take.
#ifndef RPCRDMA_TOOLS_NUMBERS_H_
#define RPCRDMA_TOOLS_NUMBERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rpcrdma::tools {

// Bounds of a whole number; both belong to it.
struct Bounds {
  std::int64_t least = 0;
  std::uint64_t most = UINT64_MAX;
};

// Replaces "64k" or "0x10" by decimal digits. Returns the end of a sentence about an option, "takes
// a whole number from …, not '…'", and leaves the text, if it is no number within the bounds;
// empty: it is one. Only with `takes_units` may a unit stand behind the number.
std::string read_whole(std::string& text, const Bounds& bounds, bool takes_units);

// Does the same for a number that may have decimals, whose text stays as it is.
std::string problem_with_fraction(const std::string& text, double least, double most);

// Reads "65536" and "64k". Returns nothing if the text is no size.
std::optional<std::uint64_t> size_of(std::string_view text);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_NUMBERS_H_
