#include "gen/c_number.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "gen/letters.h"

namespace rpcrdma::gen {
namespace {

using Number = std::optional<std::int64_t>;

constexpr int kDepthMax = 32;           // of parentheses
constexpr std::size_t kNamesMax = 200;  // that stand for each other
// More text than this, and eight times that in which names are, comes of names that double.
constexpr std::size_t kTextMax = 4096;

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

std::optional<bool> compared(std::string_view sign, std::int64_t a, std::int64_t b) {
  if (sign == "||") return a != 0 || b != 0;
  if (sign == "&&") return a != 0 && b != 0;
  if (sign == "==") return a == b;
  if (sign == "!=") return a != b;
  if (sign == "<=") return a <= b;
  if (sign == ">=") return a >= b;
  if (sign == "<") return a < b;
  if (sign == ">") return a > b;
  return std::nullopt;
}

Number applied(std::string_view sign, std::int64_t a, std::int64_t b) {
  if (const auto truth = compared(sign, a, b)) return *truth ? 1 : 0;
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

std::string_view word_at(std::string_view text) {
  const auto* const end = std::find_if_not(text.begin(), text.end(), is_word);
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

// Copies the text, and gives each word that is no number to `replace`, with what is behind it.
// `replace` returns what comes in its place, and takes from what is behind; nullopt ends it.
template <class Replace>
std::optional<std::string> replaced(std::string_view text, Replace replace) {
  std::string result;
  const std::size_t size_max = kTextMax + 8 * text.size();
  while (!text.empty()) {
    const std::string_view word = word_at(text);
    const std::string_view copied = word.empty() ? text.substr(0, 1) : word;
    text.remove_prefix(copied.size());
    if (word.empty() || is_digit(word[0])) {
      result += copied;
    } else {
      const std::optional<std::string> other = replace(word, text);
      if (!other) return std::nullopt;
      result += *other;
    }
    if (result.size() > size_max) return std::nullopt;
  }
  return result;
}

class Expression {
 public:
  explicit Expression(std::string_view text) : text_(text) {}

  Number whole() {
    const Number value = sum(0);
    skip();
    return text_.empty() ? value : std::nullopt;
  }

 private:
  // The weakest first. A sign stands behind those that begin with it.
  static constexpr std::array<std::array<std::string_view, 4>, 8> kSigns = {
      {{"||"}, {"&&"}, {"|"}, {"==", "!="}, {"<=", ">=", "<", ">"}, {"<<"}, {"+", "-"}, {"*"}}};

  // A line may go on in the next one.
  void skip() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n\\"), text_.size())); }
  bool accept(std::string_view sign) {
    skip();
    if (sign.empty() || !text_.starts_with(sign)) return false;
    if (sign == "|" && text_.starts_with("||")) return false;
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
    std::string signs;
    while (accept("!") || accept("-")) signs += *(text_.data() - 1);
    Number value = operand_behind_signs();
    std::reverse(signs.begin(), signs.end());
    for (const char sign : signs) {
      if (value) value = sign == '!' ? Number(*value == 0 ? 1 : 0) : applied("-", 0, *value);
    }
    return value;
  }
  Number operand_behind_signs() {
    if (accept("(")) {
      if (++depth_ > kDepthMax) return std::nullopt;
      const Number value = sum(0);
      --depth_;
      return accept(")") ? value : std::nullopt;
    }
    skip();
    const std::string_view word = word_at(text_);
    text_.remove_prefix(word.size());
    Integer number;
    return parse_integer(without_suffix(word), number) ? narrowed(number) : std::nullopt;
  }

  std::string_view text_;
  int depth_ = 0;
};

// `inside` are the names in whose text this is.
std::optional<std::string> expanded_inside(std::string_view text, const FindText& find,
                                           std::vector<std::string_view>& inside) {
  return replaced(
      text, [&](std::string_view word, std::string_view&) -> std::optional<std::string> {
        const bool stays = std::find(inside.begin(), inside.end(), word) != inside.end();
        const auto found = stays ? std::nullopt : find(word);
        if (!found) return std::string(word);
        if (inside.size() >= kNamesMax) return std::nullopt;
        inside.push_back(word);
        const auto other = expanded_inside(*found, find, inside);
        inside.pop_back();
        // Signs at its ends stay signs of their own.
        return other ? std::optional(' ' + *other + ' ') : std::nullopt;
      });
}

}  // namespace

std::optional<std::string> c_expanded(std::string_view text, const FindText& find,
                                      std::string_view name) {
  std::vector<std::string_view> inside{name};
  return expanded_inside(text, find, inside);
}

std::optional<std::string> c_condition(std::string_view text,
                                       const std::function<bool(std::string_view)>& is_defined) {
  return replaced(text,
                  [&](std::string_view word, std::string_view& rest) -> std::optional<std::string> {
                    if (word != "defined") return std::string(word);
                    rest = trimmed(rest);
                    const bool in_parentheses = rest.starts_with("(");
                    if (in_parentheses) rest = trimmed(rest.substr(1));
                    const std::string_view name = word_at(rest);
                    if (name.empty() || is_digit(name[0])) return std::nullopt;
                    rest.remove_prefix(name.size());
                    if (in_parentheses) {
                      rest = trimmed(rest);
                      if (!rest.starts_with(")")) return std::nullopt;
                      rest.remove_prefix(1);
                    }
                    return is_defined(name) ? "1" : "0";
                  });
}

std::optional<Integer> c_number(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;
  if (Integer number; parse_integer(without_suffix(text), number)) return number;
  const Number value = Expression(text).whole();
  // The lowest number has no counterpart.
  if (!value || *value == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
  const bool negative = *value < 0;
  return Integer{negative, static_cast<std::uint64_t>(negative ? -*value : *value)};
}

}  // namespace rpcrdma::gen
