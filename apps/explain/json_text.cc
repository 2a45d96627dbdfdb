#include "explain/json_text.h"

#include <fmt/core.h>

namespace explaining {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char each : text) {
    const auto code = static_cast<unsigned char>(each);
    if (each == '"' || each == '\\') {
      out += '\\';
      out += each;
    } else if (code < 0x20 || code == 0x7f) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += each;
    }
  }
  return out + "\"";
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char each : text) {
    switch (each) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += each;
    }
  }
  return out;
}

JsonObject& JsonObject::seconds(std::string_view key, std::int64_t nanoseconds) {
  constexpr std::int64_t kSecond = 1000000000;
  return raw(key, fmt::format("{}{}.{:09}", nanoseconds < 0 ? "-" : "",
                              (nanoseconds < 0 ? -nanoseconds : nanoseconds) / kSecond,
                              (nanoseconds < 0 ? -nanoseconds : nanoseconds) % kSecond));
}

JsonObject& JsonObject::raw(std::string_view key, std::string_view value) {
  if (text_.size() > 1) text_ += ',';
  text_ += json_string(key);
  text_ += ':';
  text_ += value;
  return *this;
}

}  // namespace explaining
