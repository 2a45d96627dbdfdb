// The sequence numbers that a client gives the calls of a context (RFC 2203 §5.3.3.1): a new one
// for each transmission. A server refuses numbers that are a window or more behind the highest one.
#ifndef RPCRDMA_GSS_SEQUENCE_NUMBERS_H_
#define RPCRDMA_GSS_SEQUENCE_NUMBERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gss/message.h"

namespace rpcrdma::gss {

class SequenceNumbers {
 public:
  // `first`: at most kSequenceMax.
  explicit SequenceNumbers(std::uint32_t window, std::uint32_t first = 1)
      : window_(std::max(window, 1U)), next_(first) {}

  // No number is left: another context is needed.
  bool used_up() const noexcept { return next_ >= kSequenceMax; }
  // Returns whether another number may be taken. One whose reply has not come is half a window
  // behind at most: the server judges the header of a call that it first has to pull, or that is
  // still being sealed here, after those of shorter calls with later numbers.
  bool may_take() const noexcept {
    const bool is_behind = !under_way_.empty() && next_ - under_way_.front() >= (window_ + 1) / 2;
    return !used_up() && !is_behind;
  }
  // Precondition: !used_up().
  std::uint32_t take() {
    under_way_.push_back(next_);
    return next_++;
  }
  // No reply to this number is expected any more.
  void ended(std::uint32_t number) noexcept {
    const auto found = std::ranges::lower_bound(under_way_, number);
    if (found != under_way_.end() && *found == number) under_way_.erase(found);
  }
  std::size_t under_way() const noexcept { return under_way_.size(); }

 private:
  const std::uint32_t window_;
  std::uint32_t next_;
  std::vector<std::uint32_t> under_way_;  // ascending; half a window at most, and one
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_SEQUENCE_NUMBERS_H_
