#include "tools/text.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <optional>
#include <utility>

namespace rpcrdma::tools {
namespace {

struct CodePoint {
  std::uint32_t value;
  std::size_t size;  // bytes
};

// The first one (RFC 3629); nullopt: the text does not begin with UTF-8.
std::optional<CodePoint> first_of(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return CodePoint{lead, 1};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return std::nullopt;
  std::uint32_t value = lead & (0xffU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return std::nullopt;
    value = value << 6U | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < kLeast[size] || value > 0x10ffff || is_surrogate) return std::nullopt;
  return CodePoint{value, size};
}

// Moves the cursor, ends the line, changes its direction, or cannot be seen.
bool is_control(std::uint32_t value) noexcept {
  const auto in = [value](std::uint32_t first, std::uint32_t last) {
    return value >= first && value <= last;
  };
  return value < 0x20 || in(0x7f, 0x9f) || value == 0x61c || in(0x200b, 0x200f) ||
         in(0x2028, 0x202e) || in(0x2060, 0x206f) || value == 0xfeff;
}

std::string escape(std::string_view text, bool backslashes) {
  std::string out;
  while (!text.empty()) {
    const auto point = first_of(text);
    const std::size_t size = point ? point->size : 1;
    if (backslashes && text[0] == '\\') {
      out += "\\\\";
    } else if (point && !is_control(point->value)) {
      out += text.substr(0, size);
    } else {
      for (const char each : text.substr(0, size)) {
        out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(each));
      }
    }
    text.remove_prefix(size);
  }
  return out;
}

// Returns how many letters have to be put in, left out or exchanged.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t exchanged = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({exchanged, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

bool is_journal(int descriptor) {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  return stream != nullptr && ::fstat(descriptor, &status) == 0 &&
         fmt::format("{}:{}", status.st_dev, status.st_ino) == stream;
}

std::string failure_line(std::string_view text) {
  return (is_journal(STDERR_FILENO) ? "<3>" : "") + printable(text) + "\n";
}

std::string escaped(std::string_view name) {
  return escape(name, true);
}

std::string printable(std::string_view text) {
  return escape(text, false);
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const auto point = first_of(text);
    if (!point) return false;
    text.remove_prefix(point->size);
  }
  return true;
}

void add_name(Json& object, std::string_view name) {
  if (is_utf8(name)) {
    object.set("name", name);
  } else {
    object.set("name", escaped(name));
    object.set("escaped", true);
  }
}

void print_json(const Json& value) {
  fmt::print("{}\n", value.text());
}

std::string nearest(std::string_view word, const std::vector<std::string>& words) {
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 2) + 1;
  for (const std::string& each : words) {
    const bool begins = word.size() >= 2 && each.starts_with(word);
    const std::size_t here = begins ? 0 : distance(word, each);
    if (here >= least) continue;
    least = here;
    best = each;
  }
  return best;
}

Expected<std::string, std::string> text_of_file(const std::string& path, std::size_t size_max) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Unexpected<std::string>(std::strerror(errno));
  std::string text;
  // Not by iterators, which throw if a file fails when it is read.
  std::array<char, 4096> block{};
  do {
    file.read(block.data(), block.size());
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > size_max) {
      return Unexpected<std::string>(fmt::format("it is larger than {} KiB", size_max >> 10U));
    }
  } while (file);
  if (file.bad() || !file.eof()) return Unexpected<std::string>(std::strerror(errno));
  return text;
}

}  // namespace rpcrdma::tools
