// XDR (RFC 4506) over borrowed bytes: a Reader that remembers its first failure, and a Writer into
// the caller's memory. Neither allocates, throws or keeps a copy of its input.
#ifndef RPCRDMA_XDR_H_
#define RPCRDMA_XDR_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "rpcrdma/export.h"
#include "rpcrdma/types.h"

namespace rpcrdma::xdr {

enum class Errc : std::uint8_t {
  kTruncated,  // the input ends inside an item; for a Writer: the output is too small
  kBadBool,    // neither 0 nor 1 (RFC 4506 §4.4)
  kBadEnum,    // not a value of the enumeration, or not a discriminant of the union's arm
  kOverLimit,  // a count above what the protocol or the receiver allows
  kTrailing,   // bytes are left after the last item
};
// Static text.
RPCRDMA_EXPORT std::string_view to_string(Errc code) noexcept;

// Why, where and what. Comparison covers all three.
struct DecodeError {
  Errc code;
  std::size_t offset;      // bytes from the start of the input to the item that was refused
  std::string_view field;  // the name passed to the read; static text
  bool operator==(const DecodeError&) const = default;
};

inline constexpr std::size_t kWordSize = 4;  // bytes; every item is a multiple of it (RFC 4506 §3)

// Fill bytes after `size` bytes of opaque data: 0 to 3.
constexpr std::size_t pad_size(std::uint64_t size) noexcept {
  return static_cast<std::size_t>((0U - size) % kWordSize);
}
// `size` with its fill bytes. It has 64 bits everywhere: a count word of 4,294,967,295, which a
// peer may write, has 33 bits with its fill. Precondition: the sum can be represented.
constexpr std::uint64_t padded(std::uint64_t size) noexcept {
  return size + pad_size(size);
}
// Returns the same for bytes that are in memory, where no sum is too large for its type.
constexpr std::size_t padded_memory(std::size_t size) noexcept {
  return size + pad_size(size);
}

// One big-endian word at `at`, which has 4 bytes. For fixed layouts whose length was checked;
// otherwise use the Reader.
inline std::uint32_t load_word(const std::byte* at) noexcept {
  std::uint32_t value = 0;
  std::memcpy(&value, at, kWordSize);
  if constexpr (std::endian::native == std::endian::little) value = __builtin_bswap32(value);
  return value;
}
inline void store_word(std::byte* at, std::uint32_t value) noexcept {
  if constexpr (std::endian::native == std::endian::little) value = __builtin_bswap32(value);
  std::memcpy(at, &value, kWordSize);
}
// Returns whether these four words are zero.
inline bool are_four_zero(const std::byte* at) noexcept {
  std::uint64_t halves[2];
  std::memcpy(halves, at, sizeof halves);
  return (halves[0] | halves[1]) == 0;
}

// The alignment of a message's large items (RDMA_MSGP, RFC 5666 §3.9): fill bytes follow the count
// of each opaque<> and string<> above the threshold, up to the next multiple of the alignment.
struct Alignment {
  std::uint32_t alignment = 0;  // bytes; any number, 0 and 1: none
  std::uint32_t threshold = 0;  // bytes
  std::uint64_t start = 0;      // the position of the input's first byte for alignment, bytes
};

// Reads items one after another from `input`, which the caller keeps alive and unchanged while the
// Reader and the views that it returned are in use.
//
// A failure sticks: after the first one, every read returns zero, false or nothing, and consumes
// nothing. Zero means absent, empty or end of list in XDR, so a loop over a list ends by itself.
// The value decoded so far is then invalid; finish() and finish_all() return a value only if
// nothing failed. A count must be compared with its limit before it is used.
//
// `field` names an item in the error and must be static text.
class RPCRDMA_EXPORT Reader {
 public:
  explicit Reader(Bytes input) noexcept
      : begin_(input.data()), cursor_(begin_), end_(begin_ + input.size()), item_(begin_) {}

  // RFC 4506 §4.1, §4.2, §4.5: integers are big-endian. kTruncated.
  std::uint32_t u32(std::string_view field) noexcept {
    const std::byte* at = take(kWordSize, field);
    return at == nullptr ? 0 : load_word(at);
  }
  std::uint64_t u64(std::string_view field) noexcept {
    const std::byte* at = take(2 * kWordSize, field);
    return at == nullptr ? 0 : (std::uint64_t{load_word(at)} << 32U) | load_word(at + kWordSize);
  }
  std::int32_t i32(std::string_view field) noexcept {
    return static_cast<std::int32_t>(u32(field));
  }
  std::int64_t i64(std::string_view field) noexcept {
    return static_cast<std::int64_t>(u64(field));
  }
  // RFC 4506 §4.4. kTruncated, kBadBool.
  bool boolean(std::string_view field) noexcept {
    const std::uint32_t value = u32(field);
    if (value > 1) fail(Errc::kBadBool, field);
    return value == 1;
  }
  // RFC 4506 §4.10: a count word, that many bytes (at most `size_max`), fill bytes. The view points
  // into the input and excludes the fill, whatever that holds. kTruncated, kOverLimit.
  Bytes opaque(std::uint32_t size_max, std::string_view field) noexcept;
  // RFC 4506 §4.9: `size` bytes and fill bytes, no count word. kTruncated.
  Bytes opaque_fixed(std::uint32_t size, std::string_view field) noexcept;
  // Skips exactly this many bytes, without fill bytes. kTruncated.
  void skip(std::size_t size, std::string_view field) noexcept { (void)take(size, field); }
  // RFC 4506 §4.11: like opaque(); does not check for ASCII.
  std::string_view string(std::uint32_t size_max, std::string_view field) noexcept;

  // Makes opaque() and string() skip the fill bytes in front of aligned data from now on.
  void set_alignment(const Alignment& alignment) noexcept { alignment_ = alignment; }
  // Skips alignment before a counted item of this many bytes, after its count; opaque() does this
  // itself.
  void skip_alignment(std::uint32_t size, std::string_view field) noexcept {
    if (alignment_.alignment > 1 && size > alignment_.threshold) [[unlikely]]
      align(field);
  }

  // Refuses the item that was read last: for values that only the caller can check. The first
  // failure is kept.
  void fail(Errc code, std::string_view field) noexcept;

  bool ok() const noexcept { return ok_; }
  // Precondition: !ok(). The first failure.
  const DecodeError& error() const noexcept { return error_; }
  // Bytes consumed so far.
  std::size_t position() const noexcept { return static_cast<std::size_t>(cursor_ - begin_); }
  // The remaining bytes; empty after a failure. A view into the input.
  Bytes rest() const noexcept { return {cursor_, remaining()}; }

  // The decoded value, or the first failure. Bytes may be left over.
  template <class T>
  Expected<T, DecodeError> finish(T value) const {
    if (!ok_) return Unexpected<DecodeError>(error_);
    return value;
  }
  // Does the same, but refuses left-over bytes (kTrailing).
  template <class T>
  Expected<T, DecodeError> finish_all(T value) const {
    if (ok_ && remaining() != 0) {
      return Unexpected<DecodeError>(
          DecodeError{Errc::kTrailing, position(), "end of the message"});
    }
    return finish(std::move(value));
  }

 private:
  std::size_t remaining() const noexcept { return static_cast<std::size_t>(end_ - cursor_); }
  // The next `size` bytes, or null after failing with kTruncated.
  const std::byte* take(std::size_t size, std::string_view field) noexcept {
    item_ = cursor_;
    if (remaining() < size) [[unlikely]] {
      fail(Errc::kTruncated, field);
      return nullptr;
    }
    cursor_ += size;
    return item_;
  }

  void align(std::string_view field) noexcept;

  const std::byte* begin_;
  const std::byte* cursor_;  // begin_ <= cursor_ <= end_
  const std::byte* end_;     // moved to cursor_ by the first failure, so that reads need one check
  const std::byte* item_;    // the start of the item that was read last
  bool ok_ = true;
  Alignment alignment_;
  DecodeError error_{};  // meaningful when !ok_
};

// Writes items one after another into `output`, which the caller keeps alive as long as the Writer.
//
// A failure sticks here as well: an item that does not fit is not written, not even in part,
// nothing is written after it, and finish() reports it. Only the bytes up to position() are ever
// touched.
class RPCRDMA_EXPORT Writer {
 public:
  explicit Writer(MutableBytes output) noexcept : output_(output) {}

  void u32(std::uint32_t value) noexcept {
    if (std::byte* at = take(kWordSize)) store_word(at, value);
  }
  void u64(std::uint64_t value) noexcept {
    if (std::byte* at = take(2 * kWordSize)) {
      store_word(at, static_cast<std::uint32_t>(value >> 32U));
      store_word(at + kWordSize, static_cast<std::uint32_t>(value));
    }
  }
  // All of them or none.
  template <std::size_t Count>
  void words(const std::uint32_t (&values)[Count]) noexcept {
    if (std::byte* at = take(Count * kWordSize)) {
#pragma GCC unroll 16
      for (std::size_t i = 0; i < Count; ++i) store_word(at + i * kWordSize, values[i]);
    }
  }
  void i32(std::int32_t value) noexcept {
    u32(static_cast<std::uint32_t>(value));
  }
  void i64(std::int64_t value) noexcept {
    u64(static_cast<std::uint64_t>(value));
  }
  void boolean(bool value) noexcept {
    u32(value ? 1 : 0);
  }
  // Count word, bytes, zeroed fill. kOverLimit if the size exceeds a count word.
  void opaque(Bytes value) noexcept;
  // Bytes and zeroed fill, no count word.
  void opaque_fixed(Bytes value) noexcept;
  void string(std::string_view value) noexcept;

  // These serve data that stays in place and travels by reference: only the count word, and only
  // the zeroed fill, of an opaque of `size` bytes.
  void opaque_header(std::uint32_t size) noexcept {
    u32(size);
  }
  void pad_for(std::size_t size) noexcept {
    const std::size_t pad = pad_size(size);
    if (std::byte* at = take(pad)) std::memset(at, 0, pad);
  }

  // Continues in `output`, which has room for the bytes written so far; they are copied there.
  void move_to(MutableBytes output) noexcept {
    if (position_ > 0) std::memcpy(output.data(), output_.data(), position_);
    output_ = output;
  }

  bool ok() const noexcept {
    return ok_;
  }
  // Bytes written so far.
  std::size_t position() const noexcept {
    return position_;
  }
  // Bytes written, or the first failure (kTruncated, kOverLimit).
  Expected<std::size_t, Errc> finish() const noexcept {
    if (!ok_) return Unexpected<Errc>(error_);
    return position_;
  }

 private:
  // Returns where to write the next `size` bytes; null if size is 0, and after a failure.
  std::byte* take(std::size_t size) noexcept {
    if (size == 0) return nullptr;
    if (!ok_ || output_.size() - position_ < size) [[unlikely]] {
      fail(Errc::kTruncated);
      return nullptr;
    }
    std::byte* at = output_.data() + position_;
    position_ += size;
    return at;
  }
  void fail(Errc code) noexcept {
    if (!ok_) return;
    ok_ = false;
    error_ = code;
  }

  MutableBytes output_;
  std::size_t position_ = 0;  // <= output_.size()
  bool ok_ = true;
  Errc error_ = Errc::kTruncated;  // meaningful when !ok_
};

}  // namespace rpcrdma::xdr

#endif  // RPCRDMA_XDR_H_
