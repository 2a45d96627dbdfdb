#include "tools/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace rpcrdma::tools {
namespace {

// The first character of a text in UTF-8 (RFC 3629). If the text begins with no valid character,
// the piece holds the bytes that could have begun one.
struct Piece {
  std::size_t size;
  bool is_character;
};

Piece first_piece(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xc2 || lead > 0xf4) return {1, false};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  // The second byte excludes long forms, surrogates, and what is beyond U+10FFFF.
  std::uint8_t least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  std::uint8_t most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (std::size_t i = 1; i < size; ++i) {
    if (i == text.size() || byte(i) < least || byte(i) > most) return {i, false};
    least = 0x80;
    most = 0xbf;
  }
  return {size, true};
}

void append_ascii(std::string& out, char letter) {
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto code = static_cast<std::uint8_t>(letter);
  if (const std::size_t at = kEscaped.find(letter); at != std::string_view::npos) {
    out += '\\';
    out += kLetters[at];
  } else if (code < 0x20) {
    out += "\\u00";
    out += kDigits[code >> 4U];
    out += kDigits[code & 0xfU];
  } else {
    out += letter;
  }
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const Piece piece = first_piece(text);
    if (!piece.is_character) {
      out += "\xef\xbf\xbd";
    } else if (piece.size == 1) {
      append_ascii(out, text[0]);
    } else {
      out += text.substr(0, piece.size);
    }
    text.remove_prefix(piece.size);
  }
  out += '"';
}

std::string quoted(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

// The fewest digits that make the same number again. Readers take 5.0 for a number with a fraction,
// and 5 for one without.
std::string number_text(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(value),
                                 std::chars_format::scientific);
  const std::string_view written(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t e = written.find('e');  // "1.25e-07"
  std::string digits(written.substr(0, e));
  std::erase(digits, '.');
  int exponent = 0;
  const std::size_t first = e + (written[e + 1] == '+' ? 2 : 1);
  std::from_chars(written.data() + first, end.ptr, exponent);
  std::string text = std::signbit(value) ? "-" : "";
  const auto count = static_cast<int>(digits.size());
  constexpr int kLeast = -4, kMost = 14;  // beyond these, powers of ten are shorter
  if (value == 0) return text + "0.0";
  if (exponent > kMost || exponent < kLeast) {
    text += digits[0];
    if (count > 1) text += "." + digits.substr(1);
    const std::string power = std::to_string(std::abs(exponent));
    return text + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) {
    return text + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  }
  if (count <= exponent + 1) {
    return text + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  }
  return text + digits.insert(static_cast<std::size_t>(exponent + 1), ".");
}

const Json& null() {
  static const Json kNull;
  return kNull;
}

}  // namespace

Json::Json() : text_("null") {}
Json::~Json() = default;
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::Json(std::nullptr_t) : Json() {}
Json::Json(Kind kind) : kind_(kind) {}
Json::Json(bool value) : text_(value ? "true" : "false") {}
Json::Json(int value) : text_(std::to_string(value)) {}
Json::Json(unsigned int value) : text_(std::to_string(value)) {}
Json::Json(long value) : text_(std::to_string(value)) {}
Json::Json(unsigned long value) : text_(std::to_string(value)) {}
Json::Json(double value) : text_(number_text(value)) {}
Json::Json(std::string_view value) : text_(quoted(value)) {}
Json::Json(const char* value) : Json(std::string_view(value)) {}
Json::Json(const std::string& value) : Json(std::string_view(value)) {}

Json::Json(std::initializer_list<Member> members) : Json(Kind::kObject) {
  for (const Member& each : members) set(each.key, each.value);
}

Json Json::object() {
  return Json(Kind::kObject);
}

Json Json::ordered_object() {
  return Json(Kind::kOrderedObject);
}

Json Json::array() {
  return Json(Kind::kArray);
}

Json Json::array(const std::vector<std::string>& values) {
  Json all = array();
  for (const std::string& each : values) all.push_back(each);
  return all;
}

void Json::set(std::string_view key, Json value) {
  const auto same = std::ranges::find(members_, key, &Member::key);
  if (same != members_.end()) {
    same->value = std::move(value);
    return;
  }
  const auto next = kind_ == Kind::kOrderedObject
                        ? members_.end()
                        : std::ranges::upper_bound(members_, key, {}, &Member::key);
  members_.insert(next, Member{std::string(key), std::move(value)});
}

void Json::push_back(Json value) {
  members_.push_back({{}, std::move(value)});
}

const Json& Json::operator[](std::string_view key) const {
  const auto found = std::ranges::find(members_, key, &Member::key);
  return found == members_.end() ? null() : found->value;
}

const Json& Json::operator[](std::size_t index) const {
  return index < members_.size() ? members_[index].value : null();
}

bool Json::is_null() const {
  return kind_ == Kind::kScalar && text_ == "null";
}

std::string Json::text() const {
  std::string out;
  write(out, -1);
  return out;
}

std::string Json::lines() const {
  std::string out;
  write(out, 0);
  return out;
}

void Json::write(std::string& out, int depth) const {
  if (kind_ == Kind::kScalar) {
    out += text_;
    return;
  }
  const bool is_array = kind_ == Kind::kArray;
  const bool has_lines = depth >= 0 && !members_.empty();
  const auto begin_line = [&](int indent) {
    if (has_lines) out += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
  };
  out += is_array ? '[' : '{';
  for (const Member& each : members_) {
    if (&each != &members_.front()) out += ',';
    begin_line(depth + 1);
    if (!is_array) {
      append_quoted(out, each.key);
      out += has_lines ? ": " : ":";
    }
    each.value.write(out, has_lines ? depth + 1 : -1);
  }
  begin_line(depth);
  out += is_array ? ']' : '}';
}

}  // namespace rpcrdma::tools
