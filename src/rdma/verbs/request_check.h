// Checks whether a request can be posted, before anything of its batch is.
#ifndef RPCRDMA_RDMA_VERBS_REQUEST_CHECK_H_
#define RPCRDMA_RDMA_VERBS_REQUEST_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "rdma/verbs/memory.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

class RequestCheck {
 public:
  // `is_open`: the connection carries work in both directions.
  RequestCheck(const Memory& memory, const Capabilities& capabilities, bool is_open)
      : memory_(memory), capabilities_(capabilities), is_open_(is_open) {}

  // Returns why the request cannot be posted; empty if it can.
  std::string_view fault_of(const work::Request& request);
  // Return how many of the checked requests were Receives, and exposures.
  std::size_t receives() const noexcept { return receives_; }
  std::size_t exposures() const noexcept { return exposures_; }

 private:
  std::string_view fault_of_slices(std::span<const Slice> slices, bool to_write,
                                   std::size_t max) const;

  const Memory& memory_;
  const Capabilities& capabilities_;
  const bool is_open_;
  std::size_t receives_ = 0, exposures_ = 0;
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_REQUEST_CHECK_H_
