// The memory of received messages.
#ifndef RPCRDMA_TCP_MEMORY_H_
#define RPCRDMA_TCP_MEMORY_H_

#include <cstddef>
#include <utility>

#include "rpcrdma/types.h"

namespace rpcrdma::tcp {

// Bounds what the messages of all connections take together.
class Memory {
 public:
  // Takes at least `size` bytes, which are the caller's until give_back(), for a message that needs
  // `whole` at most: a caller that gets as many needs no larger buffer for it. Empty: none is left;
  // memory may become free later.
  virtual MutableBytes take(std::size_t size, std::size_t whole) = 0;
  // Precondition: take() returned exactly this span.
  virtual void give_back(MutableBytes buffer) = 0;

 protected:
  ~Memory() = default;
};

// Takes memory from the heap, without a bound beyond that of each record.
class HeapMemory final : public Memory {
 public:
  MutableBytes take(std::size_t size, std::size_t /*whole*/) override {
    return {new std::byte[size], size};
  }
  void give_back(MutableBytes buffer) override { delete[] buffer.data(); }
};

// An RPC message, whole or cut, without record marks. Owns its memory, whose Memory outlives it.
class Message {
 public:
  Message() noexcept = default;
  Message(Memory& memory, MutableBytes buffer, std::size_t size, bool is_cut = false) noexcept
      : memory_(&memory), buffer_(buffer), size_(size), is_cut_(is_cut) {}
  Message(Message&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        buffer_(std::exchange(other.buffer_, {})),
        size_(std::exchange(other.size_, 0)),
        is_cut_(std::exchange(other.is_cut_, false)) {}
  Message& operator=(Message&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(buffer_, other.buffer_);
    std::swap(size_, other.size_);
    std::swap(is_cut_, other.is_cut_);
    return *this;
  }
  ~Message() {
    if (!buffer_.empty()) memory_->give_back(buffer_);
  }

  Bytes bytes() const noexcept { return Bytes(buffer_).first(size_); }
  // The message was over RecordLimits::size_max, and bytes() is its head.
  bool is_cut() const noexcept { return is_cut_; }

 private:
  Memory* memory_ = nullptr;  // null: no buffer
  MutableBytes buffer_;
  std::size_t size_ = 0;  // bytes of buffer_ that are the message
  bool is_cut_ = false;
};

}  // namespace rpcrdma::tcp

#endif  // RPCRDMA_TCP_MEMORY_H_
