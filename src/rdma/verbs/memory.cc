#include "rdma/verbs/memory.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/assert.h"

namespace rpcrdma::rdma::verbs {
namespace {

constexpr unsigned kWritable = IBV_ACCESS_LOCAL_WRITE;
constexpr unsigned kBindable = IBV_ACCESS_MW_BIND;

unsigned remote_right(RemoteAccess access) {
  return access == RemoteAccess::kRead ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
}

std::uint64_t address_of(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

// siw sends up to so many bytes wrongly that lie in two pages (Traits::garbles_short_reads). Where
// pages are larger, some runs are copied for nothing.
constexpr std::size_t kGarbledMax = 32;
constexpr std::uint64_t kPage = 4096;  // bytes

bool lies_in_two_pages(Bytes memory) {
  const std::uint64_t first = address_of(memory.data());
  return first / kPage != (first + memory.size() - 1) / kPage;
}

}  // namespace

int deallocate_window(ibv_mw* window) {
  return ibv_dealloc_mw(window);
}

Memory::Memory(ibv_pd& domain, const Traits& traits, std::uint32_t regions_max,
               std::uint32_t exposures_max)
    : domain_(domain),
      traits_(traits),
      exposures_max_(exposures_max),
      regions_(std::min(regions_max, Regions::kSlotsMax)) {}

Expected<RegionId, Error> Memory::attach(Bytes memory, std::byte* writable) {
  const auto id = regions_.add(memory, writable);
  if (!id) return Unexpected<Error>(Error{Errc::kNoResources, 0, "attach: too many regions"});
  registered_.resize(std::max(registered_.size(), std::size_t{Regions::index_of(*id)} + 1));
  return *id;
}

void Memory::detach(RegionId id) {
  regions_.remove(id);
  registered_[Regions::index_of(id)] = {};
}

MemoryRegion Memory::register_memory(Bytes memory, unsigned access) {
  ++registrations_;
  // The right to write is in `access`; the interface has no word for memory that is constant.
  MemoryRegion made(
      ibv_reg_mr(&domain_, const_cast<std::byte*>(memory.data()), memory.size(), access));
  failure_ = made ? 0 : errno;
  return made;
}

// The registration for our own work, made when it is first needed. Null: failure_ says why.
ibv_mr* Memory::local(RegionId id, bool writes) {
  Registered& registered = registered_[Regions::index_of(id)];
  if (registered.local) return registered.local.get();
  const Bytes memory = regions_.whole(id);
  unsigned access = 0;
  if (regions_.is_writable(id)) {
    access = kWritable;
    if (traits_.registration == Registration::kWindows) access |= kBindable;
  }
  RPCRDMA_ASSERT(!writes || access != 0, "writing to a region that is read only");
  registered.local = register_memory(memory, access);
  return registered.local.get();
}

std::optional<ibv_sge> Memory::readable(const Slice& slice) {
  Bytes bytes;
  failure_ = 0;
  if (!regions_.find_readable(slice, bytes)) return std::nullopt;
  if (slice.size == 0) return ibv_sge{0, 0, 0};
  const ibv_mr* const region = local(slice.region, false);
  if (region == nullptr) return std::nullopt;
  return ibv_sge{address_of(bytes.data()), slice.size, region->lkey};
}

std::optional<ibv_sge> Memory::writable(const Slice& slice) {
  MutableBytes bytes;
  failure_ = 0;
  if (!regions_.find_writable(slice, bytes)) return std::nullopt;
  if (slice.size == 0) return ibv_sge{0, 0, 0};
  const ibv_mr* const region = local(slice.region, true);
  if (region == nullptr) return std::nullopt;
  return ibv_sge{address_of(bytes.data()), slice.size, region->lkey};
}

bool Memory::gather(std::span<const Slice> slices, bool to_write, std::vector<ibv_sge>& out) {
  const std::size_t first = out.size();
  for (const Slice& slice : slices) {
    if (slice.size == 0) continue;
    const auto found = to_write ? writable(slice) : readable(slice);
    if (!found) return false;
    out.push_back(*found);
  }
  if (out.size() == first && traits_.wants_a_slice) out.push_back({0, 0, 0});
  return true;
}

MemoryRegion Memory::expose_sink(const Slice& slice, ibv_sge& sink) {
  MutableBytes bytes;
  if (!regions_.find_writable(slice, bytes)) return nullptr;
  auto made = register_memory(bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (made) sink = {address_of(bytes.data()), slice.size, made->lkey};
  return made;
}

// --- Exposures ---------------------------------------------------------------------------------

std::optional<Memory::Exposed> Memory::expose(const Slice& slice, RemoteAccess access) {
  if (slice.size == 0) return Exposed{SteeringTag{}, 0, std::nullopt};  // nothing to be reached
  if (traits_.registration == Registration::kWindows) return bind_window(slice, access);
  Bytes memory;
  (void)regions_.find_readable(slice, memory);
  return expose_registered(memory, access);
}

// Returns the registration to which a window over the slice is bound. The kernel requires pages
// that could be written, even for a window that grants no right to write.
ibv_mr* Memory::bindable(const Slice& slice, Exposure& exposure) {
  constexpr unsigned kRights = kWritable | kBindable;
  Bytes memory;
  (void)regions_.find_readable(slice, memory);
  exposure.data = memory.data();
  const bool is_writable = regions_.is_writable(slice.region);
  Registered& registered = registered_[Regions::index_of(slice.region)];
  const auto note_failure = [&] {
    // Mapped without the right to write, as a file may be.
    if (!is_writable && (failure_ == EFAULT || failure_ == EACCES || failure_ == EPERM)) {
      registered.is_bindable = false;
    }
  };
  if (registered.is_bindable && traits_.windows_want_care) {
    exposure.registration = register_memory(memory, kRights);
    if (exposure.registration) return exposure.registration.get();
    note_failure();
  } else if (registered.is_bindable) {
    if (is_writable) return local(slice.region, true);
    if (!registered.bindable) {
      registered.bindable = register_memory(regions_.whole(slice.region), kRights);
    }
    if (registered.bindable) return registered.bindable.get();
    note_failure();
  }
  if (registered.is_bindable) return nullptr;
  // The peer reads a copy of the memory as it is now.
  exposure.copy.assign(memory.begin(), memory.end());
  exposure.data = exposure.copy.data();
  bytes_copied_ += memory.size();
  exposure.registration = register_memory(exposure.copy, kRights);
  return exposure.registration.get();
}

std::optional<std::size_t> Memory::rested_window() {
  // Some more than are in use at a time, so that a key rests before it comes again.
  constexpr std::size_t kResting = 16;
  if (free_windows_.size() < kResting) {
    Owned<ibv_mw, deallocate_window> made(ibv_alloc_mw(&domain_, IBV_MW_TYPE_2));
    if (made) {
      const std::uint32_t key = made->rkey;
      std::size_t index = windows_.size();
      if (given_up_.empty()) {
        windows_.emplace_back();
      } else {
        index = given_up_.back();
        given_up_.pop_back();
      }
      windows_[index] = {std::move(made), key};
      return index;
    }
    failure_ = errno;
  }
  if (free_windows_.empty()) return std::nullopt;
  const std::size_t index = free_windows_.front();
  free_windows_.pop_front();
  return index;
}

std::optional<Memory::Exposed> Memory::bind_window(const Slice& slice, RemoteAccess access) {
  Exposure exposure;
  exposure.access = access;
  ibv_mr* const region = bindable(slice, exposure);
  if (region == nullptr) return std::nullopt;
  exposure.window = rested_window();
  if (!exposure.window) return std::nullopt;
  Window& window = windows_[*exposure.window];
  window.object->rkey = window.key;  // devices' libraries go by it
  window.key = ibv_inc_rkey(window.key);
  ibv_send_wr bind{};
  bind.opcode = IBV_WR_BIND_MW;
  bind.bind_mw.mw = window.object.get();
  bind.bind_mw.rkey = window.key;
  bind.bind_mw.bind_info.mr = region;
  bind.bind_mw.bind_info.addr = address_of(exposure.data);
  bind.bind_mw.bind_info.length = slice.size;
  bind.bind_mw.bind_info.mw_access_flags = remote_right(access);
  const Exposed made{SteeringTag{window.key}, address_of(exposure.data), bind};
  exposures_.emplace(window.key, std::move(exposure));
  return made;
}

MemoryRegion Memory::take_kept(Bytes memory, RemoteAccess access) {
  const auto found = std::ranges::find_if(kept_, [&](const Kept& kept) {
    return kept.registration->addr == memory.data() && kept.registration->length == memory.size() &&
           kept.access == access;
  });
  if (found == kept_.end()) return nullptr;
  MemoryRegion registration = std::move(found->registration);
  kept_.erase(found);
  return registration;
}

// Returns a copy that lies in one page, of the memory as it is now. A boundary can go through one
// of two places side by side only.
Bytes Memory::copy_into_one_page(Bytes memory, std::vector<std::byte>& copy) {
  copy.resize(2 * memory.size());
  MutableBytes place = MutableBytes(copy).first(memory.size());
  if (lies_in_two_pages(place)) place = MutableBytes(copy).last(memory.size());
  std::ranges::copy(memory, place.begin());
  bytes_copied_ += memory.size();
  return place;
}

std::optional<Memory::Exposed> Memory::expose_registered(Bytes memory, RemoteAccess access) {
  Exposure exposure;
  exposure.access = access;
  if (traits_.garbles_short_reads && access == RemoteAccess::kRead &&
      memory.size() <= kGarbledMax && lies_in_two_pages(memory)) {
    memory = copy_into_one_page(memory, exposure.copy);
  } else if (traits_.registration == Registration::kCache) {
    exposure.registration = take_kept(memory, access);
  }
  if (!exposure.registration) {
    // Verbs: who lets others write must be able to write.
    const unsigned own = access == RemoteAccess::kWrite ? IBV_ACCESS_LOCAL_WRITE : 0;
    exposure.registration = register_memory(memory, own | remote_right(access));
  }
  if (!exposure.registration) return std::nullopt;
  const std::uint32_t key = exposure.registration->rkey;
  exposures_[key] = std::move(exposure);
  return Exposed{SteeringTag{key}, address_of(memory.data()), std::nullopt};
}

Memory::Revoked Memory::revoke(SteeringTag tag, ibv_send_wr& work) {
  const auto key = static_cast<std::uint32_t>(tag);
  const auto found = exposures_.find(key);
  if (found == exposures_.end()) return Revoked::kDone;
  if (found->second.window && traits_.windows_want_care) {
    windows_[*found->second.window] = {};
    given_up_.push_back(*found->second.window);
    exposures_.erase(found);
    return Revoked::kDone;
  }
  if (!found->second.window) {
    release(tag);
    return Revoked::kDone;
  }
  work = {};
  work.opcode = IBV_WR_LOCAL_INV;
  work.invalidate_rkey = key;
  return Revoked::kPost;
}

void Memory::forget_bind(SteeringTag tag) {
  const auto found = exposures_.find(static_cast<std::uint32_t>(tag));
  if (found == exposures_.end() || !found->second.window) return;
  Window& window = windows_[*found->second.window];
  window.key = window.object->rkey;  // which it still has
  release(tag);
}

void Memory::release(SteeringTag tag) {
  const auto found = exposures_.find(static_cast<std::uint32_t>(tag));
  if (found == exposures_.end()) return;
  Exposure& exposure = found->second;
  if (exposure.window) {
    free_windows_.push_back(*exposure.window);
  } else if (traits_.registration == Registration::kCache && exposure.copy.empty()) {
    kept_.push_front({std::move(exposure.registration), exposure.access});
    if (kept_.size() > kKeptMax) kept_.pop_back();
  }
  exposures_.erase(found);
}

bool Memory::invalidated(SteeringTag tag) {
  const auto found = exposures_.find(static_cast<std::uint32_t>(tag));
  if (found == exposures_.end() || !found->second.window) return false;
  release(tag);
  return true;
}

void Memory::free_windows() {
  windows_.clear();  // before what they are bound to
  std::erase_if(exposures_, [](const auto& each) { return each.second.window.has_value(); });
  free_windows_.clear();
  given_up_.clear();
}

void Memory::revoke_all() {
  free_windows();
  exposures_.clear();
  kept_.clear();
}

}  // namespace rpcrdma::rdma::verbs
