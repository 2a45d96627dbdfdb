// The memory of one queue pair: regions, their registrations, and the parts that a peer may access.
//
// A region is registered for local use when it is first used so, without any remote right. A peer
// accesses a window over a run of it, or a registration of just that run.
#ifndef RPCRDMA_RDMA_VERBS_MEMORY_H_
#define RPCRDMA_RDMA_VERBS_MEMORY_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "rdma/regions.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/fork_guard.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

using MemoryRegion = Owned<ibv_mr, ibv_dereg_mr>;

int deallocate_window(ibv_mw* window);  // a function of our own, since rdma-core's is in its header

class Memory {
 public:
  Memory(ibv_pd& domain, const Traits& traits, std::uint32_t regions_max,
         std::uint32_t exposures_max);

  // Null for `writable`: the memory is read only.
  Expected<RegionId, Error> attach(Bytes memory, std::byte* writable);
  void detach(RegionId id);

  // A slice as the device wants it. nullopt: it is not inside of a region, may not be written to,
  // or its memory cannot be registered; then failure() tells the errno.
  std::optional<ibv_sge> readable(const Slice& slice);
  std::optional<ibv_sge> writable(const Slice& slice);
  // Adds all that hold bytes to `out`; an empty one for a device that wants at least one. False: as
  // nullopt above.
  bool gather(std::span<const Slice> slices, bool to_write, std::vector<ibv_sge>& out);
  // Only whether the slice is inside of a region; for work that leaves by value.
  bool find_readable(const Slice& slice, Bytes& bytes) const {
    return regions_.find_readable(slice, bytes);
  }
  bool find_writable(const Slice& slice, MutableBytes& bytes) const {
    return regions_.find_writable(slice, bytes);
  }
  int failure() const noexcept { return failure_; }

  // The sink of an RDMA Read where that needs a remote right: lives as long as the Read.
  MemoryRegion expose_sink(const Slice& slice, ibv_sge& sink);

  // An exposure. With windows the work that makes it good is still to be posted.
  struct Exposed {
    SteeringTag tag;
    std::uint64_t address;
    std::optional<ibv_send_wr> bind;
  };
  // Precondition: the slice is inside of its region, and writable if the peer is to write. nullopt:
  // the memory cannot be registered; see failure().
  std::optional<Exposed> expose(const Slice& slice, RemoteAccess access);
  bool has_room_for(std::size_t exposures) const noexcept {
    return exposures_.size() + exposures <= exposures_max_;
  }
  // Ends an exposure. kDone: at once, or it had ended before. kPost: `work` is to be posted, and
  // release() called when it is complete; the tag is dead by then.
  enum class Revoked : std::uint8_t { kDone, kPost };
  Revoked revoke(SteeringTag tag, ibv_send_wr& work);
  void release(SteeringTag tag);
  void forget_bind(SteeringTag tag);  // the device never heard of it
  // The peer has invalidated the tag. False: it is not one of ours.
  bool invalidated(SteeringTag tag);
  // The end: the queue pair moves nothing any more, or (revoke_all) is gone. No exposure is left.
  void free_windows();
  void revoke_all();

  std::uint64_t registrations() const noexcept { return registrations_; }
  std::uint64_t attached_bytes() const noexcept { return regions_.bytes(); }
  std::uint64_t bytes_copied() const noexcept { return bytes_copied_; }

 private:
  struct Registered {
    MemoryRegion local;     // for our own work; also what windows are bound to
    MemoryRegion bindable;  // of read-only memory, for windows
    bool is_bindable = true;
  };
  struct Window {
    Owned<ibv_mw, deallocate_window> object;
    std::uint32_t key = 0;  // of the latest binding
  };
  struct Exposure {
    std::optional<std::size_t> window;  // index
    std::vector<std::byte> copy;        // which the peer reads in place of the memory
    MemoryRegion registration;          // of just this run, where no window limits a larger one
    RemoteAccess access{};
    const std::byte* data = nullptr;  // the first byte
  };
  // A registration with its rights, kept for the same run (Registration::kCache).
  struct Kept {
    MemoryRegion registration;
    RemoteAccess access;
  };
  static constexpr std::size_t kKeptMax = 256;

  MemoryRegion register_memory(Bytes memory, unsigned access);
  ibv_mr* local(RegionId id, bool writes);
  ibv_mr* bindable(const Slice& slice, Exposure& exposure);
  std::optional<Exposed> bind_window(const Slice& slice, RemoteAccess access);
  std::optional<Exposed> expose_registered(Bytes memory, RemoteAccess access);
  Bytes copy_into_one_page(Bytes memory, std::vector<std::byte>& copy);
  MemoryRegion take_kept(Bytes memory, RemoteAccess access);
  std::optional<std::size_t> rested_window();

  ibv_pd& domain_;
  const Traits traits_;
  const std::uint32_t exposures_max_;
  Regions regions_;
  std::vector<Registered> registered_;  // by Regions::index_of()
  std::vector<Window> windows_;
  std::deque<std::size_t> free_windows_;  // the one that has rested longest is taken next
  std::vector<std::size_t> given_up_;     // places in windows_ without an object
  std::unordered_map<std::uint32_t, Exposure> exposures_;
  std::list<Kept> kept_;  // latest first
  int failure_ = 0;
  std::uint64_t registrations_ = 0, bytes_copied_ = 0;
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_MEMORY_H_
