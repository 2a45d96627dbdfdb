#include "iwarp/tag_table.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/assert.h"

namespace rpcrdma::iwarp {
namespace {

constexpr std::uint32_t kSlotsAtFirst = 16;
constexpr std::uint64_t kBaseMask = (std::uint64_t{1} << 48U) - 1;

// Any function of the upper bits that looks random does; the secret keeps it from being read off.
std::uint32_t mix(std::uint32_t value, std::uint32_t secret) noexcept {
  std::uint64_t wide = (static_cast<std::uint64_t>(value) << 32U) ^ secret;
  wide *= 0x9e3779b97f4a7c15U;
  wide ^= wide >> 29U;
  wide *= 0xbf58476d1ce4e5b9U;
  return static_cast<std::uint32_t>(wide >> 32U);
}

}  // namespace

TagTable::TagTable(std::uint32_t slots, RandomSource& random)
    : random_(random),
      slots_(std::clamp<std::uint32_t>(slots, 1U, 1U << 20U)),
      index_bits_(static_cast<unsigned>(std::bit_width(slots_ - 1))),
      secret_(static_cast<std::uint32_t>(random.next())),
      free_(slots_) {}

void TagTable::grow() {
  const auto from = static_cast<std::uint32_t>(exposures_.size());
  const std::uint32_t to = std::min(slots_, std::max(kSlotsAtFirst, 2 * from));
  exposures_.resize(to);
  for (std::uint32_t i = from; i < to; ++i) free_.push(i);
}

std::uint32_t TagTable::index_of(std::uint32_t tag) const noexcept {
  const std::uint32_t mask = (1U << index_bits_) - 1;
  return (tag ^ mix(tag >> index_bits_, secret_)) & mask;
}

Exposure* TagTable::take(Right right, std::size_t size) {
  if (free_.empty()) {
    if (live_ == slots_) return nullptr;
    grow();
  }
  const std::uint32_t index = free_.pop();
  const std::uint32_t mask = (1U << index_bits_) - 1;
  Exposure& exposure = exposures_[index];
  const auto before = static_cast<std::uint32_t>(exposure.tag);
  std::uint32_t tag = 0;
  // 0 is reserved on hardware, 1 is what siw names in its zero-length Writes.
  do {
    const std::uint32_t high = static_cast<std::uint32_t>(random_.next()) >> index_bits_;
    tag = (high << index_bits_) | ((index ^ mix(high, secret_)) & mask);
  } while (tag <= 1 || tag == before);
  exposure = {SteeringTag{tag}, right, true, random_.next() & kBaseMask, size, nullptr, nullptr, 0};
  ++live_;
  return &exposure;
}

const Exposure* TagTable::add_source(Bytes memory) {
  Exposure* exposure = take(Right::kRead, memory.size());
  if (exposure != nullptr) exposure->source = memory.data();
  return exposure;
}

const Exposure* TagTable::add_target(MutableBytes memory, Right right) {
  RPCRDMA_ASSERT(right != Right::kRead, "a readable exposure has a source");
  Exposure* exposure = take(right, memory.size());
  if (exposure == nullptr) return nullptr;
  exposure->target = memory.data();
  if (memory.size() >= kLargeTarget) ++large_targets_;
  return exposure;
}

Exposure* TagTable::find(SteeringTag tag) noexcept {
  const std::uint32_t index = index_of(static_cast<std::uint32_t>(tag));
  if (index >= exposures_.size()) return nullptr;
  Exposure& exposure = exposures_[index];
  return exposure.live && exposure.tag == tag ? &exposure : nullptr;
}

TagTable::Verdict TagTable::check(SteeringTag tag, Right right, std::uint64_t address,
                                  std::uint64_t size, Exposure** found) noexcept {
  Exposure* exposure = find(tag);
  if (exposure == nullptr) return Verdict::kInvalidTag;
  if (exposure->right != right) return Verdict::kAccess;
  if (address > std::numeric_limits<std::uint64_t>::max() - size) return Verdict::kWrap;
  if (address < exposure->base || size > exposure->size ||
      address - exposure->base > exposure->size - size) {
    return Verdict::kBounds;
  }
  *found = exposure;
  return Verdict::kOk;
}

void TagTable::release(Exposure& exposure, std::uint32_t index) noexcept {
  if (exposure.target != nullptr && exposure.size >= kLargeTarget) --large_targets_;
  exposure.live = false;
  exposure.source = nullptr;
  exposure.target = nullptr;
  --live_;
  free_.push(index);
}

bool TagTable::remove(SteeringTag tag) noexcept {
  Exposure* exposure = find(tag);
  if (exposure == nullptr) return false;
  release(*exposure, static_cast<std::uint32_t>(exposure - exposures_.data()));
  return true;
}

void TagTable::clear() noexcept {
  for (std::uint32_t i = 0; i < exposures_.size(); ++i) {
    if (exposures_[i].live) release(exposures_[i], i);
  }
}

}  // namespace rpcrdma::iwarp
