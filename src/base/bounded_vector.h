// A vector with inline storage and a fixed bound; for trivially copyable values.
#ifndef RPCRDMA_BASE_BOUNDED_VECTOR_H_
#define RPCRDMA_BASE_BOUNDED_VECTOR_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "base/assert.h"

namespace rpcrdma {

// Holds up to Max values without allocating. Copying copies the values in use.
template <class T, std::size_t Max>
class BoundedVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Deliberately leaves the storage as it is: these live in large tables that should not be
  // touched.
  BoundedVector() noexcept {}
  BoundedVector(const BoundedVector& other) noexcept { *this = other; }
  BoundedVector& operator=(const BoundedVector& other) noexcept {
    if (this != &other) std::copy_n(other.values_.data(), other.size_, values_.data());
    size_ = other.size_;
    return *this;
  }
  ~BoundedVector() = default;

  static constexpr std::size_t capacity() noexcept { return Max; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  bool full() const noexcept { return size_ == Max; }

  // False, and unchanged, when full: a bound that a peer can reach is the caller's to answer.
  [[nodiscard]] bool push_back(const T& value) noexcept {
    if (size_ == Max) return false;
    values_[size_++] = value;
    return true;
  }
  // One more value at the end, with whatever was there before: the caller sets all of it, in place.
  // Precondition: !full().
  T& extend() noexcept {
    RPCRDMA_ASSERT(size_ < Max, "extend of a full BoundedVector");
    return values_[size_++];
  }
  // All or nothing.
  [[nodiscard]] bool assign(std::span<const T> values) noexcept {
    if (values.size() > Max) return false;
    for (std::size_t i = 0; i < values.size(); ++i) values_[i] = values[i];
    size_ = values.size();
    return true;
  }
  void pop_back() noexcept {
    RPCRDMA_ASSERT(size_ > 0, "pop_back of an empty BoundedVector");
    --size_;
  }
  void clear() noexcept { size_ = 0; }

  T& operator[](std::size_t index) noexcept {
    RPCRDMA_ASSERT(index < size_, "BoundedVector index out of range");
    return values_[index];
  }
  const T& operator[](std::size_t index) const noexcept {
    RPCRDMA_ASSERT(index < size_, "BoundedVector index out of range");
    return values_[index];
  }
  T& back() noexcept { return (*this)[size_ - 1]; }
  const T& back() const noexcept { return (*this)[size_ - 1]; }
  T* begin() noexcept { return values_.data(); }
  T* end() noexcept { return values_.data() + size_; }
  const T* begin() const noexcept { return values_.data(); }
  const T* end() const noexcept { return values_.data() + size_; }
  std::span<const T> view() const noexcept { return {values_.data(), size_}; }

 private:
  std::array<T, Max> values_;  // the first size_ are in use
  std::size_t size_ = 0;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_BOUNDED_VECTOR_H_
