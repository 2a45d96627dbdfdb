#include "sim/memory.h"

#include <algorithm>
#include <cstring>

#include "rdma/sim/domain.h"

namespace rpcrdma::simulation {
namespace {

constexpr std::size_t kGuardSize = 64;  // bytes on each side
constexpr std::byte kGuard{0xa7};
constexpr std::byte kRetired{0x5e};

// Each byte is what the one before it is. A loop over them took 40 % of a run with sanitizers.
bool all_equal(Bytes bytes, std::byte value) {
  return bytes.empty() || (bytes.front() == value &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

std::uint64_t word_of(std::uint64_t id, std::uint64_t index) {
  std::uint64_t z = id * 0x9e3779b97f4a7c15U + index * 0xd1342543de82ef95U + 1;
  z ^= z >> 31U;
  return z * 0xbf58476d1ce4e5b9U;
}

}  // namespace

void fill_pattern(MutableBytes bytes, std::uint64_t id) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = word_of(id, at);
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), bytes.size() - at));
  }
}

std::optional<std::size_t> find_difference(Bytes bytes, std::uint64_t id) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = word_of(id, at);
    const std::size_t size = std::min(sizeof(word), bytes.size() - at);
    if (std::memcmp(bytes.data() + at, &word, size) == 0) continue;
    const auto expected = std::as_bytes(std::span(&word, 1));
    for (std::size_t i = 0; i < size; ++i) {
      if (bytes[at + i] != expected[i]) return at + i;
    }
  }
  return std::nullopt;
}

GuardedBlock::GuardedBlock(std::size_t size, std::size_t skew)
    : memory_(kGuardSize + skew + size + kGuardSize, kGuard),
      first_(kGuardSize + skew),
      size_(size) {}

bool GuardedBlock::guards_are_whole() const noexcept {
  const Bytes all(memory_);
  return all_equal(all.first(first_), kGuard) && all_equal(all.subspan(first_ + size_), kGuard);
}

void GuardedBlock::retire() noexcept {
  std::ranges::fill(bytes(), kRetired);
  retired_ = true;
}

bool GuardedBlock::is_untouched() const noexcept {
  return guards_are_whole() &&
         (!retired_ || all_equal(Bytes(memory_).subspan(first_, size_), kRetired));
}

void GuardedBlock::break_guard() noexcept {
  memory_[first_ + size_] = std::byte{0};
}

bool tail_is_unwritten(Bytes place, std::size_t used, std::byte fill) {
  const Bytes tail = place.subspan(std::min(used, place.size()));
  return all_equal(tail, fill) || all_equal(tail, rdma::sim::kPoison);
}

}  // namespace rpcrdma::simulation
