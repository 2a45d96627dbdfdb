// The window of sequence numbers that a server has seen of a context (RFC 2203 §5.3.3.1).
#ifndef RPCRDMA_GSS_SEQUENCE_WINDOW_H_
#define RPCRDMA_GSS_SEQUENCE_WINDOW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"

namespace rpcrdma::gss {

class SequenceWindow {
 public:
  // `size`: a power of two, at least 64.
  explicit SequenceWindow(std::uint32_t size) : size_(size), seen_(size / kBits) {
    RPCRDMA_ASSERT(size >= kBits && (size & (size - 1)) == 0, "no size of a window");
  }

  std::uint32_t size() const noexcept { return size_; }
  // Marks the number as seen. False: it was seen before, or is older than the window. Call only
  // after the verifier was checked, since a forged call would move the window (RFC 2203 §5.3.3.1).
  bool take(std::uint32_t number) noexcept {
    const std::uint64_t at = std::uint64_t{number} + 1;  // 0 is a number, too
    if (at > end_) {
      if (at - end_ >= size_) {
        std::ranges::fill(seen_, 0);
      } else {
        for (std::uint64_t each = end_ + 1; each < at; ++each) clear(each);
      }
      end_ = at;
      set(at);
      return true;
    }
    if (end_ - at >= size_ || is_set(at)) return false;
    set(at);
    return true;
  }

 private:
  static constexpr std::uint32_t kBits = 64;

  std::uint64_t& word(std::uint64_t at) noexcept {
    return seen_[static_cast<std::size_t>((at / kBits) % seen_.size())];
  }
  static std::uint64_t bit(std::uint64_t at) noexcept { return std::uint64_t{1} << (at % kBits); }
  bool is_set(std::uint64_t at) noexcept { return (word(at) & bit(at)) != 0; }
  void set(std::uint64_t at) noexcept { word(at) |= bit(at); }
  void clear(std::uint64_t at) noexcept { word(at) &= ~bit(at); }

  const std::uint32_t size_;
  std::vector<std::uint64_t> seen_;  // a ring of bits
  std::uint64_t end_ = 0;            // one more than the highest number; 0: there was none
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_SEQUENCE_WINDOW_H_
