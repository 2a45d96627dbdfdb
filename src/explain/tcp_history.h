// The last bytes of all streams of a capture, to compare retransmissions with.
#ifndef RPCRDMA_EXPLAIN_TCP_HISTORY_H_
#define RPCRDMA_EXPLAIN_TCP_HISTORY_H_

#include <cstdint>
#include <vector>

#include "rpcrdma/types.h"

namespace rpcrdma::explain {

// One ring for all connections, so that its memory goes to those that are busy and is bounded in
// all.
class TcpHistory {
 public:
  // Keeps these bytes until others have pushed them out. Returns their place.
  std::uint64_t keep(Bytes bytes);
  bool holds(std::uint64_t place) const noexcept { return end_ - place <= kSize; }
  // Returns how many of these bytes differ from those that are kept from this place on.
  std::uint32_t differing(std::uint64_t place, Bytes bytes) const;

 private:
  static constexpr std::size_t kSize = std::size_t{1} << 20U;

  std::vector<std::byte> ring_;
  std::uint64_t end_ = 0;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_TCP_HISTORY_H_
