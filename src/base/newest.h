// The newest of many values, in memory that is bounded.
#ifndef RPCRDMA_BASE_NEWEST_H_
#define RPCRDMA_BASE_NEWEST_H_

#include <cstddef>
#include <span>
#include <vector>

namespace rpcrdma {

// Keeps `max` values at most: a further one takes the place of the oldest. Takes its memory with
// the first value.
template <class T>
class Newest {
 public:
  explicit Newest(std::size_t max) noexcept : max_(max) {}

  void note(const T& value) {
    if (values_.size() < max_) {
      values_.reserve(max_);
      values_.push_back(value);
    } else {
      values_[next_] = value;
    }
    next_ = (next_ + 1) % max_;
  }
  // Returns the newest value of which this is true; null: it is true of none.
  template <class Is>
  const T* find(Is&& is) const {
    for (std::size_t left = values_.size(), i = next_; left > 0; --left) {
      i = (i + max_ - 1) % max_;
      if (is(values_[i])) return &values_[i];
    }
    return nullptr;
  }
  std::span<const T> all() const noexcept { return values_; }  // in any order

 private:
  const std::size_t max_;
  std::vector<T> values_;
  std::size_t next_ = 0;  // where the next one goes
};

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_NEWEST_H_
