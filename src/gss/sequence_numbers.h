// The numbers that a client gives the calls of a context (RFC 2203 §5.3.3.1): a new one for each
// transmission. A server forgets numbers that are a window behind the last one it has seen.
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
  // `first` is for tests. Numbers below half of all are a client's to begin with.
  explicit SequenceNumbers(std::uint32_t window, std::uint32_t first = 1)
      : window_(std::max(window, 1U)), next_(first) {}

  // There are none left: another context is needed.
  bool used_up() const noexcept { return next_ >= kSequenceMax; }
  // Whether a further call keeps all that are under way inside of the server's window. One that is
  // still being sealed, while later ones go out, may fall behind by half of it: a server pulls long
  // Calls, and sees them behind shorter ones.
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
  // Its message has its place in the order of sending.
  void sent(std::uint32_t number) noexcept { std::erase(unsent_, number); }
  // Nothing will come for it any more.
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
