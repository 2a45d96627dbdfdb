#include "tests/gen/live_memory.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

std::size_t live = 0;
std::size_t highest = 0;

void* take(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  live += ::malloc_usable_size(memory);
  highest = std::max(highest, live);
  return memory;
}
void give(void* memory) noexcept {
  if (memory == nullptr) return;
  live -= ::malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) {
  return take(size);
}
void* operator new[](std::size_t size) {
  return take(size);
}
void operator delete(void* memory) noexcept {
  give(memory);
}
void operator delete[](void* memory) noexcept {
  give(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  give(memory);
}

namespace rpcrdma::gen_test {

LiveMemory::LiveMemory() : before_(live) {
  highest = live;
}
std::size_t LiveMemory::peak() const {
  return highest - before_;
}

}  // namespace rpcrdma::gen_test
