// Buffers for Sends of more slices than the device takes: put together there.
//
// Messages have a few slices, and siw takes six; only what an application cut up into many small
// pieces comes here. Never data that is placed by Reads and Writes.
#ifndef RPCRDMA_RDMA_VERBS_BOUNCE_H_
#define RPCRDMA_RDMA_VERBS_BOUNCE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "rdma/verbs/memory.h"

namespace rpcrdma::rdma::verbs {

class Bounce {
 public:
  // 0: none; else the number of a buffer and one.
  enum class Place : std::uint32_t {};

  explicit Bounce(ibv_pd& domain) : domain_(domain) {}

  struct Taken {
    Place place;
    MutableBytes memory;
    std::uint32_t key;
  };
  // nullopt: the system has no memory to register.
  std::optional<Taken> take(std::size_t size);
  void give_back(Place place);
  std::uint64_t registrations() const noexcept { return registrations_; }

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size;
    MemoryRegion region;
    bool in_use;
  };
  ibv_pd& domain_;
  std::vector<Buffer> buffers_;
  std::uint64_t registrations_ = 0;
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_BOUNCE_H_
