#include "gen/diagnostic.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace rpcrdma::gen {
namespace {

constexpr std::size_t kLineShownMax = 200;  // bytes

std::string_view word_of(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "error";
}

bool is_printable(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte != 0x7f;
}

// The second byte of a character in UTF-8, or one after it: they take no column of their own.
bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80;
}

}  // namespace

void Source::add(std::string_view name, std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // some editors begin UTF-8 so
  // A byte lies between two files, so that the end of one is not the beginning of the next.
  const std::size_t begin =
      files_.empty() ? 0 : files_.back().begin + files_.back().text.size() + 1;
  files_.push_back({name, text, begin});
}

void Source::include(std::string name, std::string text) {
  const std::string& kept_name = owned_.emplace_back(std::move(name));
  add(kept_name, owned_.emplace_back(std::move(text)));
}

const Source::File& Source::at(std::size_t offset) const {
  const auto next =
      std::upper_bound(files_.begin(), files_.end(), offset,
                       [](std::size_t wanted, const File& each) { return wanted < each.begin; });
  return *std::prev(next);
}

std::string_view Source::before(std::size_t offset) const {
  const File& file = at(offset);
  return file.text.substr(0, std::min(offset - file.begin, file.text.size()));
}

std::size_t Source::line_of(std::size_t offset) const {
  const std::string_view text = before(offset);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
}

std::size_t Source::column_of(std::size_t offset) const {
  const std::string_view text = before(offset);
  const std::size_t newline = text.rfind('\n');
  return newline == std::string_view::npos ? text.size() + 1 : text.size() - newline;
}

bool Source::is_later_line(std::size_t before, std::size_t behind) const {
  return at(before).begin != at(behind).begin || end_of_line(before) < behind;
}

std::size_t Source::end_of_line(std::size_t offset) const {
  const File& file = at(offset);
  return file.begin + std::min(file.text.find('\n', offset - file.begin), file.text.size());
}

std::string Source::render(const Diagnostic& diagnostic) const {
  const std::size_t offset = diagnostic.at.offset;
  const std::size_t column = column_of(offset);
  const std::size_t start = before(offset).size() - (column - 1);
  std::string_view line = at(offset).text.substr(start);
  line = line.substr(0, line.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::string out = fmt::format("{}:{}:{}: {}: {}\n", name_of(offset), line_of(offset), column,
                                word_of(diagnostic.severity), diagnostic.text);
  if (line.size() > kLineShownMax) {
    if (column > kLineShownMax) return out;
    std::size_t size = kLineShownMax;
    while (size > column && is_continuation(line[size])) --size;
    line = line.substr(0, size);
  }
  std::string shown, marks;
  for (std::size_t i = 0; i < line.size(); ++i) {
    // Tabs stay tabs in both lines, so that the caret stands below its character.
    shown += is_printable(line[i]) || line[i] == '\t' ? line[i] : ' ';
    if (i + 1 < column && !is_continuation(line[i])) marks += line[i] == '\t' ? '\t' : ' ';
  }
  const std::size_t rest = line.size() >= column ? line.size() - (column - 1) : 0;
  const std::size_t tail = std::min(diagnostic.at.size, rest);
  marks += '^' + std::string(tail > 1 ? tail - 1 : 0, '~');
  return out + shown + "\n" + marks + "\n";
}

void Diagnostics::error(Location at, std::string text) {
  if (errors_++ < kErrorsMax) all_.push_back({Severity::kError, at, std::move(text)});
}

void Diagnostics::warning(Location at, std::string text) {
  if (warnings_++ < kWarningsMax) all_.push_back({Severity::kWarning, at, std::move(text)});
}

void Diagnostics::note(Location at, std::string text) {
  if (errors_ <= kErrorsMax) all_.push_back({Severity::kNote, at, std::move(text)});
}

}  // namespace rpcrdma::gen
