#include "gen/c_number.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "gen/letters.h"

namespace rpcrdma::gen {
namespace {

using Find = std::function<std::optional<Integer>(std::string_view)>;
using Number = std::optional<std::int64_t>;

constexpr int kDepthMax = 32;  // of parentheses

std::string_view without_suffix(std::string_view number) {
  constexpr std::string_view kSuffixes = "uUlL";
  while (!number.empty() && kSuffixes.find(number.back()) != std::string_view::npos) {
    number.remove_suffix(1);
  }
  return number;
}

Number narrowed(const Integer& value) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value.magnitude > kMax) return std::nullopt;
  const auto magnitude = static_cast<std::int64_t>(value.magnitude);
  return value.negative ? -magnitude : magnitude;
}

Number applied(std::string_view sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflows = false;
  if (sign == "|") {
    result = a | b;
  } else if (sign == "<<") {
    overflows = a < 0 || b < 0 || b > 62 || a > std::numeric_limits<std::int64_t>::max() >> b;
    if (!overflows) result = a << b;
  } else if (sign == "+") {
    overflows = __builtin_add_overflow(a, b, &result);
  } else if (sign == "-") {
    overflows = __builtin_sub_overflow(a, b, &result);
  } else {
    overflows = __builtin_mul_overflow(a, b, &result);
  }
  return overflows ? std::nullopt : Number(result);
}

class Expression {
 public:
  Expression(std::string_view text, const Find& find) : text_(text), find_(find) {}

  Number whole() {
    const Number value = sum(0);
    skip();
    return text_.empty() ? value : std::nullopt;
  }

 private:
  // The weakest first.
  static constexpr std::array<std::array<std::string_view, 2>, 4> kSigns = {
      {{"|", "|"}, {"<<", "<<"}, {"+", "-"}, {"*", "*"}}};

  // A line may go on in the next one.
  void skip() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n\\"), text_.size())); }
  bool accept(std::string_view sign) {
    skip();
    if (!text_.starts_with(sign)) return false;
    text_.remove_prefix(sign.size());
    return true;
  }
  Number sum(std::size_t level) {
    if (level == kSigns.size()) return operand();
    Number value = sum(level + 1);
    while (value) {
      const auto* const found =
          std::find_if(kSigns[level].begin(), kSigns[level].end(),
                       [this](std::string_view each) { return accept(each); });
      if (found == kSigns[level].end()) break;
      const Number other = sum(level + 1);
      value = other ? applied(*found, *value, *other) : std::nullopt;
    }
    return value;
  }
  Number operand() {
    if (accept("(")) {
      if (++depth_ > kDepthMax) return std::nullopt;
      const Number value = sum(0);
      --depth_;
      return accept(")") ? value : std::nullopt;
    }
    if (accept("-")) {
      const Number value = operand_behind_sign();
      return value ? applied("-", 0, *value) : std::nullopt;
    }
    return operand_behind_sign();
  }
  Number operand_behind_sign() {
    skip();
    const auto size = static_cast<std::size_t>(
        std::find_if_not(text_.begin(), text_.end(), is_word) - text_.begin());
    const std::string_view word = text_.substr(0, size);
    text_.remove_prefix(size);
    if (word.empty()) return std::nullopt;
    if (is_letter(word[0])) {
      const auto found = find_(word);
      return found ? narrowed(*found) : std::nullopt;
    }
    Integer number;
    return parse_integer(without_suffix(word), number) ? narrowed(number) : std::nullopt;
  }

  std::string_view text_;
  const Find& find_;
  int depth_ = 0;
};

}  // namespace

std::optional<Integer> c_number(std::string_view text, const Find& find) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;
  if (Integer number; parse_integer(without_suffix(text), number)) return number;
  if (auto known = find(text)) return known;
  const Number value = Expression(text, find).whole();
  // The lowest number has no counterpart.
  if (!value || *value == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
  const bool negative = *value < 0;
  return Integer{negative, static_cast<std::uint64_t>(negative ? -*value : *value)};
}

}  // namespace rpcrdma::gen
