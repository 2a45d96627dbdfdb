// What code that rpcrdma-gen made is built on: XDR items (RFC 4506) as C++ values, with every limit
// checked, and values as bytes.
//
//   std::vector<std::byte> bytes = rpcrdma::to_bytes(value);
//   auto back = rpcrdma::from_bytes<greeting::Name>(bytes);      // Expected<Name, DecodeError>
//
// Decoding N bytes takes at most a small multiple of N of memory (docs/idl.md), whatever is in
// them.
#ifndef RPCRDMA_GENERATED_CODEC_H_
#define RPCRDMA_GENERATED_CODEC_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rpcrdma/export.h"
#include "rpcrdma/message.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma {

// An optional value on the heap: for types that contain themselves, and for large ones that are
// often absent. Copies are deep. Access needs a value, as with std::optional.
template <class T>
class Box {
 public:
  Box() noexcept = default;
  Box(T value) : value_(std::make_unique<T>(std::move(value))) {}  // implicit, as std::optional
  Box(const Box& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Box(Box&& other) noexcept = default;
  Box& operator=(const Box& other) {
    if (this != &other) value_ = other.value_ ? std::make_unique<T>(*other.value_) : nullptr;
    return *this;
  }
  Box& operator=(Box&& other) noexcept = default;
  ~Box() = default;

  explicit operator bool() const noexcept { return value_ != nullptr; }
  bool has_value() const noexcept { return value_ != nullptr; }
  T& operator*() noexcept { return *value_; }
  const T& operator*() const noexcept { return *value_; }
  T* operator->() noexcept { return value_.get(); }
  const T* operator->() const noexcept { return value_.get(); }
  // Null when there is no value.
  T* get() noexcept { return value_.get(); }
  const T* get() const noexcept { return value_.get(); }
  T& emplace() {
    value_ = std::make_unique<T>();
    return *value_;
  }
  void reset() noexcept { value_.reset(); }

  friend bool operator==(const Box& a, const Box& b) {
    return a.value_ && b.value_ ? *a.value_ == *b.value_ : !a.value_ && !b.value_;
  }

 private:
  std::unique_ptr<T> value_;
};

// Adds up what a value takes in XDR, bytes.
class SizeCounter {
 public:
  void add(std::uint64_t size) noexcept { size_ += size; }
  void bytes(std::uint64_t size) noexcept { size_ += (size + 3) / 4 * 4; }
  // A bulk item: MessageWriter::bulk() takes the first kBulkItemsMax by reference.
  void bulk(std::uint64_t size) noexcept {
    add(4);
    bytes(size);
    if (items_++ < kBulkItemsMax) by_reference_ += size;
  }
  std::uint64_t size() const noexcept { return size_; }
  // Without the bytes of bulk items that go by reference: what a MessageWriter needs room for.
  std::uint64_t in_place() const noexcept { return size_ - by_reference_; }

 private:
  std::uint64_t size_ = 0;
  std::uint64_t by_reference_ = 0;
  std::size_t items_ = 0;
};

namespace codec {

// --- Encoding: a value over its limit fails the message

inline bool fits(std::size_t count, std::uint32_t count_max, MessageWriter& writer) noexcept {
  if (count <= count_max) return true;
  writer.fail();
  return false;
}
inline void write(MessageWriter& writer, float value) noexcept {
  writer.xdr().u32(std::bit_cast<std::uint32_t>(value));
}
inline void write(MessageWriter& writer, double value) noexcept {
  writer.xdr().u64(std::bit_cast<std::uint64_t>(value));
}
inline void write_opaque(MessageWriter& writer, Bytes value, std::uint32_t size_max) noexcept {
  if (fits(value.size(), size_max, writer)) writer.xdr().opaque(value);
}
inline void write_string(MessageWriter& writer, std::string_view value,
                         std::uint32_t size_max) noexcept {
  if (fits(value.size(), size_max, writer)) writer.xdr().string(value);
}
inline void write_bulk(MessageWriter& writer, Bytes value, std::uint32_t size_max) noexcept {
  if (fits(value.size(), size_max, writer)) writer.bulk(value);
}
inline void write_bulk(MessageWriter& writer, std::string_view value,
                       std::uint32_t size_max) noexcept {
  write_bulk(writer, std::as_bytes(std::span(value)), size_max);
}

// --- Decoding: after a failure every function gives nothing, see xdr::Reader

// A count of elements that take at least `element_size_min` bytes each: one that the rest of the
// message has no room for is refused before it is used (kTruncated), as is one over the limit.
RPCRDMA_EXPORT std::uint32_t read_count(MessageReader& reader, std::uint32_t count_max,
                                        std::uint64_t element_size_min,
                                        std::string_view field) noexcept;
// An integer that travels as 32 bits and has fewer; kBadEnum when it does not fit.
template <class T>
T read_narrow(MessageReader& reader, std::string_view field) noexcept {
  const std::int64_t value = std::is_signed_v<T> ? std::int64_t{reader.xdr().i32(field)}
                                                 : std::int64_t{reader.xdr().u32(field)};
  if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max()) {
    reader.xdr().fail(xdr::Errc::kBadEnum, field);
    return 0;
  }
  return static_cast<T>(value);
}
inline float read_float(MessageReader& reader, std::string_view field) noexcept {
  return std::bit_cast<float>(reader.xdr().u32(field));
}
inline double read_double(MessageReader& reader, std::string_view field) noexcept {
  return std::bit_cast<double>(reader.xdr().u64(field));
}
RPCRDMA_EXPORT void read_opaque(MessageReader& reader, std::vector<std::byte>& value,
                                std::uint32_t size_max, std::string_view field);
RPCRDMA_EXPORT void read_string(MessageReader& reader, std::string& value, std::uint32_t size_max,
                                std::string_view field);
template <std::size_t Size>
void read_fixed(MessageReader& reader, std::array<std::byte, Size>& value,
                std::string_view field) noexcept {
  const Bytes bytes = reader.xdr().opaque_fixed(static_cast<std::uint32_t>(Size), field);
  std::copy(bytes.begin(), bytes.end(), value.begin());
}
inline std::string_view read_bulk_string(MessageReader& reader, std::uint32_t size_max,
                                         std::string_view field) noexcept {
  const Bytes bytes = reader.bulk(size_max, field);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// --- For logs

// <12 bytes: 00 01 02 …>, with at most the first 16.
RPCRDMA_EXPORT void append_bytes(std::string& out, Bytes value);
// In quotes, with escapes, at most the first 256 bytes.
RPCRDMA_EXPORT void append_quoted(std::string& out, std::string_view value);
RPCRDMA_EXPORT void append_number(std::string& out, std::int64_t value);
RPCRDMA_EXPORT void append_number(std::string& out, std::uint64_t value);
RPCRDMA_EXPORT void append_number(std::string& out, double value);

// --- Others

inline bool equal(Bytes a, Bytes b) noexcept {
  return std::ranges::equal(a, b);
}
// Ends the program: a union was given a discriminant that is not of the arm, which is a mistake of
// the caller's own.
[[noreturn]] RPCRDMA_EXPORT void bad_discriminant(std::string_view type) noexcept;
// A number as a size: none when it is negative.
template <class T>
constexpr std::uint64_t as_size(T value) noexcept {
  if constexpr (std::is_signed_v<T>) {
    return value < 0 ? 0 : static_cast<std::uint64_t>(value);
  } else {
    return value;
  }
}

}  // namespace codec

// The value in XDR, bulk items in place as well. Empty when it breaks one of its own limits: a
// count over its bound, an enumeration without that value (unless its encoding is empty).
template <class T>
std::vector<std::byte> to_bytes(const T& value) {
  std::vector<std::byte> written(encoded_size(value));
  MessageWriter writer(written);
  encode(value, writer);
  if (!writer.ok()) return {};
  if (writer.items().empty()) return written;
  std::vector<std::byte> whole;
  whole.reserve(written.size());
  std::size_t at = 0;
  const auto copy_to = [&](std::size_t end) {
    whole.insert(whole.end(), written.data() + at, written.data() + end);
    at = end;
  };
  for (const BulkItem& item : writer.items()) {
    copy_to(item.at);
    whole.insert(whole.end(), item.data.begin(), item.data.end());
  }
  copy_to(writer.size());
  return whole;
}

// The value, or why the bytes are none: also when some are left over. Views in it (of DDP-eligible
// items) are into `bytes`.
template <class T>
Expected<T, xdr::DecodeError> from_bytes(Bytes bytes) {
  MessageReader reader(bytes, 0, {});
  T value{};
  decode(reader, value);
  if (!reader.finish()) return Unexpected<xdr::DecodeError>(reader.xdr().error());
  return value;
}

}  // namespace rpcrdma

#endif  // RPCRDMA_GENERATED_CODEC_H_
