#include "iwarp/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rpcrdma::iwarp {
namespace {

constexpr std::uint32_t kPolynomialReflected = 0x82f63b78U;

// Measured: below this size the set-up of the folding code costs more than it saves.
constexpr std::size_t kFoldingSizeMin = 256;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1U) ^ ((value & 1U) != 0 ? kPolynomialReflected : 0U);
    }
    table[i] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

}  // namespace

std::uint32_t crc32c_table(std::uint32_t state, Bytes bytes) noexcept {
  for (const std::byte byte : bytes) {
    state = kTable[(state ^ std::to_integer<std::uint32_t>(byte)) & 0xffU] ^ (state >> 8U);
  }
  return state;
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

namespace {

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

}  // namespace

#else

namespace {

void leave_wide_code() noexcept {}

}  // namespace

bool has_crc_instruction() noexcept {
  return false;
}
std::uint32_t crc32c_instruction(std::uint32_t state, Bytes bytes) noexcept {
  return crc32c_table(state, bytes);
}

#endif

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

void Crc32c::add(Bytes bytes) noexcept {
  if (bytes.size() >= kFoldingSizeMin) {
    state_ = crc32c_isal(state_, bytes);
  } else if (has_crc_instruction()) {
    state_ = crc32c_instruction(state_, bytes);
  } else {
    state_ = crc32c_table(state_, bytes);
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
