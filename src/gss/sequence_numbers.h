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
  // Whether all calls under way stay inside the server's window if another number is taken. A call
  // that is still being sealed while later ones are sent may fall behind by half the window only,
  // since the server also pulls Long Calls and sees them after shorter ones.
  bool may_take() const noexcept {
    const bool is_behind = !unsent_.empty() && next_ - unsent_.front() >= (window_ + 1) / 2;
    return !used_up() && under_way_ < window_ && !is_behind;
  }
  // Precondition of both: !used_up().
  std::uint32_t take() {
    ++under_way_;
    unsent_.push_back(next_);
    return next_++;
  }
  // The message of this number has taken its place in the order of sending.
  void sent(std::uint32_t number) noexcept { std::erase(unsent_, number); }
  // No reply to this number is expected any more.
  void ended(std::uint32_t number) noexcept {
    --under_way_;
    sent(number);
  }
  std::uint32_t under_way() const noexcept { return under_way_; }

 private:
  const std::uint32_t window_;
  std::uint32_t next_;
  std::uint32_t under_way_ = 0;
  std::vector<std::uint32_t> unsent_;  // ascending; few but while long bodies are protected
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_SEQUENCE_NUMBERS_H_
