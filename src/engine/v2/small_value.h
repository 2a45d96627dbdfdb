// The value of a transport characteristic, kept.
#ifndef RPCRDMA_ENGINE_V2_SMALL_VALUE_H_
#define RPCRDMA_ENGINE_V2_SMALL_VALUE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "rpcrdma/characteristics.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"
#include "wire/v2/characteristics.h"

namespace rpcrdma::engine {

struct SmallValue {
  std::uint32_t id = 0;
  std::uint32_t size = 0;  // bytes
  std::array<std::byte, kCharacteristicSizeMax> bytes{};

  static SmallValue of(std::uint32_t id, std::uint32_t word) noexcept {
    SmallValue value{.id = id, .size = xdr::kWordSize};
    xdr::store_word(value.bytes.data(), word);
    return value;
  }
  // nullopt: it is longer than any that is kept.
  static std::optional<SmallValue> of(std::uint32_t id, Bytes data) noexcept {
    if (data.size() > kCharacteristicSizeMax) return std::nullopt;
    SmallValue value{.id = id, .size = static_cast<std::uint32_t>(data.size())};
    std::ranges::copy(data, value.bytes.begin());
    return value;
  }

  Bytes data() const noexcept { return Bytes(bytes).first(size); }
  wire::v2::CharacteristicValue view() const noexcept { return {id, data()}; }
  // Bytes behind the other value are ignored, as where it is decoded.
  bool is(const wire::v2::CharacteristicValue& other) const noexcept {
    return other.id == id && other.data.size() >= size &&
           std::ranges::equal(data(), other.data.first(size));
  }
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_V2_SMALL_VALUE_H_
