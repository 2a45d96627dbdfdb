// A file descriptor and its owner.
#ifndef RPCRDMA_STREAM_DESCRIPTOR_H_
#define RPCRDMA_STREAM_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace rpcrdma::stream {

class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int value) noexcept : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() { reset(); }

  explicit operator bool() const noexcept { return value_ >= 0; }
  int value() const noexcept { return value_; }
  // Whose it is then is up to the caller.
  int release() noexcept { return std::exchange(value_, -1); }
  void reset() noexcept {
    if (value_ >= 0) ::close(release());
  }

 private:
  int value_ = -1;  // -1: none
};

}  // namespace rpcrdma::stream

#endif  // RPCRDMA_STREAM_DESCRIPTOR_H_
