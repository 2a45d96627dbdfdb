#include "support/hex.h"

#include <cctype>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace rpcrdma::test {
namespace {

unsigned digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  throw std::invalid_argument(std::string("not a hexadecimal digit: ") + c);
}

}  // namespace

std::vector<std::byte> hex(std::string_view text) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::isspace(static_cast<unsigned char>(text[i])) != 0) continue;
    if (text[i] == '#') {
      i = text.find('\n', i);
      if (i == std::string_view::npos) break;
      continue;
    }
    if (i + 1 == text.size()) throw std::invalid_argument("half a byte");
    out.push_back(static_cast<std::byte>(digit(text[i]) * 16 + digit(text[i + 1])));
    ++i;
  }
  return out;
}

std::vector<std::byte> load_hex(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return hex(text);
}

std::string to_hex(Bytes bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i != 0 && i % 4 == 0) out += ' ';
    const auto value = std::to_integer<unsigned>(bytes[i]);
    out += kDigits[value / 16];
    out += kDigits[value % 16];
  }
  return out;
}

}  // namespace rpcrdma::test
