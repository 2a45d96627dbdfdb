#include "transport/buffer_pool.h"

#include <bit>
#include <new>

#include "base/assert.h"

namespace rpcrdma::transport {
namespace {

constexpr std::align_val_t kAlignment{4096};

void free_buffer(std::byte* memory) {
  ::operator delete(memory, kAlignment);
}

}  // namespace

BufferPool::~BufferPool() {
  RPCRDMA_ASSERT(bytes_in_use_ == 0, "a buffer outlives its pool");
  for (auto& kept : kept_) {
    for (std::byte* memory : kept) free_buffer(memory);
  }
}

std::size_t BufferPool::class_of(std::size_t size) noexcept {
  const std::size_t rounded = std::bit_ceil(size < kSizeMin ? kSizeMin : size);
  return static_cast<std::size_t>(std::countr_zero(rounded) - std::countr_zero(kSizeMin));
}

MutableBytes BufferPool::take(std::size_t size) {
  if (size > kSizeMax) return {};
  const std::size_t index = class_of(size);
  const std::size_t bytes = kSizeMin << index;
  auto& kept = kept_[index];
  std::byte* memory = nullptr;
  if (!kept.empty()) {
    memory = kept.back();
    kept.pop_back();
  } else {
    if (!make_room(bytes, index)) return {};
    // Room to keep every buffer of the class, so that giving one back never allocates. This comes
    // first, since it may throw, and nobody would free the buffer then.
    kept.reserve((bytes_held_ + bytes) / bytes + 1);
    memory = static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow));
    if (memory == nullptr) return {};
    bytes_held_ += bytes;
    large_held_ += large_size(bytes);
  }
  bytes_in_use_ += bytes;
  return {memory, bytes};
}

void BufferPool::give_back(MutableBytes buffer) {
  RPCRDMA_ASSERT(bytes_in_use_ >= buffer.size(), "a buffer comes back twice");
  bytes_in_use_ -= buffer.size();
  ++buffers_returned_;
  kept_[class_of(buffer.size())].push_back(buffer.data());
}

bool BufferPool::has_room(std::size_t size) const noexcept {
  return bytes_held_ + size <= bytes_max_ && has_large_room(size);
}

bool BufferPool::has_large_room(std::size_t size) const noexcept {
  return size <= kSmallMax || large_held_ + size <= large_bytes_max(bytes_max_);
}

// Frees kept buffers of other sizes until `size` more bytes are within the bound.
bool BufferPool::make_room(std::size_t size, std::size_t except_class) {
  for (std::size_t index = kClasses; index-- > 0 && !has_room(size);) {
    if (index == except_class) continue;
    const bool is_small = large_size(kSizeMin << index) == 0;
    if (is_small && !has_large_room(size)) break;  // they have an eighth of their own
    auto& kept = kept_[index];
    while (!kept.empty() && !has_room(size)) {
      for (Watcher* watcher : watchers_) watcher->handle_freed(kept.back());
      free_buffer(kept.back());
      kept.pop_back();
      bytes_held_ -= kSizeMin << index;
      large_held_ -= large_size(kSizeMin << index);
    }
  }
  return has_room(size);
}

}  // namespace rpcrdma::transport
