#include "explain/tcp_history.h"

#include <algorithm>
#include <cstring>

namespace rpcrdma::explain {

std::uint64_t TcpHistory::keep(Bytes bytes) {
  if (ring_.empty()) ring_.resize(kSize);
  const std::uint64_t place = end_;
  end_ += bytes.size();
  if (bytes.size() > kSize) return place;  // holds() denies it
  const std::size_t at = place % kSize;
  const std::size_t count = std::min(bytes.size(), kSize - at);
  std::memcpy(ring_.data() + at, bytes.data(), count);
  std::memcpy(ring_.data(), bytes.data() + count, bytes.size() - count);
  return place;
}

std::uint32_t TcpHistory::differing(std::uint64_t place, Bytes bytes) const {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < bytes.size() && holds(place); ++i) {
    if (ring_[(place + i) % kSize] != bytes[i]) ++count;
  }
  return count;
}

}  // namespace rpcrdma::explain
