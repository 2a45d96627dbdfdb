// The fuzz targets share this: a way to take an input apart, and the entry point's declaration.
//
// A target states what must hold with FUZZ_CHECK, which aborts: libFuzzer keeps the input that led
// there, and the replay driver fails.
#ifndef RPCRDMA_TESTS_FUZZ_FUZZ_H_
#define RPCRDMA_TESTS_FUZZ_FUZZ_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/assert.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

// Begins the definition of a target, which takes `data` and `size`: the function that libFuzzer
// calls, or one of those that a replay finds by their names.
#ifdef RPCRDMA_FUZZ_REPLAY
#define FUZZ_TARGET(name)                                                \
  static int run_##name(const std::uint8_t* data, std::size_t size);     \
  static const rpcrdma::fuzz::Target kTarget_##name{#name, &run_##name}; \
  static int run_##name(const std::uint8_t* data, std::size_t size)
#else
#define FUZZ_TARGET(name) \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#endif

#define FUZZ_CHECK(condition, text) RPCRDMA_ASSERT(condition, text)

namespace rpcrdma::fuzz {

// A target of a replay. All of them are static.
struct Target {
  using Run = int (*)(const std::uint8_t* data, std::size_t size);

  Target(const char* its_name, Run its_function) noexcept
      : name(its_name), run(its_function), next(first()) {
    first() = this;
  }
  // The head of the list of all targets.
  static const Target*& first() noexcept {
    static const Target* head = nullptr;
    return head;
  }

  const char* const name;
  const Run run;
  const Target* const next;
};

using Buffer = std::vector<std::byte>;

inline Bytes as_bytes(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

inline bool equal(Bytes a, Bytes b) {
  return std::ranges::equal(a, b);
}

// True when `inner` lies in `outer`; an empty view lies anywhere.
inline bool within(Bytes inner, Bytes outer) {
  return inner.empty() || (inner.data() >= outer.data() &&
                           inner.data() + inner.size() <= outer.data() + outer.size());
}

// A copy of an input as a Writer would make it: fill bytes (RFC 4506 §4.10), whose content a Reader
// ignores, are zero.
class WithZeroFill {
 public:
  explicit WithZeroFill(Bytes input) : input_(input), made_(input.begin(), input.end()) {}
  // Clears those behind an item of variable length, a view of the input.
  void clear_behind(Bytes item) {
    if (item.empty()) return;
    const auto end = static_cast<std::size_t>(item.data() + item.size() - input_.data());
    const std::size_t fill = std::min(xdr::pad_size(item.size()), made_.size() - end);
    std::fill_n(made_.begin() + static_cast<std::ptrdiff_t>(end), fill, std::byte{0});
  }
  Bytes bytes() const { return made_; }

 private:
  Bytes input_;
  Buffer made_;
};

// Takes decisions from the front of an input. Behind its end all are zero, so that an input which
// is cut off still means something.
class Choices {
 public:
  explicit Choices(Bytes input) : rest_(input) {}

  bool empty() const { return rest_.empty(); }
  std::uint8_t u8() {
    if (rest_.empty()) return 0;
    const auto value = std::to_integer<std::uint8_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return value;
  }
  // The order of evaluation is spelled out everywhere, so that an input means the same to all
  // compilers.
  std::uint16_t u16() {
    const unsigned high = u8();
    return static_cast<std::uint16_t>(high << 8U | u8());
  }
  std::uint32_t u32() {
    const std::uint32_t high = u16();
    return high << 16U | u16();
  }
  std::uint64_t u64() {
    const std::uint64_t high = u32();
    return high << 32U | u32();
  }
  bool flag() { return (u8() & 1U) != 0; }
  // 0 <= result < bound, 0 < bound <= 256.
  std::size_t below(std::size_t bound) { return u8() % bound; }
  // A size up to `max`: mostly small, at times near a power of two or near the bound.
  std::size_t size(std::size_t max) {
    const std::uint8_t kind = u8();
    const std::size_t value = u8();
    std::size_t result = value % 64;
    if (kind >= 128) result = (std::size_t{1} << (kind % 18U)) + value % 16 - 8;
    if (kind >= 240) result = max - value % 16;
    return std::min(result, max);
  }
  // The next `size` bytes, or what there is.
  Bytes take(std::size_t size) {
    const Bytes taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  Bytes rest() { return take(rest_.size()); }

 private:
  Bytes rest_;
};

// Bytes that differ from place to place and repeat after kPeriod.
inline constexpr std::size_t kPeriod = 256;
inline void fill(MutableBytes bytes, std::uint8_t seed) {
  unsigned value = seed;
  for (std::byte& byte : bytes.first(std::min(kPeriod, bytes.size()))) {
    byte = static_cast<std::byte>(value += 0x3b);
  }
  for (std::size_t done = kPeriod; done < bytes.size(); done *= 2) {
    std::memcpy(&bytes[done], bytes.data(), std::min(done, bytes.size() - done));
  }
}
inline bool is_filled(Bytes bytes, std::uint8_t seed) {
  std::array<std::byte, kPeriod> first;
  fill(first, seed);
  const std::size_t begin = std::min(kPeriod, bytes.size());
  if (!equal(bytes.first(begin), Bytes(first).first(begin))) return false;
  return bytes.size() == begin ||
         std::memcmp(&bytes[begin], bytes.data(), bytes.size() - begin) == 0;
}

}  // namespace rpcrdma::fuzz

#endif  // RPCRDMA_TESTS_FUZZ_FUZZ_H_
