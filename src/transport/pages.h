// Memory of a connection that costs nothing where it is not used.
#ifndef RPCRDMA_TRANSPORT_PAGES_H_
#define RPCRDMA_TRANSPORT_PAGES_H_

#include <cstddef>
#include <utility>

#include "rpcrdma/types.h"

namespace rpcrdma::transport {

// Pages of the system's, zero until they are written, and given back with the object: of memory
// from the heap, what a connection has used stays with the process.
class Pages {
 public:
  Pages() = default;
  // `size` bytes; there are none, and size() is 0, where the system has no more.
  explicit Pages(std::size_t size) noexcept;
  ~Pages();
  Pages(Pages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  MutableBytes bytes() const noexcept { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace rpcrdma::transport

#endif  // RPCRDMA_TRANSPORT_PAGES_H_
