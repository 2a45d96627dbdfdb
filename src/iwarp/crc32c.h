// CRC32C (Castagnoli) as MPA uses it: RFC 5044 §4.4, the same polynomial and bit order as iSCSI.
#ifndef RPCRDMA_IWARP_CRC32C_H_
#define RPCRDMA_IWARP_CRC32C_H_

#include <cstddef>
#include <cstdint>

#include "rpcrdma/types.h"

namespace rpcrdma::iwarp {

// A checksum over bytes that come in pieces. value() may be asked for at any time; the ASCII text
// "123456789" has 0xe3069283. Picks the fastest way that this processor has.
class Crc32c {
 public:
  void add(Bytes bytes) noexcept;
  std::uint32_t value() const noexcept { return ~state_; }

 private:
  std::uint32_t state_ = 0xffffffffU;
};

// MPA sends the checksum with its least significant byte first.
void store_crc(std::byte* to, std::uint32_t value) noexcept;
std::uint32_t load_crc(const std::byte* from) noexcept;

// The single ways, each of which takes and returns the raw register; for tests of one against the
// other. crc32c_instruction() may only be called where has_crc_instruction() is true; crc32c_isal()
// is crc32c_sliced() in a build without isa-l.
std::uint32_t crc32c_table(std::uint32_t state, Bytes bytes) noexcept;
std::uint32_t crc32c_sliced(std::uint32_t state, Bytes bytes) noexcept;
std::uint32_t crc32c_instruction(std::uint32_t state, Bytes bytes) noexcept;
std::uint32_t crc32c_isal(std::uint32_t state, Bytes bytes) noexcept;
bool has_crc_instruction() noexcept;
bool has_isal() noexcept;

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_CRC32C_H_
