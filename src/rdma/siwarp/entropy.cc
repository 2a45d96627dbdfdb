#include "rdma/siwarp/entropy.h"

#include <sys/random.h>

#include <cerrno>
#include <utility>

#include "base/assert.h"

namespace rpcrdma::rdma::siwarp {

std::uint64_t SystemRandom::next() {
  if (used_ == block_.size()) {
    auto* at = reinterpret_cast<std::byte*>(block_.data());
    std::size_t left = sizeof(block_);
    while (left > 0) {
      const ssize_t got = getrandom(at, left, 0);
      RPCRDMA_ASSERT(got > 0 || errno == EINTR, "the kernel gives no random bytes");
      if (got <= 0) continue;
      at += got;
      left -= static_cast<std::size_t>(got);
    }
    used_ = 0;
  }
  // Not kept once given away.
  return std::exchange(block_[used_++], 0);
}

}  // namespace rpcrdma::rdma::siwarp
