// Big-endian fields of wire headers. All offsets are checked by the caller.
#ifndef RPCRDMA_IWARP_BYTE_ORDER_H_
#define RPCRDMA_IWARP_BYTE_ORDER_H_

#include <cstddef>
#include <cstdint>

namespace rpcrdma::iwarp {

inline std::uint16_t load16(const std::byte* from) noexcept {
  return static_cast<std::uint16_t>((std::to_integer<unsigned>(from[0]) << 8U) |
                                    std::to_integer<unsigned>(from[1]));
}
inline std::uint32_t load32(const std::byte* from) noexcept {
  return (static_cast<std::uint32_t>(load16(from)) << 16U) | load16(from + 2);
}
inline std::uint64_t load64(const std::byte* from) noexcept {
  return (static_cast<std::uint64_t>(load32(from)) << 32U) | load32(from + 4);
}
inline void store16(std::byte* to, std::uint16_t value) noexcept {
  to[0] = static_cast<std::byte>(value >> 8U);
  to[1] = static_cast<std::byte>(value);
}
inline void store32(std::byte* to, std::uint32_t value) noexcept {
  store16(to, static_cast<std::uint16_t>(value >> 16U));
  store16(to + 2, static_cast<std::uint16_t>(value));
}
inline void store64(std::byte* to, std::uint64_t value) noexcept {
  store32(to, static_cast<std::uint32_t>(value >> 32U));
  store32(to + 4, static_cast<std::uint32_t>(value));
}

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_BYTE_ORDER_H_
