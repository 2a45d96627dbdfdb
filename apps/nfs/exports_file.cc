#include "nfs/exports_file.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>

#include "nfs/export_options.h"

namespace nfs {
namespace {

using rpcrdma::Unexpected;

constexpr std::string_view kBlanks = " \t\r";

std::string at_line(std::size_t number, const std::string& what) {
  return "line " + std::to_string(number) + ": " + what;
}

// The words of a file of exports, line by line.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  // Goes to the next line that has a word. False: there is none.
  bool next_line();
  // Goes to the next word of the line. False: there is none.
  bool next_word();
  // Reads that word, without its quotes.
  Parsed<std::string> read();
  // Returns the number of the line in which the last word that was read begins.
  std::size_t line() const noexcept { return line_of_word_; }

 private:
  // Returns the length of what continues a line here, or 0.
  std::size_t continuation() const noexcept;
  bool is_at_end() const noexcept { return rest_.empty() || rest_.front() == '\n'; }
  bool is_at_blank() const noexcept {
    return continuation() > 0 || kBlanks.find(rest_.front()) != std::string_view::npos;
  }
  void skip_one() noexcept;
  Parsed<char> read_octal();

  std::string_view rest_;
  std::size_t line_ = 1;
  std::size_t line_of_word_ = 1;
};

std::size_t Words::continuation() const noexcept {
  for (const std::string_view end : {"\\\n", "\\\r\n"}) {
    if (rest_.starts_with(end)) return end.size();
  }
  return rest_ == "\\" ? 1 : 0;  // nothing follows
}

void Words::skip_one() noexcept {
  const std::size_t size = std::max<std::size_t>(continuation(), 1);
  if (rest_[size - 1] == '\n') ++line_;
  rest_.remove_prefix(size);
}

bool Words::next_line() {
  while (!next_word()) {
    if (rest_.empty()) return false;
    skip_one();
  }
  return true;
}

bool Words::next_word() {
  while (!is_at_end() && is_at_blank()) skip_one();
  // A comment goes on where its line does.
  if (!is_at_end() && rest_.front() == '#') {
    while (!is_at_end()) skip_one();
  }
  line_of_word_ = line_;
  return !is_at_end();
}

Parsed<char> Words::read_octal() {
  constexpr std::size_t kDigits = 3;
  unsigned code = 0;
  const std::string_view digits = rest_.substr(1, kDigits);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 8);
  if (error != std::errc{} || digits.size() != kDigits || end != digits.data() + kDigits ||
      code == 0 || code > 255) {
    return Unexpected<std::string>("'\\' is followed by three octal digits, as in \\040");
  }
  rest_.remove_prefix(1 + kDigits);
  return static_cast<char>(code);
}

Parsed<std::string> Words::read() {
  std::string word;
  bool is_quoted = false;
  while (!is_at_end() && (is_quoted || (!is_at_blank() && rest_.front() != '#'))) {
    const char next = rest_.front();
    if (continuation() > 0) {
      word += ' ';
      skip_one();
    } else if (next == '\\') {
      const auto octal = read_octal();
      if (!octal) return Unexpected<std::string>(octal.error());
      word += *octal;
    } else {
      if (next == '"') {
        is_quoted = !is_quoted;
      } else {
        word += next;
      }
      rest_.remove_prefix(1);
    }
  }
  if (is_quoted)
    return Unexpected<std::string>("a second '\"' is missing behind " + in_quotes(word));
  return word;
}

// Says that options behind a blank are for everybody, as in exports(5), where a client was meant,
// perhaps.
std::string warning_of_options_alone(const Export& made, const std::string& options) {
  if (made.clients.empty()) {
    return in_quotes(options) + " names no client, so that everybody may mount " + made.directory +
           "; *" + options + " says the same without this warning";
  }
  const std::string& before = made.clients.back().text;
  return "the blank before " + in_quotes(options) + " opens " + made.directory +
         " to everybody with these options, and leaves " + before +
         " with the default ones; did you mean " + before + options + "?";
}

// Reads one line.
class Line {
 public:
  Line(Words& words, const HostLookup& look_up, ExportsFile& file)
      : words_(words), look_up_(look_up), file_(file) {
    defaults_.is_read_only = true;  // as in exports(5)
  }

  // Returns what is wrong with it, or nothing.
  std::string read();

 private:
  std::string take_top(const std::string& word);
  std::string take_word(const std::string& word);
  std::string take_client(const std::string& word);
  // Adds what is new among the warnings, with the number of the line.
  void pass_warnings_on();

  Words& words_;
  const HostLookup& look_up_;
  ExportsFile& file_;
  Export made_;
  ExportRules defaults_;
  std::vector<std::string> warnings_;
  std::size_t passed_on_ = 0;
};

void Line::pass_warnings_on() {
  for (; passed_on_ < warnings_.size(); ++passed_on_) {
    file_.warnings.push_back(at_line(words_.line(), warnings_[passed_on_]));
  }
}

std::string Line::take_top(const std::string& word) {
  if (!word.starts_with('/') && !is_elsewhere(word)) {
    return "the directory " + in_quotes(word) + " does not begin with '/'";
  }
  return take_directory(word, made_);
}

// "192.0.2.0/24(rw,all_squash)"
std::string Line::take_client(const std::string& word) {
  ExportClient client;
  client.rules = defaults_;
  const std::size_t open = word.find('(');
  if (open != std::string::npos && !word.ends_with(')')) {
    return "a ')' is missing behind " + in_quotes(word) + "; options have no blanks between";
  }
  client.text = open == 0 ? "*" : word.substr(0, open);
  auto addresses = parse_addresses(client.text, look_up_);
  if (!addresses) return addresses.error();
  client.addresses = std::move(*addresses);
  if (client.addresses.empty()) {
    warnings_.push_back("the name " + in_quotes(client.text) + " does not resolve, so that " +
                        made_.directory +
                        " is exported to nobody by it; names are looked up when the server "
                        "starts");
  }
  if (open != std::string::npos && word.size() > open + 2) {
    const std::string options = word.substr(open + 1, word.size() - open - 2);
    const std::string trouble = take_options(options, made_, client.rules, warnings_);
    if (!trouble.empty()) return trouble;
  }
  if (open == 0) warnings_.push_back(warning_of_options_alone(made_, word));
  made_.clients.push_back(std::move(client));
  return {};
}

std::string Line::take_word(const std::string& word) {
  if (!word.starts_with('-')) return take_client(word);
  const std::string trouble = take_options(word.substr(1), made_, defaults_, warnings_);
  return trouble.empty() ? trouble : "behind '-', " + trouble;
}

std::string Line::read() {
  for (bool is_first = true; is_first || words_.next_word(); is_first = false) {
    const auto word = words_.read();
    if (!word) return word.error();
    const std::string trouble = is_first ? take_top(*word) : take_word(*word);
    if (!trouble.empty()) return trouble;
    pass_warnings_on();
  }
  if (made_.clients.empty()) {
    return "nobody may use " + made_.directory + "; for all: " + made_.directory + " *(rw)";
  }
  if (std::string trouble = trouble_of(made_); !trouble.empty()) return trouble;
  const auto same = [&](const Export& other) { return other.name == made_.name; };
  if (std::ranges::any_of(file_.exports, same)) {
    return in_quotes(made_.name) + " is exported already; give it another name=/NAME";
  }
  file_.exports.push_back(std::move(made_));
  return {};
}

}  // namespace

Parsed<ExportsFile> parse_exports(std::string_view text, const HostLookup& look_up) {
  ExportsFile file;
  Words words(text);
  while (words.next_line()) {
    const std::string trouble = Line(words, look_up, file).read();
    if (!trouble.empty()) return Unexpected<std::string>(at_line(words.line(), trouble));
  }
  return file;
}

}  // namespace nfs
