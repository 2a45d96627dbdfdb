// Text that goes into JSON and into HTML.
#ifndef RPCRDMA_APPS_EXPLAIN_JSON_TEXT_H_
#define RPCRDMA_APPS_EXPLAIN_JSON_TEXT_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace explaining {

// Returns the text, which is UTF-8, in quotes.
std::string json_string(std::string_view text);
// Escapes for the contents and the attributes of HTML and SVG.
std::string escaped(std::string_view text);

// Writes one object, member by member.
class JsonObject {
 public:
  JsonObject& text(std::string_view key, std::string_view value) {
    return raw(key, json_string(value));
  }
  JsonObject& number(std::string_view key, std::integral auto value) {
    return raw(key, std::to_string(value));
  }
  JsonObject& boolean(std::string_view key, bool value) {
    return raw(key, value ? "true" : "false");
  }
  // A duration or a time, in seconds with nine digits.
  JsonObject& seconds(std::string_view key, std::int64_t nanoseconds);
  JsonObject& raw(std::string_view key, std::string_view value);
  std::string str() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

}  // namespace explaining

#endif  // RPCRDMA_APPS_EXPLAIN_JSON_TEXT_H_
