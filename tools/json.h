// Results as JSON (RFC 8259).
#ifndef RPCRDMA_TOOLS_JSON_H_
#define RPCRDMA_TOOLS_JSON_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace rpcrdma::tools {

// A value to be written: a number, a text, true, false, null, an array, or an object. An object is
// written in the order of its keys' bytes, unless it was made by ordered_object().
class Json {
 public:
  struct Member;

  Json();  // null
  ~Json();
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  Json(std::nullptr_t);
  Json(bool value);
  Json(int value);
  Json(unsigned int value);
  Json(long value);
  Json(unsigned long value);
  Json(double value);            // null if it is not finite
  Json(std::string_view value);  // a text; U+FFFD replaces what is not UTF-8
  Json(const char* value);
  Json(const std::string& value);
  Json(std::initializer_list<Member> members);  // an object

  static Json object();
  static Json ordered_object();  // written in the order in which its members were set
  static Json array();
  static Json array(const std::vector<std::string>& values);

  // Replaces a member of an object, or adds it.
  void set(std::string_view key, Json value);
  // Appends an element to an array.
  void push_back(Json value);

  // A member or an element; null if there is no such.
  const Json& operator[](std::string_view key) const;
  const Json& operator[](std::size_t index) const;
  bool is_null() const;

  // Returns the value in one line, without spaces.
  std::string text() const;
  // Returns the value with each member and element on a line of its own, indented by its depth.
  std::string lines() const;

 private:
  enum class Kind : std::uint8_t { kScalar, kArray, kObject, kOrderedObject };

  explicit Json(Kind kind);
  // `depth` below 0: in one line.
  void write(std::string& out, int depth) const;

  Kind kind_ = Kind::kScalar;
  std::string text_;             // of a scalar
  std::vector<Member> members_;  // the keys of an array are empty
};

struct Json::Member {
  std::string key;
  Json value;
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_JSON_H_
