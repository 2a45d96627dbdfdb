// Memory for small messages, one room for each call slot.
#ifndef RPCRDMA_TRANSPORT_MESSAGE_ROOMS_H_
#define RPCRDMA_TRANSPORT_MESSAGE_ROOMS_H_

#include <cstddef>

#include "engine/dialect.h"
#include "rpcrdma/types.h"
#include "transport/pages.h"

namespace rpcrdma::transport {

// A connection registers all of it for as long as it lives. The content may outlive a connection
// and be sent again over the next one.
class MessageRooms {
 public:
  static constexpr std::size_t kSize = 2912;  // of each, bytes: 2 KiB of content and any RPC header

  explicit MessageRooms(std::size_t count) : size_(count * kStride), memory_(size_) {}

  // False: the system had no memory for it, and there are none.
  bool is_whole() const noexcept { return memory_.size() == size_; }
  MutableBytes memory() const noexcept { return memory_.bytes(); }
  // Returns where a room begins in memory(), bytes. In front of it there is place for a short
  // header.
  static constexpr std::size_t offset(std::size_t index) noexcept {
    return index * kStride + kHeaderRoomSize;
  }
  MutableBytes room(std::size_t index) const noexcept {
    return {memory_.data() + offset(index), kSize};
  }

 private:
  static constexpr std::size_t kHeaderRoomSize = 32;
  static_assert(kHeaderRoomSize >= engine::kShortHeaderSizeMax);
  static constexpr std::size_t kStride = kHeaderRoomSize + kSize;

  std::size_t size_;  // bytes
  Pages memory_;
};

}  // namespace rpcrdma::transport

#endif  // RPCRDMA_TRANSPORT_MESSAGE_ROOMS_H_
