#include "iwarp/crc32c.h"

#include <algorithm>
#include <cstring>

#include "iwarp/sliced_crc.h"

#if RPCRDMA_WITH_ISAL
#include <isa-l/crc.h>
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rpcrdma::iwarp {
namespace {

constexpr std::uint32_t kPolynomialReflected = 0x82f63b78U;

// Measured: below this size the set-up of the folding code costs more than it saves.
constexpr std::size_t kFoldingSizeMin = 256;

constexpr CrcTables kTables = make_crc_tables(kPolynomialReflected);

}  // namespace

std::uint32_t crc32c_table(std::uint32_t state, Bytes bytes) noexcept {
  for (const std::byte byte : bytes) {
    state = kTables[0][(state ^ std::to_integer<std::uint32_t>(byte)) & 0xffU] ^ (state >> 8U);
  }
  return state;
}

std::uint32_t crc32c_sliced(std::uint32_t state, Bytes bytes) noexcept {
  return sliced_crc(kTables, state, bytes);
}

#if defined(__x86_64__)

bool has_crc_instruction() noexcept {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

__attribute__((target("sse4.2"))) std::uint32_t crc32c_instruction(std::uint32_t state,
                                                                   Bytes bytes) noexcept {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t wide = state;
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    wide = _mm_crc32_u64(wide, word);
  }
  state = static_cast<std::uint32_t>(wide);
  for (; left > 0; --left, ++at) {
    state = _mm_crc32_u8(state, std::to_integer<std::uint8_t>(*at));
  }
  return state;
}

#else  // not __x86_64__

bool has_crc_instruction() noexcept {
  return false;
}
std::uint32_t crc32c_instruction(std::uint32_t state, Bytes bytes) noexcept {
  return crc32c_sliced(state, bytes);
}

#endif

#if RPCRDMA_WITH_ISAL

namespace {

#if defined(__x86_64__)

__attribute__((target("avx"))) void clear_upper_halves() noexcept {
  _mm256_zeroupper();
}

// isa-l's widest code leaves the upper halves of vector registers in use. Until somebody clears
// them, each SSE instruction of this thread merges with them: NULL calls without CRC lost a third
// of their rate once a CRC had been computed in the process.
void leave_wide_code() noexcept {
  static const bool has_upper_halves = __builtin_cpu_supports("avx") != 0;
  if (has_upper_halves) clear_upper_halves();
}

#else

void leave_wide_code() noexcept {}

#endif

}  // namespace

bool has_isal() noexcept {
  return true;
}

std::uint32_t crc32c_isal(std::uint32_t state, Bytes bytes) noexcept {
  while (!bytes.empty()) {
    // The library counts in int; it only reads, although its parameter is not const.
    const std::size_t size = std::min<std::size_t>(bytes.size(), 1U << 30U);
    auto* data = const_cast<unsigned char*>(  // NOLINT(cppcoreguidelines-pro-type-const-cast)
        reinterpret_cast<const unsigned char*>(bytes.data()));
    state = crc32_iscsi(data, static_cast<int>(size), state);
    bytes = bytes.subspan(size);
  }
  leave_wide_code();
  return state;
}

#else  // not RPCRDMA_WITH_ISAL

bool has_isal() noexcept {
  return false;
}
std::uint32_t crc32c_isal(std::uint32_t state, Bytes bytes) noexcept {
  return crc32c_sliced(state, bytes);
}

#endif

void Crc32c::add(Bytes bytes) noexcept {
  if (has_isal() && bytes.size() >= kFoldingSizeMin) {
    state_ = crc32c_isal(state_, bytes);
  } else if (has_crc_instruction()) {
    state_ = crc32c_instruction(state_, bytes);
  } else {
    state_ = crc32c_sliced(state_, bytes);
  }
}

void store_crc(std::byte* to, std::uint32_t value) noexcept {
  for (unsigned i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(value >> (8U * i));
}

std::uint32_t load_crc(const std::byte* from) noexcept {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>(from[i]) << (8U * i);
  return value;
}

}  // namespace rpcrdma::iwarp
