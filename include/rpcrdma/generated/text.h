// Text of values of generated types, for logs (docs/idl.md): {file: "a", offset: 1, how: GUARDED}.
// A file's fields header makes to_string() available for its types.
#ifndef RPCRDMA_GENERATED_TEXT_H_
#define RPCRDMA_GENERATED_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "rpcrdma/export.h"
#include "rpcrdma/generated/fields.h"
#include "rpcrdma/types.h"

namespace rpcrdma::codec {

// Appends <20 bytes: 00 01 02 …>, with at most the first 16.
RPCRDMA_EXPORT void append_bytes(std::string& out, Bytes value);
// Appends the text in quotes, with escapes, at most its first 256 bytes.
RPCRDMA_EXPORT void append_quoted(std::string& out, std::string_view value);
RPCRDMA_EXPORT void append_number(std::string& out, std::int64_t value);
RPCRDMA_EXPORT void append_number(std::string& out, std::uint64_t value);
RPCRDMA_EXPORT void append_number(std::string& out, double value);

// Appends the text of any value in a file: of a type, or of a member.
template <class T>
void append_text(std::string& out, const T& value);

struct VisitText {
  std::string& out;
  std::string_view separator = "{";

  template <class T>
  bool operator()(std::string_view name, const T& value) {
    out.append(separator).append(name).append(": ");
    append_text(out, value);
    separator = ", ";
    return true;
  }
};

template <class T>
void append_enumerator(std::string& out, T value) {
  fields(value, [&out](std::string_view name, T number) {
    out += name;
    if (name.empty()) append_number(out, static_cast<std::int64_t>(number));
    return true;
  });
}

template <class T>
void append_fields(std::string& out, const T& value) {
  VisitText visit{out};
  fields(value, visit);
  out += visit.separator == "{" ? "{}" : "}";
}

template <class List>
void append_list(std::string& out, const List& list) {
  std::string_view separator = "[";
  for (const auto& each : list) {
    out += separator;
    append_text(out, each);
    separator = ", ";
  }
  out += separator == "[" ? "[]" : "]";
}

template <class T>
void append_text(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    append_number(out, double{value});
  } else if constexpr (std::is_unsigned_v<T>) {
    append_number(out, std::uint64_t{value});
  } else if constexpr (std::is_integral_v<T>) {
    append_number(out, std::int64_t{value});
  } else if constexpr (std::is_enum_v<T>) {
    append_enumerator(out, value);
  } else if constexpr (HasFields<T>) {
    append_fields(out, value);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    append_quoted(out, value);
  } else if constexpr (std::is_convertible_v<const T&, Bytes>) {
    append_bytes(out, value);
  } else if constexpr (requires { value.has_value(); }) {  // std::optional, or a Box
    if (value.has_value()) {
      append_text(out, *value);
    } else {
      out += "none";
    }
  } else {
    append_list(out, value);
  }
}

// Returns the text of any value in a file. For a typedef of an array, text or bytes, which is no
// type of its own in C++, call it by its full name.
template <class T>
std::string text_of(const T& value) {
  std::string out;
  append_text(out, value);
  return out;
}

template <HasFields T>
std::string to_string(const T& value) {
  return text_of(value);
}

}  // namespace rpcrdma::codec

#endif  // RPCRDMA_GENERATED_TEXT_H_
