
#include "rpcrdma/xdr.h"

namespace rpcrdma::xdr {

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::kTruncated:
      return "truncated";
    case Errc::kBadBool:
      return "neither true nor false";
    case Errc::kBadEnum:
      return "value is not defined";
    case Errc::kOverLimit:
      return "count is over the limit";
    case Errc::kTrailing:
      return "bytes behind the end";
  }
  return "unknown error";
}

void Reader::fail(Errc code, std::string_view field) noexcept {
  if (!ok_) return;
  ok_ = false;
  error_ = DecodeError{code, static_cast<std::size_t>(item_ - begin_), field};
  end_ = cursor_;
}

void Reader::align(std::string_view field) noexcept {
  const std::uint64_t past = (alignment_.start + position()) % alignment_.alignment;
  if (past > 0) skip(static_cast<std::size_t>(alignment_.alignment - past), field);
}

Bytes Reader::opaque(std::uint32_t size_max, std::string_view field) noexcept {
  const std::byte* item = cursor_;
  const std::uint32_t size = u32(field);
  // The limit comes first: a count that is refused anyway is not used for anything.
  if (size > size_max) fail(Errc::kOverLimit, field);
  if (!ok_) return {};
  skip_alignment(size, field);
  const Bytes data = opaque_fixed(size, field);
  // Count word, bytes and fill are one item, also in an error.
  item_ = item;
  if (!ok_) error_.offset = static_cast<std::size_t>(item - begin_);
  return data;
}

Bytes Reader::opaque_fixed(std::uint32_t size, std::string_view field) noexcept {
  if (remaining() < size) {
    item_ = cursor_;
    fail(Errc::kTruncated, field);
    return {};
  }
  const std::byte* data = take(padded_memory(size), field);
  // RFC 4506 §4.9 has senders write zeros, and receivers ignore what is there (rfc5666bis-02
  // §3.1.4.2): in a chunk they would not see it either.
  return data == nullptr ? Bytes{} : Bytes{data, size};
}

std::string_view Reader::string(std::uint32_t size_max, std::string_view field) noexcept {
  const Bytes text = opaque(size_max, field);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

}  // namespace rpcrdma::xdr
