// The protection domain of one simulated queue pair: its regions, what of them is exposed, and what
// the peer has written to it.
#ifndef RPCRDMA_RDMA_SIM_DOMAIN_H_
#define RPCRDMA_RDMA_SIM_DOMAIN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::sim {

// Lent memory holds this until something has really arrived in it.
inline constexpr std::byte kPoison{0xdb};

// Checks every access, local and remote, at the moment when it is made.
class Domain {
 public:
  // Local registration. The memory is borrowed until detach().
  RegionId attach(Bytes readable, std::optional<MutableBytes> writable);  // nullopt: read-only
  void detach(RegionId region);  // Precondition: attached, and nothing of it is exposed
  std::size_t region_count() const noexcept { return regions_.size(); }
  std::uint64_t attached_bytes() const noexcept { return attached_bytes_; }
  std::size_t exposure_count() const noexcept { return exposures_.size(); }

  // The memory of a slice; nullopt: no such region, out of its range, or read-only.
  std::optional<Bytes> readable(const Slice& slice) const;
  std::optional<MutableBytes> writable(const Slice& slice) const;

  bool are_readable(std::span<const Slice> slices) const;
  bool are_writable(std::span<const Slice> slices) const;
  // Preconditions of these: the slices were found readable, or writable.
  std::vector<std::byte> gather(std::span<const Slice> slices) const;
  void scatter(Bytes data, std::span<const Slice> into) const;
  void poison(const Slice& slice) const;

  // Precondition: the slice was found readable, or writable for RemoteAccess::kWrite.
  void expose(const Expose& expose, SteeringTag tag, std::uint64_t address);
  bool is_live(SteeringTag tag) const { return exposures_.contains(tag); }
  bool was_given_out(SteeringTag tag) const { return tags_.contains(tag); }
  // False: not live.
  bool revoke(SteeringTag tag) { return exposures_.erase(tag) != 0; }
  // Also forgets Writes that are not visible yet.
  void revoke_all();

  // Return the memory that a peer may access; nullopt: dead tag, wrong right, or not inside the
  // exposed run.
  std::optional<Bytes> remote_readable(const Remote& remote) const;
  std::optional<MutableBytes> remote_writable(const Remote& remote) const;
  // Accepts a Write of the peer, which show_writes() makes visible.
  void write_later(MutableBytes into, std::vector<std::byte> data);
  void show_writes();

 private:
  struct Region {
    Bytes readable;
    std::optional<MutableBytes> writable;
  };
  struct Exposure {
    RegionId region;
    RemoteAccess access;
    std::uint64_t address;
    Bytes readable;         // with RemoteAccess::kRead
    MutableBytes writable;  // with RemoteAccess::kWrite
  };
  const Exposure* find(const Remote& remote, RemoteAccess access) const;

  std::map<RegionId, Region> regions_;
  std::uint64_t attached_bytes_ = 0;
  struct PendingWrite {
    MutableBytes into;
    std::vector<std::byte> data;
  };
  std::map<SteeringTag, Exposure> exposures_;
  std::set<SteeringTag> tags_;  // all that were ever given out here
  std::vector<PendingWrite> pending_writes_;
  std::uint32_t next_region_ = 1;  // never used twice
};

}  // namespace rpcrdma::rdma::sim

#endif  // RPCRDMA_RDMA_SIM_DOMAIN_H_
