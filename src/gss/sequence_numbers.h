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
  // Returns whether another number may be taken: no more are under way than the server remembers,
  // and the oldest of those that it may judge late is half a window behind at most.
  bool may_take() const noexcept {
    const bool is_behind = !late_.empty() && next_ - late_.front() >= window_ / 2 + window_ % 2;
    return !used_up() && under_way_ < window_ && !is_behind;
  }
  // `may_be_late`: a long call, which is sealed while others are sent, and whose header the server
  // may see only when it has read all of it. Precondition: !used_up().
  std::uint32_t take(bool may_be_late) {
    ++under_way_;
    if (may_be_late) late_.push_back(next_);
    return next_++;
  }
  // No reply to this number is expected any more; once for each.
  void ended(std::uint32_t number) noexcept {
    --under_way_;
    const auto found = std::ranges::lower_bound(late_, number);
    if (found != late_.end() && *found == number) late_.erase(found);
  }
  std::uint32_t under_way() const noexcept { return under_way_; }

 private:
  const std::uint32_t window_;
  std::uint32_t next_;
  std::uint32_t under_way_ = 0;
  std::vector<std::uint32_t> late_;  // of those under way; ascending
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_SEQUENCE_NUMBERS_H_
