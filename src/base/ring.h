// A first-in first-out queue of bounded length, whose memory grows with what is in it.
#ifndef RPCRDMA_BASE_RING_H_
#define RPCRDMA_BASE_RING_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace rpcrdma {

// Holds at least `capacity` values (rounded up to a power of two). It begins with room for a few
// and doubles that when it has to, so that it allocates nothing once it was as long as it ever will
// be.
template <class T>
class Ring {
 public:
  explicit Ring(std::size_t capacity)
      : capacity_(std::bit_ceil(std::max<std::size_t>(capacity, 1))),
        mask_(std::min(capacity_, kRoomMin) - 1),
        values_(std::make_unique<T[]>(mask_ + 1)) {}

  std::size_t size() const noexcept { return tail_ - head_; }
  bool empty() const noexcept { return head_ == tail_; }
  bool full() const noexcept { return size() >= capacity_; }
  std::size_t capacity() const noexcept { return capacity_; }

  // Precondition of both: !full(). Queues are sized so that this holds; a peer cannot fill one.
  // References to values are good for reading, as far as T is copied by moving it, until they are
  // taken out.
  void push(T value) { extend() = std::move(value); }
  // One more value at the end, with whatever was there before: the caller sets all of it, in place.
  T& extend() {
    if (size() > mask_) [[unlikely]]
      grow();
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
  T& back() {
    RPCRDMA_ASSERT(!empty(), "back of an empty Ring");
    return values_[(tail_ - 1) & mask_];
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
  static constexpr std::size_t kRoomMin = 8;

  [[gnu::cold, gnu::noinline]] void grow() {
    RPCRDMA_ASSERT(!full(), "Ring is full");
    const std::size_t mask = 2 * mask_ + 1;
    auto values = std::make_unique<T[]>(mask + 1);
    for (std::size_t i = head_; i != tail_; ++i) values[i & mask] = std::move(values_[i & mask_]);
    outgrown_.push_back(std::exchange(values_, std::move(values)));
    mask_ = mask;
  }

  std::size_t capacity_;
  // Not a vector: its size would be computed by a multiplication, several times for each call.
  std::size_t mask_;  // one less than the room there is, a power of two
  std::unique_ptr<T[]> values_;
  std::size_t head_ = 0;  // both count up for ever; the difference is the size
  std::size_t tail_ = 0;
  // Kept, since a value may be looked at while others are added. Together less than values_.
  std::vector<std::unique_ptr<T[]>> outgrown_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_RING_H_
