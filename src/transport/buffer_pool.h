// Memory for messages and bulk data, kept and used again: no allocation in steady state.
#ifndef RPCRDMA_TRANSPORT_BUFFER_POOL_H_
#define RPCRDMA_TRANSPORT_BUFFER_POOL_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rpcrdma/types.h"

namespace rpcrdma::transport {

// Hands out page-aligned buffers in sizes of powers of two from 4 KiB to 16 MiB and keeps what
// comes back. Belongs to one thread. Outlives the buffers that it gave.
class BufferPool {
 public:
  static constexpr std::size_t kSizeMin = 4096;
  static constexpr std::size_t kSizeMax = 16U << 20U;
  static constexpr std::size_t kSmallMax = 8192;
  // Returns how many bytes of a pool of `bytes_max` large buffers may use.
  static constexpr std::size_t large_bytes_max(std::size_t bytes_max) noexcept {
    return bytes_max - bytes_max / 8;
  }

  // Keeps something about buffers that lasts longer than their use.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // The memory goes back to the system now. Takes and gives back nothing.
    virtual void handle_freed(const std::byte* memory) = 0;
  };

  // Never holds more than `bytes_max` of buffers, in use and kept together. An eighth of it is only
  // for buffers of up to kSmallMax, so that bulk data cannot keep messages from being answered; it
  // is what they use first, so that they leave the rest to bulk data.
  explicit BufferPool(std::size_t bytes_max) noexcept : bytes_max_(bytes_max) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Takes at least `size` bytes, uninitialised; empty if that would exceed the bound or kSizeMax.
  // The buffer is the caller's until give_back().
  MutableBytes take(std::size_t size);
  // Precondition: take() gave exactly this span.
  void give_back(MutableBytes buffer);

  // A watcher is removed before it dies. Not told of what the destructor frees.
  void add_watcher(Watcher& watcher) { watchers_.push_back(&watcher); }
  void remove_watcher(Watcher& watcher) { std::erase(watchers_, &watcher); }

  // Returns whether buffers of these sizes could be taken if nothing else were in use. The argument
  // is the sum of large_size() of each.
  static constexpr std::size_t large_size(std::size_t size) noexcept {
    return size <= kSmallMax ? 0 : std::bit_ceil(size);
  }
  bool could_hold(std::size_t large_sizes) const noexcept {
    return large_sizes <= large_bytes_max(bytes_max_);
  }

  std::size_t bytes_held() const noexcept { return bytes_held_; }  // in use and kept
  std::size_t bytes_in_use() const noexcept { return bytes_in_use_; }
  // Returns how many buffers have come back since the start.
  std::uint64_t buffers_returned() const noexcept { return buffers_returned_; }

 private:
  static constexpr std::size_t kClasses = 13;  // 4 KiB << 0 … 4 KiB << 12
  static std::size_t class_of(std::size_t size) noexcept;
  bool has_room(std::size_t size) const noexcept;
  bool has_large_room(std::size_t size) const noexcept;
  bool make_room(std::size_t size, std::size_t except_class);

  const std::size_t bytes_max_;
  std::size_t bytes_held_ = 0;
  std::size_t large_held_ = 0;  // of these, above kSmallMax
  std::size_t bytes_in_use_ = 0;
  std::uint64_t buffers_returned_ = 0;
  std::array<std::vector<std::byte*>, kClasses> kept_;
  std::vector<Watcher*> watchers_;
};

}  // namespace rpcrdma::transport

#endif  // RPCRDMA_TRANSPORT_BUFFER_POOL_H_
