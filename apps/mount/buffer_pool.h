// A bounded number of pieces of memory of one size, which is registered once for RDMA.
#ifndef RPCRDMA_MOUNT_BUFFER_POOL_H_
#define RPCRDMA_MOUNT_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "rpcrdma/types.h"

namespace mounts {

class BufferPool;

// A piece of memory, which goes back to its pool; empty: there is none.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), at_(other.at_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(at_, other.at_);
    return *this;
  }
  ~Buffer();
  explicit operator bool() const noexcept { return pool_ != nullptr; }
  rpcrdma::MutableBytes memory() const noexcept;

 private:
  friend class BufferPool;
  Buffer(BufferPool& pool, std::uint32_t at) : pool_(&pool), at_(at) {}
  BufferPool* pool_ = nullptr;
  std::uint32_t at_ = 0;
};

class BufferPool {
 public:
  // `size` bytes each; the system gives memory to those that are used.
  BufferPool(std::size_t count, std::size_t size);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  Buffer take() noexcept;  // empty: all are in use
  std::size_t free_count() const noexcept { return free_.size(); }
  std::size_t count() const noexcept { return memory_.size() / size_; }
  // Returns whether those in use that can be spared should come back.
  bool is_nearly_taken() const noexcept { return free_count() <= count() / 4; }
  rpcrdma::MutableBytes all() const noexcept { return memory_; }
  // Runs whenever a buffer came back.
  void on_return(std::function<void()> function) { on_return_ = std::move(function); }

 private:
  friend class Buffer;
  void give_back(std::uint32_t at);

  const std::size_t size_;
  rpcrdma::MutableBytes memory_;
  std::vector<std::uint32_t> free_;
  std::function<void()> on_return_;
};

inline Buffer::~Buffer() {
  if (pool_ != nullptr) pool_->give_back(at_);
}
inline rpcrdma::MutableBytes Buffer::memory() const noexcept {
  return pool_->memory_.subspan(at_ * pool_->size_, pool_->size_);
}

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_BUFFER_POOL_H_
