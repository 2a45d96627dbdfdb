// Unpredictable bits from the kernel, fetched in blocks.
#ifndef RPCRDMA_RDMA_SIWARP_ENTROPY_H_
#define RPCRDMA_RDMA_SIWARP_ENTROPY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/random.h"

namespace rpcrdma::rdma::siwarp {

// getrandom(2). Steering tags are drawn from it: a peer must not be able to guess them.
class SystemRandom final : public RandomSource {
 public:
  std::uint64_t next() override;

 private:
  std::array<std::uint64_t, 64> block_{};
  std::size_t used_ = 64;
};

}  // namespace rpcrdma::rdma::siwarp

#endif  // RPCRDMA_RDMA_SIWARP_ENTROPY_H_
