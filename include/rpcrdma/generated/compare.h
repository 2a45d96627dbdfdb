// Comparison of values of generated types, member by member (docs/idl.md). A file's fields header
// makes operator== available for its types.
#ifndef RPCRDMA_GENERATED_COMPARE_H_
#define RPCRDMA_GENERATED_COMPARE_H_

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "rpcrdma/generated/fields.h"
#include "rpcrdma/types.h"

namespace rpcrdma::codec {

struct VisitEqual {
  template <class A, class B>
  bool operator()(std::string_view, const A& a, const B& b) const {
    if constexpr (std::is_same_v<A, Bytes>) {  // a view of DDP-eligible data
      return std::ranges::equal(a, b);
    } else {
      return a == b;
    }
  }
};

// Types of one file that can be compared: the same one, or a T and a WithReply<T>.
template <class B, class A>
concept ComparableWith = std::is_class_v<A> && std::is_class_v<B> &&
    (std::is_base_of_v<A, B> || std::is_base_of_v<B, A>)&&HasFields<A>&& HasFields<B>;

// Compares the fields, of a WithReply<T> those of T.
template <class A, ComparableWith<A> B>
bool operator==(const A& a, const B& b) {
  return fields(a, VisitEqual{}, b);
}

}  // namespace rpcrdma::codec

#endif  // RPCRDMA_GENERATED_COMPARE_H_
