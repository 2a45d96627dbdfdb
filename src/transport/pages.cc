#include "transport/pages.h"

#include <sys/mman.h>

namespace rpcrdma::transport {

Pages::Pages(std::size_t size) noexcept {
  if (size == 0) return;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (memory == MAP_FAILED) return;
  // A huge page would make the places that nobody uses resident with the one that somebody does.
  // Where there are none this fails, which is as good.
  (void)::madvise(memory, size, MADV_NOHUGEPAGE);
  data_ = static_cast<std::byte*>(memory);
  size_ = size;
}

Pages::~Pages() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace rpcrdma::transport
