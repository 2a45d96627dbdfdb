// Cyclic redundancy checks of 32 bits with reflected bits, eight bytes at a time from tables: for
// processors and builds without anything quicker. Reads byte by byte, so that it computes the same
// in any byte order and at any alignment.
#ifndef RPCRDMA_IWARP_SLICED_CRC_H_
#define RPCRDMA_IWARP_SLICED_CRC_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "rpcrdma/types.h"

namespace rpcrdma::iwarp {

// Table i has the effect of one byte that i zero bytes follow.
using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr CrcTables make_crc_tables(std::uint32_t polynomial_reflected) {
  CrcTables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1U) ^ ((value & 1U) != 0 ? polynomial_reflected : 0U);
    }
    tables[0][i] = value;
  }
  for (std::size_t table = 1; table < tables.size(); ++table) {
    for (std::size_t i = 0; i < 256; ++i) {
      const std::uint32_t before = tables[table - 1][i];
      tables[table][i] = (before >> 8U) ^ tables[0][before & 0xffU];
    }
  }
  return tables;
}

// Takes and returns the raw register.
inline std::uint32_t sliced_crc(const CrcTables& tables, std::uint32_t state,
                                Bytes bytes) noexcept {
  const auto byte = [&bytes](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  while (bytes.size() >= 8) {
    const std::uint32_t low = state ^ (byte(0) | byte(1) << 8U | byte(2) << 16U | byte(3) << 24U);
    state = tables[7][low & 0xffU] ^ tables[6][(low >> 8U) & 0xffU] ^
            tables[5][(low >> 16U) & 0xffU] ^ tables[4][low >> 24U] ^ tables[3][byte(4)] ^
            tables[2][byte(5)] ^ tables[1][byte(6)] ^ tables[0][byte(7)];
    bytes = bytes.subspan(8);
  }
  for (const std::byte each : bytes) {
    state = tables[0][(state ^ std::to_integer<std::uint32_t>(each)) & 0xffU] ^ (state >> 8U);
  }
  return state;
}

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_SLICED_CRC_H_
