#include "rpc/region_table.h"

#include <algorithm>
#include <functional>

#include "base/assert.h"

namespace rpcrdma::rpc {
namespace {

const std::byte* end_of(Bytes memory) {
  return memory.data() + memory.size();
}

// Also for pointers into different objects.
bool before(const std::byte* left, const std::byte* right) {
  return std::less<>()(left, right);
}

}  // namespace

std::size_t RegionTable::behind(const std::byte* data) const {
  const auto found = std::ranges::upper_bound(
      by_address_, data, before, [this](std::uint32_t id) { return regions_[id].memory.data(); });
  return static_cast<std::size_t>(found - by_address_.begin());
}

std::optional<std::uint32_t> RegionTable::add(Bytes memory, std::byte* writable) {
  if (memory.empty()) return std::nullopt;
  const std::size_t at = behind(memory.data());
  if (at > 0 && before(memory.data(), end_of(regions_[by_address_[at - 1]].memory))) {
    return std::nullopt;
  }
  if (at < by_address_.size() && before(regions_[by_address_[at]].memory.data(), end_of(memory))) {
    return std::nullopt;
  }
  const auto free = std::ranges::find(regions_, false, &Region::live);
  const auto id = static_cast<std::uint32_t>(free - regions_.begin());
  if (free == regions_.end()) regions_.emplace_back();
  regions_[id] = {memory, writable, 0, true};
  by_address_.insert(by_address_.begin() + static_cast<std::ptrdiff_t>(at), id);
  return id;
}

void RegionTable::remove(std::uint32_t id) {
  RPCRDMA_REQUIRE(id < regions_.size() && regions_[id].live, "memory is unregistered twice");
  RPCRDMA_REQUIRE(regions_[id].uses == 0, "memory is unregistered while a call uses it");
  regions_[id].live = false;
  std::erase(by_address_, id);
}

void RegionTable::end_use(std::uint32_t id) {
  RPCRDMA_ASSERT(regions_[id].uses > 0, "registered memory comes back twice");
  --regions_[id].uses;
}

bool RegionTable::holds(std::uint32_t id, Bytes data) const {
  const Region& region = regions_[id];
  return region.live && !before(data.data(), region.memory.data()) &&
         !before(end_of(region.memory), end_of(data));
}

std::optional<RegionTable::Place> RegionTable::find(Bytes data, bool to_write) const {
  if (by_address_.empty()) return std::nullopt;
  // One call's memory mostly lies where that of the call before did.
  if (last_ >= regions_.size() || !holds(last_, data)) {
    const std::size_t at = behind(data.data());
    if (at == 0 || !holds(by_address_[at - 1], data)) return std::nullopt;
    last_ = by_address_[at - 1];
  }
  const Region& region = regions_[last_];
  if (to_write && region.writable == nullptr) return std::nullopt;
  return Place{last_, static_cast<std::uint64_t>(data.data() - region.memory.data())};
}

}  // namespace rpcrdma::rpc
