// Shows the traffic of one connection to a reader of its server's Tap.
#ifndef RPCRDMA_TRANSPORT_TAPPING_H_
#define RPCRDMA_TRANSPORT_TAPPING_H_

#include <optional>
#include <span>
#include <vector>

#include "base/connection_tap.h"
#include "engine/types.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::transport {

// Its functions are called while is_on() only, but for note_link() and those about
// regions.
class Tapping {
 public:
  // Both outlive it.
  Tapping(Tap& tap, const rdma::QueuePair& queue_pair) noexcept
      : queue_pair_(queue_pair), tap_(&tap, ConnectionTap::Carrier::kRdma) {}

  bool is_on() const noexcept { return tap_.is_on(); }
  // Work names memory by its region.
  void note_attached(work::RegionId region, Bytes memory) { regions_.push_back({region, memory}); }
  void note_detached(work::RegionId region);
  // The connection is up.
  void note_link(const engine::LinkParameters& link) noexcept;
  // The work was posted, and its memory is still lent.
  [[gnu::cold, gnu::noinline]] void note_posted(std::span<const work::Request> batch);
  void note_received(Bytes message, std::optional<SteeringTag> invalidated);
  void note_done(const rdma::Completion& completion);
  // `why`: empty if it ended in order.
  void note_end(std::string_view why) noexcept { tap_.end(queue_pair_.peer_address(), why); }

 private:
  struct OpenRead {
    std::uint64_t id;
    work::Slice into;
  };

  struct Region {
    work::RegionId id;
    Bytes memory;
  };

  // Returns the memory of a slice; empty: its region is not known.
  Bytes memory_of(const work::Slice& slice) const noexcept;
  void note(const work::Send& send);
  void note(const work::Write& write);
  void note(const work::Read& read, std::uint64_t id);
  void add(const TapRecord& record, std::span<const work::Slice> slices);

  const rdma::QueuePair& queue_pair_;
  ConnectionTap tap_;
  std::vector<OpenRead> open_reads_;  // in the order of posting
  std::vector<Region> regions_;       // a few; the last ones come and go
};

}  // namespace rpcrdma::transport

#endif  // RPCRDMA_TRANSPORT_TAPPING_H_
