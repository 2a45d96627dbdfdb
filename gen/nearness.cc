#include "gen/nearness.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "gen/lexer.h"

namespace rpcrdma::gen {
namespace {

bool is_alphabetic(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Small letters only.
std::string letters_of(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (is_alphabetic(c)) letters += static_cast<char>(c | 0x20);
  }
  return letters;
}

}  // namespace

int slips(std::string_view from, std::string_view to) {
  std::vector<int> before(to.size() + 1), row(to.size() + 1), next(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= from.size(); ++i) {
    next[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const int replaced = row[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before.swap(row);
    row.swap(next);
  }
  return row[to.size()];
}

std::string_view nearest_annotation(std::string_view text) {
  // Only the first of several annotations is compared, since a comment is recognised by it.
  const std::string_view part = trimmed(text.substr(0, text.find(',')));
  if (part.size() > 80) return {};
  const std::string_view head = trimmed(part.substr(0, part.find_first_of("<=")));
  const auto is_part_of_word = [](char c) { return is_alphabetic(c); };
  const std::string_view word = head.substr(
      0, static_cast<std::size_t>(std::ranges::find_if_not(head, is_part_of_word) - head.begin()));
  const std::string whole = letters_of(head), first = letters_of(word);
  if (first == "ddp" || (whole.size() >= 3 && slips(whole, "ddp") <= 1)) return "ddp";
  if (slips(whole, "nonidempotent") <= 2) return "non-idempotent";
  if (slips(whole, "resultsbyread") <= 2) return "results-by-read";
  if (slips(whole, "unbounded") <= 1) return "unbounded <= SIZE";
  return {};
}

}  // namespace rpcrdma::gen
