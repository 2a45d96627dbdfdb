// Big-endian fields of wire headers. All offsets are checked by the caller.
#ifndef RPCRDMA_IWARP_BYTE_ORDER_H_
#define RPCRDMA_IWARP_BYTE_ORDER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rpcrdma::iwarp {

namespace byte_order {

// Uses a builtin, since compilers do not see through stores byte by byte.
template <class Word>
Word swapped(Word value) noexcept {
  if constexpr (std::endian::native == std::endian::big) {
    return value;
  } else if constexpr (sizeof(Word) == 2) {
    return __builtin_bswap16(value);
  } else if constexpr (sizeof(Word) == 4) {
    return __builtin_bswap32(value);
  } else {
    return __builtin_bswap64(value);
  }
}
template <class Word>
Word load(const std::byte* from) noexcept {
  Word value = 0;
  std::memcpy(&value, from, sizeof(value));
  return swapped(value);
}
template <class Word>
void store(std::byte* to, Word value) noexcept {
  value = swapped(value);
  std::memcpy(to, &value, sizeof(value));
}

}  // namespace byte_order

inline std::uint16_t load16(const std::byte* from) noexcept {
  return byte_order::load<std::uint16_t>(from);
}
inline std::uint32_t load32(const std::byte* from) noexcept {
  return byte_order::load<std::uint32_t>(from);
}
inline std::uint64_t load64(const std::byte* from) noexcept {
  return byte_order::load<std::uint64_t>(from);
}
inline void store16(std::byte* to, std::uint16_t value) noexcept {
  byte_order::store(to, value);
}
inline void store32(std::byte* to, std::uint32_t value) noexcept {
  byte_order::store(to, value);
}
inline void store64(std::byte* to, std::uint64_t value) noexcept {
  byte_order::store(to, value);
}

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_BYTE_ORDER_H_
