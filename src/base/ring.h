// A first-in first-out queue whose memory is sized once.
#ifndef RPCRDMA_BASE_RING_H_
#define RPCRDMA_BASE_RING_H_

#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/assert.h"

namespace rpcrdma {

// Holds at least `capacity` values (rounded up to a power of two); never allocates afterwards.
template <class T>
class Ring {
 public:
  explicit Ring(std::size_t capacity)
      : mask_(std::bit_ceil(capacity == 0 ? std::size_t{1} : capacity) - 1),
        values_(std::make_unique<T[]>(mask_ + 1)) {}

  std::size_t size() const noexcept { return tail_ - head_; }
  bool empty() const noexcept { return head_ == tail_; }
  bool full() const noexcept { return size() > mask_; }
  std::size_t capacity() const noexcept { return mask_ + 1; }

  // Precondition: !full(). Queues are sized so that this holds; a peer cannot fill one.
  void push(T value) {
    RPCRDMA_ASSERT(!full(), "Ring is full");
    values_[tail_++ & mask_] = std::move(value);
  }
  // One more element at the end, with whatever it held before: the caller sets all of it, in place.
  // Precondition: !full().
  T& extend() {
    RPCRDMA_ASSERT(!full(), "Ring is full");
    return values_[tail_++ & mask_];
  }
  T& front() {
    RPCRDMA_ASSERT(!empty(), "front of an empty Ring");
    return values_[head_ & mask_];
  }
  const T& front() const {
    RPCRDMA_ASSERT(!empty(), "front of an empty Ring");
    return values_[head_ & mask_];
  }
  T& at(std::size_t index) {
    RPCRDMA_ASSERT(index < size(), "Ring index out of range");
    return values_[(head_ + index) & mask_];
  }
  T pop() {
    RPCRDMA_ASSERT(!empty(), "pop of an empty Ring");
    return std::move(values_[head_++ & mask_]);
  }
  // Takes the first away without looking at it.
  void drop() {
    RPCRDMA_ASSERT(!empty(), "drop of an empty Ring");
    ++head_;
  }
  // Takes out all that are like this, and keeps the order of the others.
  template <class Like>
  void remove_if(Like&& like) {
    for (std::size_t left = size(); left > 0; --left) {
      T value = pop();
      if (!like(value)) push(std::move(value));
    }
  }
  void clear() { head_ = tail_; }

 private:
  // Not a vector: its size would be computed by a multiplication, several times for each call.
  std::size_t mask_;  // one less than the number of values, a power of two
  std::unique_ptr<T[]> values_;
  std::size_t head_ = 0;  // both count up for ever; the difference is the size
  std::size_t tail_ = 0;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_RING_H_
