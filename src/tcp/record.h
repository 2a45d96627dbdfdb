// Record marking (RFC 5531 §11): a message is sent as fragments, each behind a word that tells its
// size and whether it is the last one. No I/O.
#ifndef RPCRDMA_TCP_RECORD_H_
#define RPCRDMA_TCP_RECORD_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "rpcrdma/types.h"
#include "tcp/memory.h"

namespace rpcrdma::tcp {

inline constexpr std::size_t kMarkSize = 4;                   // bytes
inline constexpr std::uint32_t kLastFragment = 0x80000000U;   // in a mark
inline constexpr std::size_t kFragmentSizeMax = 0x7fffffffU;  // bytes
using RecordMark = std::array<std::byte, kMarkSize>;

// Returns the mark for a message that is sent as one fragment. Precondition: size <=
// kFragmentSizeMax.
RecordMark mark_of(std::size_t size) noexcept;

// Records over RecordLimits::size_max.
enum class Excess : std::uint8_t {
  kRefused,
  // A Call, or a Reply, is read to its end, and its head alone is kept: it tells by its XID which
  // call is concerned, and the connection goes on. Refused nevertheless are one over
  // kFragmentSizeMax, and what is no such message: strangers that speak another protocol announce
  // anything.
  kCutCalls,
  kCutReplies,
};
struct RecordLimits {
  std::uint32_t size_max = 1U << 20U;  // of all fragments together, bytes
  // Empty fragments count too: nothing else would bound how many there are.
  std::uint32_t fragments_max = 4096;
  Excess excess = Excess::kRefused;
};

enum class RecordError : std::uint8_t { kNone, kTooLarge, kTooManyFragments };

// Puts one record after the other together. Memory grows fourfold as bytes come: a peer that
// announces much and sends little gets little, unless Memory gives more than it is asked for.
class RecordReader {
 public:
  static constexpr std::size_t kFirstSize = 4096;  // bytes of a record's first buffer
  // Bytes of a record over its limit that are kept at least, if it may have so many: the longest
  // header of a Call takes 840 (RFC 5531 §8.2 and 9), that of a Reply less.
  static constexpr std::size_t kHeadSize = 1024;

  // `memory` outlives the reader.
  RecordReader(Memory& memory, const RecordLimits& limits) noexcept
      : memory_(memory), limits_(limits) {}
  ~RecordReader() { clear(); }
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // Returns how many bytes of the current mark or fragment are missing: a caller that reads no more
  // than these reads nothing behind the record. 0: done() or an error.
  std::size_t wanted() const noexcept;

  // Takes what it can use of `input`, and returns how many bytes that are. All of them, unless
  // the record ends before, there is no memory, or the record is refused.
  std::size_t take(Bytes input);

  // Returns the memory for the next bytes of the current fragment, so that they need not be copied:
  // handle_placed() then reports how many bytes were put there. Empty: a mark comes next, or the
  // record is done or refused, or skips(), or starved().
  MutableBytes place();
  void handle_placed(std::size_t size) noexcept;

  // The record is complete: release() it to go on with the next.
  bool done() const noexcept { return last_ && fragment_left_ == 0 && mark_size_ == kMarkSize; }
  Message release() noexcept;

  RecordError error() const noexcept { return error_; }
  // The record is over its limit and its head is here: take() throws away what comes of the rest.
  bool skips() const noexcept { return is_cut_ && size_ >= head_size() && fragment_left_ > 0; }
  bool is_cut() const noexcept { return is_cut_; }
  // There was no memory for the bytes that come next; take() and place() ask again.
  bool starved() const noexcept { return starved_; }
  // Nothing of the next record has come.
  bool at_start() const noexcept { return fragments_ == 0 && mark_size_ == 0; }
  // Forgets what has come of a record, and gives its memory back.
  void clear() noexcept;

 private:
  std::size_t head_size() const noexcept {
    return std::min<std::size_t>(kHeadSize, limits_.size_max);
  }
  std::size_t take_mark(Bytes input);
  std::size_t skip(Bytes input);
  void begin_fragment();
  void end_bytes(std::size_t size) noexcept;
  void judge_head() noexcept;
  void keep_head();
  bool grow();

  Memory& memory_;
  const RecordLimits limits_;
  RecordMark mark_{};
  std::size_t mark_size_ = 0;  // bytes of the mark that have come; kMarkSize: inside of a fragment
  std::uint32_t fragment_left_ = 0;  // bytes
  std::uint32_t fragments_ = 0;
  bool last_ = false;
  bool starved_ = false;
  bool is_cut_ = false;
  std::size_t skipped_ = 0;  // bytes of the message that are not in buffer_
  RecordError error_ = RecordError::kNone;
  MutableBytes buffer_;
  std::size_t size_ = 0;  // bytes of the message in buffer_
};

}  // namespace rpcrdma::tcp

#endif  // RPCRDMA_TCP_RECORD_H_
