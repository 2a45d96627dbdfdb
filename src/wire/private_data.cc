#include "wire/private_data.h"

#include <algorithm>

#include "rpcrdma/xdr.h"

namespace rpcrdma::wire {
namespace {

// RFC 8797 §4: the octets of the structure.
constexpr std::uint32_t kIdentifier = 0xf6ab0e18;
constexpr std::uint8_t kVersion = 1;
constexpr std::byte kFlagInvalidation{0x01};
constexpr std::uint32_t kSizeUnit = 1024;  // bytes; a code says how many of them, less one

// Rounds down: a peer must never believe in a buffer larger than the real one.
std::byte size_code(std::uint32_t size) noexcept {
  const std::uint32_t bounded = std::clamp(size, kSizeUnit, kInlineSizeMax);
  return static_cast<std::byte>(bounded / kSizeUnit - 1);
}

std::uint32_t size_of_code(std::byte code) noexcept {
  return (std::to_integer<std::uint32_t>(code) + 1) * kSizeUnit;
}

}  // namespace

std::array<std::byte, kPrivateDataSize> encode(const PrivateData& data) noexcept {
  std::array<std::byte, kPrivateDataSize> out{};
  xdr::Writer writer(out);
  writer.u32(kIdentifier);
  out[4] = std::byte{kVersion};
  out[5] = data.takes_invalidation ? kFlagInvalidation : std::byte{0};
  out[6] = size_code(data.send_size);
  out[7] = size_code(data.receive_size);
  return out;
}

std::optional<PrivateData> find_private_data(Bytes private_data) noexcept {
  for (std::size_t at = 0; at + kPrivateDataSize <= private_data.size(); ++at) {
    const Bytes found = private_data.subspan(at, kPrivateDataSize);
    if (xdr::Reader(found).u32("identifier") != kIdentifier) continue;
    // The first match decides, so that a structure of a later version hides nothing behind it.
    if (found[4] != std::byte{kVersion}) return std::nullopt;
    // RFC 8797 §4: the seven reserved flag bits are ignored.
    return PrivateData{(found[5] & kFlagInvalidation) != std::byte{0}, size_of_code(found[6]),
                       size_of_code(found[7])};
  }
  return std::nullopt;
}

}  // namespace rpcrdma::wire
