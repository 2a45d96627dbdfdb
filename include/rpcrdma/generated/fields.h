// The contract of the functions that rpcrdma-gen --fields writes (docs/idl.md): for each type of a
// file one function, found by argument-dependent lookup.
//
//   bool fields(const T& value, auto&& visit, const auto&... others);
//
// It calls visit(NAME, MEMBER of value, MEMBER of each other) once for each member, in the file's
// order. A union visits its discriminant, then the arm that is set. An enumeration visits its value
// once, by the name of its enumerator, or by "" if it is none of the file's. It stops and returns
// false when the visitor returns false; a visitor of several values must do so when their
// discriminants differ.
#ifndef RPCRDMA_GENERATED_FIELDS_H_
#define RPCRDMA_GENERATED_FIELDS_H_

#include <string_view>
#include <type_traits>

namespace rpcrdma::codec {

struct VisitNothing {
  template <class... Members>
  bool operator()(std::string_view, const Members&...) const noexcept {
    return true;
  }
};

// A type of a file whose fields header is included.
template <class T>
concept HasFields = (std::is_class_v<T> || std::is_enum_v<T>)&&requires(const T& value,
                                                                        VisitNothing visit) {
  fields(value, visit);
};

}  // namespace rpcrdma::codec

#endif  // RPCRDMA_GENERATED_FIELDS_H_
