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

std::optional<RegionId> Memory::attach(Bytes memory, std::byte* writable) {
  const auto id = regions_.add(memory, writable);
  if (id && registered_.size() <= Regions::index_of(*id)) {
    registered_.resize(Regions::index_of(*id) + 1);
  }
  return id;
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

MemoryRegion Memory::expose_sink(const Slice& slice, ibv_sge& sink) {
  MutableBytes bytes;
  if (!regions_.find_writable(slice, bytes)) return nullptr;
  auto made = register_memory(bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (made) sink = {address_of(bytes.data()), slice.size, made->lkey};
  return made;
}

// --- Exposures ---------------------------------------------------------------------------------

std::optional<Memory::Exposed> Memory::expose(const Slice& slice, RemoteAccess access) {
  if (traits_.registration == Registration::kWindows) return bind_window(slice, access);
  Bytes memory;
  (void)regions_.find_readable(slice, memory);
  return expose_registered(memory, access);
}

// What a window over the slice is bound to, and where the slice's first byte is in it. The kernel
// wants pages that could be written for it; who may write says the window.
ibv_mr* Memory::bindable(const Slice& slice, const std::byte*& data, MemoryRegion& own) {
  constexpr unsigned kRights = kWritable | kBindable;
  Bytes memory;
  (void)regions_.find_readable(slice, memory);
  data = memory.data();
  Registered& registered = registered_[Regions::index_of(slice.region)];
  const bool is_writable = regions_.is_writable(slice.region);
  if (traits_.windows_want_care) {
    if (registered.copy.empty()) own = register_memory(memory, kRights);
    if (own || is_writable) return own.get();
    data = readable_copy(slice);
    own = register_memory({data, slice.size}, kRights);
    return own.get();
  }
  if (is_writable) return local(slice.region, true);
  if (!registered.bindable && registered.copy.empty()) {
    registered.bindable = register_memory(regions_.whole(slice.region), kRights);
    if (!registered.bindable) {
      (void)readable_copy(slice);
      registered.bindable = register_memory(registered.copy, kRights);
    }
  }
  if (!registered.copy.empty()) data = readable_copy(slice);
  return registered.bindable.get();
}

// Memory that is mapped without the right to write, as a file may be, cannot have a window: a copy
// is what the peer can read.
const std::byte* Memory::readable_copy(const Slice& slice) {
  Registered& registered = registered_[Regions::index_of(slice.region)];
  if (registered.copy.empty()) {
    const Bytes whole = regions_.whole(slice.region);
    registered.copy.assign(whole.begin(), whole.end());
    bytes_copied_ += whole.size();
  }
  return registered.copy.data() + slice.offset;
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
  const std::byte* data = nullptr;
  MemoryRegion own;
  ibv_mr* const region = bindable(slice, data, own);
  if (region == nullptr) return std::nullopt;
  const auto index = rested_window();
  if (!index) return std::nullopt;
  Window& window = windows_[*index];
  window.object->rkey = window.key;  // devices' libraries go by it
  window.key = ibv_inc_rkey(window.key);
  ibv_send_wr bind{};
  bind.opcode = IBV_WR_BIND_MW;
  bind.bind_mw.mw = window.object.get();
  bind.bind_mw.rkey = window.key;
  bind.bind_mw.bind_info.mr = region;
  bind.bind_mw.bind_info.addr = address_of(data);
  bind.bind_mw.bind_info.length = slice.size;
  bind.bind_mw.bind_info.mw_access_flags = remote_right(access);
  exposures_.emplace(window.key, Exposure{*index, std::move(own), access});
  return Exposed{SteeringTag{window.key}, address_of(data), bind};
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

std::optional<Memory::Exposed> Memory::expose_registered(Bytes memory, RemoteAccess access) {
  MemoryRegion made;
  if (traits_.registration == Registration::kCache) made = take_kept(memory, access);
  if (!made) {
    // Verbs: who lets others write must be able to write.
    const unsigned own = access == RemoteAccess::kWrite ? IBV_ACCESS_LOCAL_WRITE : 0;
    made = register_memory(memory, own | remote_right(access));
  }
  if (!made) return std::nullopt;
  const std::uint32_t key = made->rkey;
  exposures_.emplace(key, Exposure{std::nullopt, std::move(made), access});
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
  } else if (traits_.registration == Registration::kCache) {
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
