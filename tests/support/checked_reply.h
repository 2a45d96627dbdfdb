// Replies of which a test compares every value itself, part by part.
#ifndef RPCRDMA_TESTS_SUPPORT_CHECKED_REPLY_H_
#define RPCRDMA_TESTS_SUPPORT_CHECKED_REPLY_H_

#include "rpcrdma/call.h"

namespace rpcrdma::test {

// `read(reply)->xdr().u32("size")` reads a part of the results, which may end behind it.
class Part {
 public:
  explicit Part(Reply& reply) noexcept : reply_(reply), results_(reply.results()) {}
  ~Part() { reply_.ignore_rest(); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  MessageReader* operator->() noexcept { return &results_; }

 private:
  Reply& reply_;
  MessageReader& results_;
};

inline Part read(Reply& reply) noexcept {
  return Part(reply);
}

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_CHECKED_REPLY_H_
