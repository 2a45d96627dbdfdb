#include <limits>

#include "rpcrdma/xdr.h"

namespace rpcrdma::xdr {

void Writer::opaque(Bytes value) noexcept {
  if (value.size() > std::numeric_limits<std::uint32_t>::max()) {
    fail(Errc::kOverLimit);
    return;
  }
  // All or nothing, so that the count word alone is never written.
  if (ok_ && output_.size() - position_ < kWordSize + padded_memory(value.size())) {
    fail(Errc::kTruncated);
    return;
  }
  u32(static_cast<std::uint32_t>(value.size()));
  opaque_fixed(value);
}

void Writer::opaque_fixed(Bytes value) noexcept {
  const std::size_t size = value.size();
  if (std::byte* at = take(padded_memory(size))) {
    std::memcpy(at, value.data(), size);
    std::memset(at + size, 0, pad_size(size));
  }
}

void Writer::string(std::string_view value) noexcept {
  opaque({reinterpret_cast<const std::byte*>(value.data()), value.size()});
}

}  // namespace rpcrdma::xdr
