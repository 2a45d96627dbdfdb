// Memory that a queue pair may use: a table of slots whose names change with each use.
#ifndef RPCRDMA_RDMA_REGIONS_H_
#define RPCRDMA_RDMA_REGIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/assert.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma {

// Bytes.
inline std::uint64_t total_size(std::span<const Slice> slices) noexcept {
  std::uint64_t size = 0;
  for (const Slice& slice : slices) size += slice.size;
  return size;
}

class Regions {
 public:
  explicit Regions(std::uint32_t slots_max) : slots_max_(slots_max) {}

  // nullopt: all slots are in use. The table grows to its bound as it is used.
  std::optional<RegionId> add(Bytes memory, std::byte* writable) {
    std::uint32_t index = free_;
    if (index != kNone) {
      free_ = slots_[index].next_free;
    } else {
      if (slots_.size() >= slots_max_) return std::nullopt;
      index = static_cast<std::uint32_t>(slots_.size());
      slots_.emplace_back();
      ++used_;
    }
    Slot& slot = slots_[index];
    slot = {memory, writable, true, slot.generation + 1, kNone};
    return RegionId{(slot.generation << kIndexBits) | index};
  }
  void remove(RegionId id) {
    const Slot* slot = find(id);
    RPCRDMA_ASSERT(slot != nullptr, "detach of a region that is not attached");
    const auto index = static_cast<std::uint32_t>(slot - slots_.data());
    slots_[index].live = false;
    slots_[index].next_free = free_;
    free_ = index;
  }
  // Return the whole memory of a live region, and whether it may be written to.
  Bytes whole(RegionId id) const {
    const Slot* slot = find(id);
    RPCRDMA_ASSERT(slot != nullptr, "asked about a region that is not attached");
    return slot->memory;
  }
  bool is_writable(RegionId id) const {
    const Slot* slot = find(id);
    return slot != nullptr && slot->writable != nullptr;
  }
  // The memory of a slice. False: it is not all inside of a live region, or may not be written to.
  bool find_readable(const Slice& slice, Bytes& memory) const {
    const Slot* slot = find(slice.region);
    if (slot == nullptr || !inside(*slot, slice)) return false;
    memory = {slot->memory.data() + slice.offset, slice.size};
    return true;
  }
  bool find_writable(const Slice& slice, MutableBytes& memory) const {
    const Slot* slot = find(slice.region);
    if (slot == nullptr || !inside(*slot, slice)) return false;
    if (slot->writable == nullptr && slice.size > 0) return false;
    memory = {slice.size > 0 ? slot->writable + slice.offset : nullptr, slice.size};
    return true;
  }

  // Returns the bytes of all live regions. Looks at each.
  std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const Slot& slot : slots_) sum += slot.live ? slot.memory.size() : 0;
    return sum;
  }

  static constexpr std::uint32_t kSlotsMax = 1U << 16U;
  // The slot of a region, below kSlotsMax; used again when the region is gone.
  static std::uint32_t index_of(RegionId id) {
    return static_cast<std::uint32_t>(id) & (kSlotsMax - 1);
  }

 private:
  static constexpr unsigned kIndexBits = 16;
  static constexpr std::uint32_t kNone = 0xffffffffU;
  struct Slot {
    Bytes memory;
    std::byte* writable = nullptr;  // null: read only
    bool live = false;
    std::uint32_t generation = 0;
    std::uint32_t next_free = kNone;
  };
  static bool inside(const Slot& slot, const Slice& slice) {
    return slice.offset <= slot.memory.size() && slice.size <= slot.memory.size() - slice.offset;
  }
  const Slot* find(RegionId id) const {
    const auto value = static_cast<std::uint32_t>(id);
    const std::uint32_t index = index_of(id);
    if (index >= used_) return nullptr;
    const Slot& slot = slots_.data()[index];
    const bool same = (slot.generation & (kSlotsMax - 1)) == value >> kIndexBits;
    return slot.live && same ? &slot : nullptr;
  }

  std::uint32_t slots_max_;
  std::vector<Slot> slots_;
  std::uint32_t used_ = 0;  // slots_.size(), which costs a division
  std::uint32_t free_ = kNone;
};

}  // namespace rpcrdma::rdma

#endif  // RPCRDMA_RDMA_REGIONS_H_
