#include "tools/numbers.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>

namespace rpcrdma::tools {
namespace {

// Decimal, or hexadecimal behind 0x. A 0 in front changes nothing: "08" is 8.
template <class T>
std::optional<T> whole(std::string_view text) {
  const bool is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (is_hexadecimal) text.remove_prefix(2);
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, is_hexadecimal ? 16 : 10);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

// Returns the power of two that the unit stands for.
std::optional<unsigned> shift_of(std::string_view unit) {
  constexpr std::string_view kLetters = "kmgtpe";
  const auto lower = [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  };
  std::string small;
  for (const char each : unit) small += lower(each);
  if (small.empty() || small == "b") return 0;
  const std::size_t index = kLetters.find(small[0]);
  const std::string_view rest = std::string_view(small).substr(1);
  if (index == std::string_view::npos ||
      (!rest.empty() && rest != "b" && rest != "i" && rest != "ib")) {
    return std::nullopt;
  }
  return 10 * static_cast<unsigned>(index + 1);
}

bool is_within(const std::string& text, const Bounds& bounds) {
  if (const auto value = whole<std::uint64_t>(text)) {
    return *value <= bounds.most &&
           (bounds.least <= 0 || *value >= static_cast<std::uint64_t>(bounds.least));
  }
  const auto negative = whole<std::int64_t>(text);
  return negative && *negative < 0 && *negative >= bounds.least;
}

std::string expected(const Bounds& bounds, bool takes_units) {
  const std::string range = bounds.most == UINT64_MAX
                                ? fmt::format("of at least {}", bounds.least)
                                : fmt::format("from {} to {}", bounds.least, bounds.most);
  return takes_units ? fmt::format("a size {} bytes (it may end in k, m or g)", range)
                     : fmt::format("a whole number {}", range);
}

}  // namespace

std::optional<std::uint64_t> size_of(std::string_view text) {
  if (const auto plain = whole<std::uint64_t>(text)) return plain;
  std::size_t digits = text.find_first_not_of("0123456789");
  if (digits == std::string_view::npos) return std::nullopt;  // too large
  const auto number = whole<std::uint64_t>(text.substr(0, digits));
  while (digits < text.size() && text[digits] == ' ') ++digits;
  const auto shift = shift_of(text.substr(digits));
  if (!number || !shift || *number > UINT64_MAX >> *shift) return std::nullopt;
  return *number << *shift;
}

std::string read_whole(std::string& text, const Bounds& bounds, bool takes_units) {
  const auto size = takes_units ? size_of(text) : std::nullopt;
  const std::string digits = size ? std::to_string(*size) : text;
  if (!is_within(digits, bounds)) {
    return fmt::format("takes {}, not '{}'", expected(bounds, takes_units), text);
  }
  const auto value = whole<std::uint64_t>(digits);
  text = value ? std::to_string(*value) : digits;
  return {};
}

std::string problem_with_fraction(const std::string& text, double least, double most) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool is_number = !text.empty() && end == text.c_str() + text.size();
  // "nan" is neither below nor above the bounds.
  if (is_number && value >= least && value <= most) return {};
  return fmt::format("takes a number from {:g} to {:.0f}, not '{}'", least, most, text);
}

}  // namespace rpcrdma::tools
