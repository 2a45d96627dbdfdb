#include "gen/indent.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rpcrdma::gen {
namespace {

enum class Block : std::uint8_t { kPlain, kNamespace, kSwitch, kCase };

class Indenter {
 public:
  void line(std::string_view text) {
    const std::size_t first = text.find_first_not_of(' ');
    text.remove_prefix(first == std::string_view::npos ? text.size() : first);
    if (!text.empty()) out_.append(columns(text), ' ');
    out_ += text;
    out_ += '\n';
    if (!text.starts_with('#') && !text.starts_with("//")) follow(text);
  }
  std::string take() { return std::move(out_); }

 private:
  static bool is_label(std::string_view text) {
    return text.starts_with("case ") || text.starts_with("default:");
  }

  std::size_t columns(std::string_view text) const {
    if (text.starts_with('#')) return 0;
    std::size_t open = blocks_.size();
    while (text.starts_with('}') && open > 0) {
      --open;
      text.remove_prefix(1);
    }
    std::size_t result = 0;
    for (std::size_t i = 0; i < open; ++i) {
      if (blocks_[i] == Block::kPlain || blocks_[i] == Block::kCase) result += 2;
      if (blocks_[i] != Block::kSwitch) continue;
      // A label's own line is a step further out than what it labels.
      const bool is_outer = (is_label(text) && i + 1 == open) ||
                            (i + 1 < blocks_.size() && blocks_[i + 1] == Block::kCase);
      result += is_outer ? 2 : 4;
    }
    if (text == "public:" || text == "private:") return result - 1;
    return result + (parentheses_ > 0 && !text.starts_with(')') ? 4 : 0);
  }

  void follow(std::string_view text) {
    char quote = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (quote != 0) {
        if (c == '\\') ++i;
        if (c == quote) quote = 0;
        continue;
      }
      if (c == '/' && text.substr(i).starts_with("//")) return;
      if (c == '"' || c == '\'') quote = c;
      if (c == '(') ++parentheses_;
      if (c == ')' && parentheses_ > 0) --parentheses_;
      if (c == '{') {
        blocks_.push_back(text.starts_with("namespace") ? Block::kNamespace
                          : text.starts_with("switch")  ? Block::kSwitch
                          : is_label(text)              ? Block::kCase
                                                        : Block::kPlain);
      }
      if (c == '}' && !blocks_.empty()) blocks_.pop_back();
    }
  }

  std::string out_;
  std::vector<Block> blocks_;
  std::size_t parentheses_ = 0;
};

std::string_view without_indent(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

bool is_label(std::string_view line) {
  return (line.starts_with("case ") || line.starts_with("default:")) && line.ends_with(':');
}

// Returns whether the line opens a function or a condition whose only statement may follow on the
// same line.
bool may_be_short(std::string_view line) {
  constexpr std::string_view kLong[] = {"namespace", "struct", "class", "enum",
                                        "switch",    "case ",  "do ",   "}"};
  return line.ends_with('{') &&
         std::ranges::none_of(kLong, [&](auto each) { return line.starts_with(each); });
}

bool is_statement(std::string_view line) {
  const bool is_whole = std::ranges::count(line, '{') == std::ranges::count(line, '}');
  return line.ends_with(';') && is_whole && !line.starts_with('}') && !line.starts_with("//");
}

// Joins blocks of one statement, and labels with theirs, where they fit in a line.
std::string joined(std::string_view text) {
  constexpr std::size_t kColumnsMax = 100;
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    out += lines[i];
    const std::string_view line = without_indent(lines[i]);
    const std::string_view next = i + 1 < lines.size() ? without_indent(lines[i + 1]) : "";
    const std::string_view end = i + 2 < lines.size() ? without_indent(lines[i + 2]) : "";
    const bool fits = lines[i].size() + next.size() + 3 <= kColumnsMax;
    if (fits && may_be_short(line) && is_statement(next) && end == "}") {
      out.append(" ").append(next).append(" }");
      i += 2;
    } else if (may_be_short(line) && next == "}") {
      out += '}';
      ++i;
    } else if (fits && is_label(line) && is_statement(next) && next.starts_with("return")) {
      out.append(" ").append(next);
      ++i;
    } else if (fits && is_label(line) && is_statement(next) && end == "break;") {
      out.append(" ").append(next).append(" break;");
      i += 2;
    }
    out += '\n';
  }
  return out;
}

}  // namespace

std::string indented(std::string_view text) {
  Indenter indenter;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    indenter.line(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return joined(indenter.take());
}

}  // namespace rpcrdma::gen
