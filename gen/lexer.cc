#include "gen/lexer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "gen/c_number.h"
#include "gen/letters.h"
#include "gen/nearness.h"

namespace rpcrdma::gen {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// Returns whether the text begins with the words of an annotation.
bool is_annotation(std::string_view text) {
  const auto begins = [text](std::string_view word) {
    return text.starts_with(word) && (text.size() == word.size() ||
                                      !(is_word(text[word.size()]) || text[word.size()] == '-'));
  };
  if (begins("unbounded")) return text.find("<=") != std::string_view::npos;
  const std::string_view first = trimmed(text.substr(0, text.find(',')));
  return first == "ddp" || first == "non-idempotent" || first == "results-by-read";
}

// rpcgen reads its input once for each file that it writes, with one of these set. All of them
// share the content of the header.
bool is_set_by_rpcgen(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"RPC_HDR", "RPC_XDR", "RPC_SVC", "RPC_CLNT",
                                                      "RPC_TBL"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// C's preprocessor, which rpcgen runs, has these of itself on some machines and not on others.
bool is_set_by_cpp(std::string_view name) {
  constexpr std::array<std::string_view, 16> kNames = {
      "linux",     "unix",       "i386",        "__linux__",       "__linux",  "__unix__",
      "__unix",    "__STDC__",   "__GNUC__",    "__i386__",        "__LP64__", "_LP64",
      "__APPLE__", "__x86_64__", "__aarch64__", "__STDC_VERSION__"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

constexpr std::size_t kIncludesMax = 200;

class Lexer {
 public:
  Lexer(Source& source, Diagnostics& diagnostics, const FindIncluded& find)
      : source_(source), diagnostics_(diagnostics), find_(find) {}

  Lexed run();

 private:
  struct Conditional {
    Location at;
    bool outer;       // what is around it is read
    bool taken;       // the branch that we are in is read
    bool ever_taken;  // one of the branches was
    bool has_else;
  };

  struct Macro {
    Define define;         // without its number
    std::string text;      // with the names in it, which C replaces where the macro is used
    std::size_t rank = 0;  // counts the macros before it
    bool was_number = false;
  };
  struct Use {
    Location at;
    std::string_view name;
  };

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool skipping() const { return !conditionals_.empty() && !conditionals_.back().taken; }
  // Returns the place of some bytes of the file that is being read.
  Location place(std::size_t start, std::size_t size) const { return {begin_ + start, size}; }
  void file(std::size_t number);
  void words();
  std::size_t end_of_line() const;
  std::string_view take_line();
  void comment();
  void line_comment();
  void annotation(Location at, std::string_view text);
  void percent_line();
  void directive();
  void include(Location at, std::string_view rest);
  void define(Location at, std::string_view rest);
  void undefine(std::string_view name);
  void warn_of_another(Location at, std::string_view name, const std::optional<Integer>& number);
  void warn_of_text(const Macro& macro);
  bool c_define(Location at, std::string_view line);
  std::optional<std::string_view> text_of(std::string_view name) const;
  std::optional<std::string> expanded(std::string_view text, std::string_view name = {}) const;
  std::optional<Integer> number_of(const Macro& macro) const;
  void resolve(Token& token);
  void list_defines();
  void condition(Location at, std::string_view name, std::string_view rest);
  bool holds(Location at, std::string_view name, std::string_view rest);
  std::optional<bool> evaluate(std::string_view expression) const;
  bool is_defined(std::string_view name) const;
  void warn_of_names_of_cpp(Location at, std::string_view condition);
  void number();
  void word();
  void text();
  void character();
  void punctuation();

  Source& source_;
  Diagnostics& diagnostics_;
  const FindIncluded& find_;
  // The file that is being read.
  std::string_view text_;
  std::size_t begin_ = 0;
  std::size_t at_ = 0;
  std::size_t outer_conditions_ = 0;  // those of the files around it
  bool line_start_ = true;
  bool warned_of_percent_ = false;
  std::vector<Conditional> conditionals_;
  // These count here: others may have counted above.
  std::map<std::string_view, Macro> macros_;
  std::size_t macros_seen_ = 0;
  std::vector<Use> without_number_;  // of macros
  Lexed out_;
};

// A backslash at the end of a line makes it go on in the next one.
std::size_t Lexer::end_of_line() const {
  std::size_t end = std::min(text_.find('\n', at_), text_.size());
  const auto goes_on = [&] {
    const std::size_t last = end > at_ && text_[end - 1] == '\r' ? end - 1 : end;
    return end < text_.size() && last > at_ && text_[last - 1] == '\\';
  };
  while (goes_on()) {
    end = std::min(text_.find('\n', end + 1), text_.size());
  }
  return end;
}

// The rest of the line, without comments at its end; stops before the newline.
std::string_view Lexer::take_line() {
  const std::size_t start = at_;
  const std::size_t end = end_of_line();
  std::string_view line = text_.substr(start, end - start);
  at_ = end;
  line = line.substr(0, line.find("//"));
  const std::size_t comment = line.find("/*");
  if (comment == std::string_view::npos) return line;
  // A comment may go on in the next line, so it is left to comment().
  at_ = start + comment;
  return line.substr(0, comment);
}

void Lexer::comment() {
  const std::size_t start = at_;
  const std::size_t end = text_.find("*/", at_ + 2);
  if (end == std::string_view::npos) {
    if (!skipping()) diagnostics_.error(place(start, 2), "this comment has no end; expected '*/'");
    at_ = text_.size();
    return;
  }
  at_ = end + 2;
  const std::string_view inner = trimmed(text_.substr(start + 2, end - start - 2));
  if (!skipping()) annotation(place(start, at_ - start), inner);
}

void Lexer::line_comment() {
  const std::size_t start = at_;
  at_ = std::min(text_.find('\n', at_), text_.size());
  const std::string_view inner = trimmed(text_.substr(start + 2, at_ - start - 2));
  annotation(place(start, at_ - start), inner);
}

// A slip would go unnoticed: the data would travel in messages, the call be repeated.
void Lexer::annotation(Location at, std::string_view text) {
  if (is_annotation(text)) {
    out_.annotations.push_back({at, text});
  } else if (const std::string_view near = nearest_annotation(text); !near.empty()) {
    diagnostics_.warning(at, fmt::format("this comment is nearly the annotation '{}', and says "
                                         "nothing as it is; write that, or other words",
                                         near));
  }
}

// "#define NAME NUMBER" of the C that rpcgen hands on is a constant, since files use it as one.
bool Lexer::c_define(Location at, std::string_view line) {
  constexpr std::string_view kDefine = "define";
  line = trimmed(line.substr(1));
  if (!line.starts_with(kDefine) || line.size() == kDefine.size() ||
      is_word(line[kDefine.size()])) {
    return false;
  }
  line = trimmed(line.substr(kDefine.size()));
  const std::size_t size =
      static_cast<std::size_t>(std::find_if_not(line.begin(), line.end(), is_word) - line.begin());
  const std::string_view name = line.substr(0, size);
  const std::string_view value = line.substr(size);
  const std::string_view number =
      trimmed(value.substr(0, std::min(value.find("/*"), value.find("//"))));
  // "NAME(" begins a macro with arguments, and '_' a name of C's own.
  if (name.empty() || name[0] == '_' || is_digit(name[0]) || value.starts_with("(")) return false;
  // rpcgen's preprocessor replaces names in this line, which is not a directive to it.
  auto text = expanded(number, name);
  if (!text || !c_number(*text)) return false;
  // C's own conditions are not read, so that the first of several counts.
  if (!is_defined(name)) {
    macros_[name] = {{name, at, {}, true}, std::move(*text), macros_seen_++, true};
  }
  return true;
}

void Lexer::percent_line() {
  const std::size_t start = at_;
  at_ = end_of_line();
  if (skipping()) return;
  const std::string_view line = trimmed(text_.substr(start + 1, at_ - start - 1));
  if (line.starts_with("#")) {
    if (c_define(place(start, 1), line)) return;
    out_.has_c_headers = out_.has_c_headers || trimmed(line.substr(1)).starts_with("include");
  }
  if (warned_of_percent_) return;
  warned_of_percent_ = true;
  diagnostics_.warning(place(start, 1),
                       "lines that begin with '%' are C for rpcgen's output; they are passed over");
}

bool Lexer::is_defined(std::string_view name) const {
  return is_set_by_rpcgen(name) || macros_.contains(name);
}

// Numbers, NAME, defined(NAME) and defined NAME, with ! == != < > <= >= && || and parentheses.
std::optional<bool> Lexer::evaluate(std::string_view expression) const {
  const auto asked =
      c_condition(expression, [this](std::string_view name) { return is_defined(name); });
  if (!asked) return std::nullopt;
  const auto text = expanded(*asked);
  if (!text) return std::nullopt;
  const auto digits = c_expanded(*text, [this](std::string_view name) {
    return is_defined(name) && !text_of(name) ? "1" : "0";
  });
  const auto number = digits ? c_number(*digits) : std::nullopt;
  if (!number) return std::nullopt;
  return number->magnitude != 0;
}

void Lexer::warn_of_names_of_cpp(Location at, std::string_view condition) {
  while (true) {
    const auto begin = std::find_if(condition.begin(), condition.end(), is_word);
    if (begin == condition.end()) return;
    const auto end = std::find_if_not(begin, condition.end(), is_word);
    const std::string_view name(begin, end);
    condition = std::string_view(end, condition.end());
    if (!is_set_by_cpp(name) || macros_.contains(name)) continue;
    diagnostics_.warning(
        at,
        fmt::format("'{0}' is not defined here, though rpcgen's preprocessor may define it; say "
                    "-D{0} if the file is meant so",
                    name));
  }
}

bool Lexer::holds(Location at, std::string_view name, std::string_view rest) {
  if (name == "else") return true;
  warn_of_names_of_cpp(at, rest);
  std::optional<bool> result;
  if (name == "ifdef" || name == "ifndef") {
    rest = trimmed(rest);
    if (rest.empty()) {
      diagnostics_.error(at, fmt::format("expected a name after #{}", name));
      return false;
    }
    result = is_defined(rest) == (name == "ifdef");
  } else {
    result = evaluate(rest);
  }
  if (result) return *result;
  diagnostics_.error(at,
                     "this condition is not understood; expected numbers, names and defined(NAME) "
                     "with ! && || == != < > and parentheses, or run the C preprocessor first");
  return false;
}

void Lexer::condition(Location at, std::string_view name, std::string_view rest) {
  if (name == "else" || name == "elif" || name == "endif") {
    if (conditionals_.size() == outer_conditions_) {
      return diagnostics_.error(at, fmt::format("#{} without an #if before it", name));
    }
    if (name == "endif") return conditionals_.pop_back();
    if (conditionals_.back().has_else) {
      diagnostics_.error(at, fmt::format("#{} behind the #else", name));
      return diagnostics_.note(conditionals_.back().at, "the condition begins here");
    }
  } else {
    conditionals_.push_back({at, !skipping(), false, false, false});
  }
  Conditional& innermost = conditionals_.back();
  innermost.has_else = name == "else";
  // The condition of a group that is skipped anyway need not make sense.
  innermost.taken = innermost.outer && !innermost.ever_taken && holds(at, name, rest);
  innermost.ever_taken = innermost.ever_taken || innermost.taken;
}

// Returns nullopt if #define says the name alone, too.
std::optional<std::string_view> Lexer::text_of(std::string_view name) const {
  const auto found = macros_.find(name);
  if (found == macros_.end() || found->second.text.empty()) return std::nullopt;
  return found->second.text;
}

std::optional<std::string> Lexer::expanded(std::string_view text, std::string_view name) const {
  return c_expanded(
      text, [this](std::string_view each) { return text_of(each); }, name);
}

// Returns the number that the macro has here.
std::optional<Integer> Lexer::number_of(const Macro& macro) const {
  const auto text = expanded(macro.text, macro.define.name);
  return text ? c_number(*text) : std::nullopt;
}

void Lexer::undefine(std::string_view name) {
  const auto found = macros_.find(name);
  if (found == macros_.end()) return;
  warn_of_text(found->second);
  macros_.erase(found);
}

// C's preprocessor goes on with the other number, and warns as well.
void Lexer::warn_of_another(Location at, std::string_view name,
                            const std::optional<Integer>& number) {
  const auto before = macros_.find(name);
  if (before == macros_.end() || before->second.define.gives_way) return;
  const std::optional<Integer> had = number_of(before->second);
  if (!had || had == number) return;
  diagnostics_.warning(
      at, fmt::format("'{}' is defined already, as another number; this one counts from here on",
                      name));
  diagnostics_.note(before->second.define.at, "this one counts down to there");
}

// The names in the text may be defined below it, so that this is known at the macro's end.
void Lexer::warn_of_text(const Macro& macro) {
  if (macro.text.empty() || macro.was_number || number_of(macro)) return;
  diagnostics_.warning(macro.define.at, fmt::format("'{}' is no number; only #ifdef will know it",
                                                    macro.define.name));
}

void Lexer::define(Location at, std::string_view rest) {
  rest = trimmed(rest);
  const std::size_t size =
      static_cast<std::size_t>(std::find_if_not(rest.begin(), rest.end(), is_word) - rest.begin());
  const std::string_view name = rest.substr(0, size);
  const std::string_view value = trimmed(rest.substr(size));
  if (name.empty()) return diagnostics_.error(at, "expected a name after #define");
  Macro added{{name, at, {}}, std::string(value), macros_seen_++};
  const std::optional<Integer> number = number_of(added);
  added.was_number = number.has_value();
  warn_of_another(at, name, number);
  undefine(name);
  macros_[name] = std::move(added);
}

// Gives a name the number that its macro has here.
void Lexer::resolve(Token& token) {
  const auto found = macros_.find(token.text);
  if (found == macros_.end()) return;
  Macro& macro = found->second;
  if (macro.define.gives_way || macro.text.empty()) return;
  if (const std::optional<Integer> number = number_of(macro)) {
    token.number = *number;
    token.defined = true;
    macro.was_number = true;
    return;
  }
  if (!macro.was_number) return without_number_.push_back({token.at, macro.define.name});
  diagnostics_.error(token.at, fmt::format("'{}' is no number any more: a name in it has another "
                                           "meaning here than above, or none",
                                           token.text));
  diagnostics_.note(macro.define.at, "it is defined here");
}

// Lists the macros that are numbers at the end, in the order in which they were defined.
void Lexer::list_defines() {
  std::vector<Macro*> macros;
  for (auto& [name, macro] : macros_) macros.push_back(&macro);
  std::sort(macros.begin(), macros.end(),
            [](const Macro* a, const Macro* b) { return a->rank < b->rank; });
  std::map<std::string_view, Location> listed;
  for (Macro* each : macros) {
    const std::optional<Integer> number = number_of(*each);
    if (!number) {
      warn_of_text(*each);
      continue;
    }
    each->define.value = *number;
    listed.emplace(each->define.name, each->define.at);
    out_.defines.push_back(each->define);
  }
  for (const Use& each : without_number_) {
    const auto found = listed.find(each.name);
    if (found == listed.end()) continue;
    diagnostics_.error(each.at,
                       fmt::format("'{}' is no number yet: it, or a name in it, is defined "
                                   "as one below only",
                                   each.name));
    return diagnostics_.note(found->second, "it is defined here");
  }
}

void Lexer::include(Location at, std::string_view rest) {
  const bool in_quotes = rest.starts_with("\"");
  const std::size_t end = rest.find(in_quotes ? '"' : '>', 1);
  if ((!in_quotes && !rest.starts_with("<")) || end == std::string_view::npos || end < 2) {
    return diagnostics_.error(at, "expected \"FILE\" or <FILE> after #include");
  }
  const std::string_view path = rest.substr(1, end - 1);
  auto found = find_ ? find_(source_.name_of(begin_), path, in_quotes) : std::nullopt;
  if (!found) {
    return diagnostics_.error(
        at, fmt::format("'{}' cannot be read; -I DIR names a folder to look in, and -D "
                        "NAME=NUMBER defines what a C header would",
                        path));
  }
  for (std::size_t i = 0; i < source_.files(); ++i) {
    if (source_.name(i) == found->name) return;  // it is here already, or goes round in a circle
  }
  if (source_.files() >= kIncludesMax) {
    return diagnostics_.error(at, fmt::format("more than {} files are included", kIncludesMax));
  }
  source_.include(std::move(found->name), std::move(found->text));
  file(source_.files() - 1);
}

void Lexer::directive() {
  const std::size_t start = at_++;
  while (peek() == ' ' || peek() == '\t') ++at_;
  const std::size_t name_start = at_;
  while (is_word(peek())) ++at_;
  const std::string_view name = text_.substr(name_start, at_ - name_start);
  // A path may have what begins a comment elsewhere.
  const std::string_view whole = text_.substr(at_, end_of_line() - at_);
  const std::string_view rest = take_line();
  const Location at = place(start, name_start + name.size() - start);
  constexpr std::array<std::string_view, 6> kConditions = {"if",   "ifdef", "ifndef",
                                                           "else", "elif",  "endif"};
  if (std::find(kConditions.begin(), kConditions.end(), name) != kConditions.end()) {
    return condition(at, name, rest);
  }
  if (skipping()) return;
  if (name == "define") return define(at, rest);
  if (name == "undef") {
    undefine(trimmed(rest));
    return;
  }
  // "# 1 "file"", which the C preprocessor leaves, and #pragma mean nothing to us.
  if (name == "pragma" || name == "line" || name == "ident" || name.empty() || is_digit(name[0])) {
    return;
  }
  if (name == "include") return include(at, trimmed(whole));
  diagnostics_.error(at, fmt::format("the directive #{} is not supported", name));
}

void Lexer::number() {
  const std::size_t start = at_++;
  while (is_word(peek())) ++at_;
  const std::string_view text = text_.substr(start, at_ - start);
  Token token{Token::Kind::kNumber, place(start, text.size()), text};
  if (!parse_integer(text, token.number)) {
    diagnostics_.error(token.at,
                       fmt::format("'{}' is not a number from -2^63 to 2^64 - 1 in decimal, "
                                   "hexadecimal (0x...) or octal (0...) digits",
                                   text));
  }
  out_.tokens.push_back(token);
}

void Lexer::word() {
  const std::size_t start = at_;
  while (is_word(peek())) ++at_;
  const std::string_view text = text_.substr(start, at_ - start);
  Token& added =
      out_.tokens.emplace_back(Token{Token::Kind::kName, place(start, text.size()), text});
  resolve(added);
}

void Lexer::text() {
  const std::size_t start = at_++;
  while (at_ < text_.size() && peek() != '"' && peek() != '\n')
    at_ += peek() == '\\' ? std::size_t{2} : std::size_t{1};
  at_ = std::min(at_, text_.size());
  if (peek() != '"')
    return diagnostics_.error(place(start, 1), "this text has no end; expected '\"'");
  ++at_;
  out_.tokens.push_back(
      {Token::Kind::kText, place(start, at_ - start), text_.substr(start, at_ - start)});
}

// 'a', which rpcgen's cases may be; it knows no escapes.
void Lexer::character() {
  const std::size_t start = at_++;
  const char c = peek();
  const bool is_printable = c >= ' ' && c < 0x7f && c != '\'' && c != '\\';
  if (!is_printable || peek(1) != '\'') {
    return diagnostics_.error(place(start, 1), "expected one ASCII character and a ' behind it");
  }
  at_ += 2;
  Token token{Token::Kind::kCharacter, place(start, at_ - start), text_.substr(start, at_ - start)};
  token.number = {false, static_cast<std::uint64_t>(c)};
  out_.tokens.push_back(token);
}

void Lexer::punctuation() {
  constexpr std::string_view kKnown = "{}()[]<>,;:=*";
  const std::size_t start = at_++;
  const Location at = place(start, 1);
  const char c = text_[start];
  if (kKnown.find(c) != std::string_view::npos) {
    out_.tokens.push_back({Token::Kind::kPunctuation, at, text_.substr(start, 1)});
    return;
  }
  const auto byte = static_cast<unsigned char>(c);
  diagnostics_.error(at,
                     byte > 0x20 && byte < 0x7f
                         ? fmt::format("'{}' has no meaning in the XDR language", c)
                         : fmt::format("byte 0x{:02x} has no meaning outside of comments", byte));
}

void Lexer::words() {
  while (at_ < text_.size() && diagnostics_.ok()) {
    const char c = peek();
    if (c == '\n') {
      line_start_ = true;
      ++at_;
    } else if (is_space(c)) {
      ++at_;
    } else if (c == '/' && peek(1) == '*') {
      comment();
    } else if (line_start_ && c == '#') {
      directive();
    } else if (line_start_ && c == '%') {
      percent_line();
    } else if (skipping()) {
      line_start_ = false;
      ++at_;
    } else if (c == '/' && peek(1) == '/') {
      line_comment();
    } else {
      line_start_ = false;
      if (is_digit(c) || (c == '-' && is_digit(peek(1)))) {
        number();
      } else if (is_letter(c)) {
        word();
      } else if (c == '"') {
        text();
      } else if (c == '\'') {
        character();
      } else {
        punctuation();
      }
    }
  }
}

// Reads a file, which another one may be in the middle of.
void Lexer::file(std::size_t number) {
  const auto around = std::tuple(text_, begin_, at_, line_start_, outer_conditions_);
  outer_conditions_ = conditionals_.size();
  text_ = source_.text(number);
  begin_ = source_.begin(number);
  at_ = 0;
  line_start_ = true;
  words();
  if (conditionals_.size() > outer_conditions_ && diagnostics_.ok()) {
    diagnostics_.error(conditionals_.back().at, "this condition has no end; expected #endif");
  }
  std::tie(text_, begin_, at_, line_start_, outer_conditions_) = around;
}

Lexed Lexer::run() {
  const std::size_t given = source_.files();
  for (std::size_t i = 0; i < given; ++i) file(i);
  const std::size_t end = source_.begin(given - 1) + source_.text(given - 1).size();
  out_.tokens.push_back({Token::Kind::kEnd, {end, 0}, {}});
  list_defines();
  return std::move(out_);
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool parse_integer(std::string_view text, Integer& value) {
  value = {};
  if (text.starts_with("-")) {
    value.negative = true;
    text.remove_prefix(1);
  }
  unsigned base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
    text.remove_prefix(1);
  }
  if (text.empty()) return false;
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  for (const char c : text) {
    const auto digit = static_cast<unsigned>(digit_of(c));
    if (digit >= base || value.magnitude > (kMax - digit) / base) return false;
    value.magnitude = value.magnitude * base + digit;
  }
  if (value.magnitude == 0) value.negative = false;
  return !value.negative || value.magnitude <= std::uint64_t{1} << 63U;
}

Lexed lex(Source& source, Diagnostics& diagnostics, const FindIncluded& find) {
  return Lexer(source, diagnostics, find).run();
}

}  // namespace rpcrdma::gen
