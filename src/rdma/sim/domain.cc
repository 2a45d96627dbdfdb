#include "rdma/sim/domain.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "rdma/regions.h"

namespace rpcrdma::rdma::sim {
namespace {

// Returns whether `offset` and `size` name a run inside `size_max` bytes; computes no sum that
// could wrap.
bool is_inside(std::uint64_t offset, std::uint64_t size, std::uint64_t size_max) {
  return offset <= size_max && size <= size_max - offset;
}

}  // namespace

RegionId Domain::attach(Bytes readable, std::optional<MutableBytes> writable) {
  const RegionId region{next_region_++};
  regions_.emplace(region, Region{readable, writable});
  attached_bytes_ += readable.size();
  return region;
}

void Domain::detach(RegionId region) {
  const auto at = regions_.find(region);
  RPCRDMA_ASSERT(at != regions_.end(), "detach of a region that is not attached");
  for (const auto& [tag, exposure] : exposures_) {
    RPCRDMA_ASSERT(exposure.region != region, "detach of a region that is still exposed");
  }
  attached_bytes_ -= at->second.readable.size();
  regions_.erase(at);
}

std::optional<Bytes> Domain::readable(const Slice& slice) const {
  const auto at = regions_.find(slice.region);
  if (at == regions_.end()) return std::nullopt;
  if (!is_inside(slice.offset, slice.size, at->second.readable.size())) return std::nullopt;
  return at->second.readable.subspan(static_cast<std::size_t>(slice.offset), slice.size);
}

std::optional<MutableBytes> Domain::writable(const Slice& slice) const {
  const auto at = regions_.find(slice.region);
  if (at == regions_.end() || !at->second.writable) return std::nullopt;
  if (!is_inside(slice.offset, slice.size, at->second.writable->size())) return std::nullopt;
  return at->second.writable->subspan(static_cast<std::size_t>(slice.offset), slice.size);
}

bool Domain::are_readable(std::span<const Slice> slices) const {
  return std::ranges::all_of(slices,
                             [this](const Slice& slice) { return readable(slice).has_value(); });
}

bool Domain::are_writable(std::span<const Slice> slices) const {
  return std::ranges::all_of(slices,
                             [this](const Slice& slice) { return writable(slice).has_value(); });
}

std::vector<std::byte> Domain::gather(std::span<const Slice> slices) const {
  std::vector<std::byte> data;
  data.reserve(static_cast<std::size_t>(total_size(slices)));
  for (const Slice& slice : slices) {
    const Bytes run = readable(slice).value();
    data.insert(data.end(), run.begin(), run.end());
  }
  return data;
}

void Domain::scatter(Bytes data, std::span<const Slice> into) const {
  for (const Slice& slice : into) {
    const MutableBytes memory = writable(slice).value();
    const std::size_t size = std::min(memory.size(), data.size());
    std::ranges::copy(data.first(size), memory.begin());
    data = data.subspan(size);
  }
}

void Domain::poison(const Slice& slice) const {
  const MutableBytes memory = writable(slice).value();
  // By memset: a third of what tests with a sanitizer took was this, byte by byte.
  if (!memory.empty()) std::memset(memory.data(), std::to_integer<int>(kPoison), memory.size());
}

void Domain::expose(const Expose& expose, SteeringTag tag, std::uint64_t address) {
  const RegionId region = expose.memory.region;
  Exposure exposure{region, expose.access, address, {}, {}};
  if (expose.access == RemoteAccess::kRead) {
    exposure.readable = readable(expose.memory).value();
  } else {
    exposure.writable = writable(expose.memory).value();
  }
  const bool is_new = exposures_.emplace(tag, exposure).second;
  RPCRDMA_ASSERT(is_new, "steering tag given out twice");
  tags_.insert(tag);
}

void Domain::revoke_all() {
  exposures_.clear();
  pending_writes_.clear();
}

void Domain::write_later(MutableBytes into, std::vector<std::byte> data) {
  pending_writes_.push_back({into, std::move(data)});
}

void Domain::show_writes() {
  for (const PendingWrite& write : pending_writes_) {
    std::ranges::copy(write.data, write.into.begin());
  }
  pending_writes_.clear();
}

const Domain::Exposure* Domain::find(const Remote& remote, RemoteAccess access) const {
  const auto at = exposures_.find(remote.tag);
  if (at == exposures_.end() || at->second.access != access) return nullptr;
  const Exposure& exposure = at->second;
  const std::size_t size =
      access == RemoteAccess::kRead ? exposure.readable.size() : exposure.writable.size();
  // An address below the start wraps to a huge offset and is refused with the others.
  if (!is_inside(remote.address - exposure.address, remote.size, size)) return nullptr;
  return &exposure;
}

std::optional<Bytes> Domain::remote_readable(const Remote& remote) const {
  const Exposure* exposure = find(remote, RemoteAccess::kRead);
  if (exposure == nullptr) return std::nullopt;
  return exposure->readable.subspan(static_cast<std::size_t>(remote.address - exposure->address),
                                    remote.size);
}

std::optional<MutableBytes> Domain::remote_writable(const Remote& remote) const {
  const Exposure* exposure = find(remote, RemoteAccess::kWrite);
  if (exposure == nullptr) return std::nullopt;
  return exposure->writable.subspan(static_cast<std::size_t>(remote.address - exposure->address),
                                    remote.size);
}

}  // namespace rpcrdma::rdma::sim
