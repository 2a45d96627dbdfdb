#include "tools/bench/allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> own_counter = 0;
std::atomic<std::atomic<std::uint64_t>*> counter = &own_counter;

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  counter.load(std::memory_order_relaxed)->fetch_add(1, std::memory_order_relaxed);
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size == 0 ? 1 : size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace rpcrdma::tools::bench {

std::uint64_t allocations() noexcept {
  return counter.load(std::memory_order_relaxed)->load(std::memory_order_relaxed);
}

void count_allocations_in(std::atomic<std::uint64_t>& shared) noexcept {
  counter.store(&shared, std::memory_order_relaxed);
}

}  // namespace rpcrdma::tools::bench

// The forms that are missing here call these.
void* operator new(std::size_t size) {
  return allocate_or_throw(size, 0);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
