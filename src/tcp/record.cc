#include "tcp/record.h"

#include <algorithm>

#include "base/assert.h"
#include "base/copy.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::tcp {

RecordMark mark_of(std::size_t size) noexcept {
  RPCRDMA_ASSERT(size <= kFragmentSizeMax, "a fragment larger than its mark can tell");
  RecordMark mark;
  xdr::store_word(mark.data(), kLastFragment | static_cast<std::uint32_t>(size));
  return mark;
}

std::size_t RecordReader::wanted() const noexcept {
  if (error_ != RecordError::kNone) return 0;
  return mark_size_ < kMarkSize ? kMarkSize - mark_size_ : fragment_left_;
}

std::size_t RecordReader::take(Bytes input) {
  std::size_t taken = 0;
  while (taken < input.size() && wanted() > 0) {
    const Bytes rest = input.subspan(taken);
    if (mark_size_ < kMarkSize) {
      taken += take_mark(rest);
      continue;
    }
    if (skips()) {
      taken += skip(rest);
      continue;
    }
    const MutableBytes room = place();
    if (room.empty()) break;
    const std::size_t size = std::min(room.size(), rest.size());
    copy_bytes(rest.first(size), room.data());
    handle_placed(size);
    taken += size;
  }
  return taken;
}

std::size_t RecordReader::take_mark(Bytes input) {
  const std::size_t size = std::min(kMarkSize - mark_size_, input.size());
  std::ranges::copy(input.first(size), mark_.begin() + static_cast<std::ptrdiff_t>(mark_size_));
  mark_size_ += size;
  if (mark_size_ == kMarkSize) begin_fragment();
  return size;
}

void RecordReader::begin_fragment() {
  const std::uint32_t mark = xdr::load_word(mark_.data());
  const std::uint32_t size = mark & ~kLastFragment;
  if (is_cut_ || size > limits_.size_max - size_) {
    if (limits_.excess == Excess::kRefused || size_ + skipped_ + size > kFragmentSizeMax) {
      error_ = RecordError::kTooLarge;
      return;
    }
    is_cut_ = true;
    judge_head();
    keep_head();
  }
  if (++fragments_ > limits_.fragments_max) {
    error_ = RecordError::kTooManyFragments;
    return;
  }
  last_ = (mark & kLastFragment) != 0;
  fragment_left_ = size;
  if (size == 0 && !last_) mark_size_ = 0;
}

MutableBytes RecordReader::place() {
  if (error_ != RecordError::kNone || mark_size_ < kMarkSize || fragment_left_ == 0 || skips()) {
    return {};
  }
  if (size_ == buffer_.size() && !grow()) return {};
  const std::size_t end = is_cut_ ? std::min(head_size(), buffer_.size()) : buffer_.size();
  return buffer_.subspan(size_, std::min<std::size_t>(fragment_left_, end - size_));
}

std::size_t RecordReader::skip(Bytes input) {
  keep_head();
  const std::size_t size = std::min<std::size_t>(fragment_left_, input.size());
  skipped_ += size;
  end_bytes(size);
  return size;
}

void RecordReader::handle_placed(std::size_t size) noexcept {
  if (size == 0) return;  // also inside of a mark
  size_ += size;
  end_bytes(size);
  if (is_cut_) judge_head();
}

// A message begins with its XID and its type (RFC 5531 §9).
void RecordReader::judge_head() noexcept {
  constexpr std::uint32_t kCall = 0, kReply = 1;
  if (size_ < 2 * xdr::kWordSize) return;
  const std::uint32_t wanted = limits_.excess == Excess::kCutCalls ? kCall : kReply;
  if (xdr::load_word(buffer_.data() + xdr::kWordSize) != wanted) error_ = RecordError::kTooLarge;
}

// Moves the head to a small buffer: the bytes that came before the record went over its limit may
// be in a large one, which others can use while the peer sends the rest for as long as it likes.
// Without memory for a small buffer the large one stays until there is.
void RecordReader::keep_head() {
  if (buffer_.size() <= kFirstSize) return;
  const MutableBytes smaller = memory_.take(head_size(), head_size());
  if (smaller.empty()) return;
  const std::size_t kept = std::min(size_, head_size());
  copy_bytes(Bytes(buffer_).first(kept), smaller.data());
  memory_.give_back(buffer_);
  buffer_ = smaller;
  skipped_ += size_ - kept;
  size_ = kept;
}

void RecordReader::end_bytes(std::size_t size) noexcept {
  fragment_left_ -= static_cast<std::uint32_t>(size);
  if (fragment_left_ == 0 && !last_) mark_size_ = 0;
}

bool RecordReader::grow() {
  const std::size_t size_max = is_cut_ ? head_size()
                               : last_ ? size_ + fragment_left_
                                       : limits_.size_max;
  const std::size_t size = std::min(size_max, std::max(kFirstSize, 4 * buffer_.size()));
  const MutableBytes larger = memory_.take(size, size_max);
  starved_ = larger.empty();
  if (starved_) return false;
  copy_bytes(Bytes(buffer_).first(size_), larger.data());
  if (!buffer_.empty()) memory_.give_back(buffer_);
  buffer_ = larger;
  return true;
}

Message RecordReader::release() noexcept {
  RPCRDMA_ASSERT(done(), "a record that is not complete");
  Message message(memory_, buffer_, size_, is_cut_);
  buffer_ = {};
  clear();
  return message;
}

void RecordReader::clear() noexcept {
  if (!buffer_.empty()) memory_.give_back(buffer_);
  buffer_ = {};
  size_ = mark_size_ = 0;
  fragment_left_ = fragments_ = 0;
  last_ = starved_ = is_cut_ = false;
  skipped_ = 0;
}

}  // namespace rpcrdma::tcp
