#include "mount/buffer_pool.h"

#include <sys/mman.h>

#include <new>

namespace mounts {

BufferPool::BufferPool(std::size_t count, std::size_t size) : size_(size) {
  void* const memory = ::mmap(nullptr, count * size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = {static_cast<std::byte*>(memory), count * size};
  // The first one is taken first.
  for (std::size_t i = count; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
}

BufferPool::~BufferPool() {
  ::munmap(memory_.data(), memory_.size());
}

Buffer BufferPool::take() noexcept {
  if (free_.empty()) return {};
  const std::uint32_t at = free_.back();
  free_.pop_back();
  return {*this, at};
}

void BufferPool::give_back(std::uint32_t at) {
  free_.push_back(at);
  if (on_return_) on_return_();
}

}  // namespace mounts
