// Replies by Read chunks (RFC 5666 §3.8), on both sides: pure functions, no state.
#ifndef RPCRDMA_ENGINE_RFC5666_READ_REPLY_PLANNER_H_
#define RPCRDMA_ENGINE_RFC5666_READ_REPLY_PLANNER_H_

#include <cstdint>
#include <optional>
#include <span>

#include "base/bounded_vector.h"
#include "engine/chunk_planner.h"
#include "engine/types.h"
#include "wire/segment.h"

namespace rpcrdma::engine::rfc5666 {

// Memory of a reply that the peer reads: one segment of its Read list.
struct ExposedRun {
  Lease memory;
  std::uint32_t size;  // bytes; 0: an empty item, of which nothing is exposed
  std::uint64_t offset;
  std::uint32_t position;  // in the unreduced stream
  bool operator==(const ExposedRun&) const = default;
};
using ExposedRuns = BoundedVector<ExposedRun, kFragmentsMax>;

// Profile::kRfc5666: a reply by Read chunks, one for each item, and one at position zero for the
// rest when that does not fit the message. Sets the form and stream of `plan`; kErrChunk when this
// is no way either. The Reply chunk that the Call may have offered, of so many segments (nullopt:
// it offered none), comes back unused.
void plan_read_reply(std::span<const Fragment> stream, std::optional<std::size_t> reply_segments,
                     const Options& options, const LinkParameters& link, ReplyPlan& plan,
                     ExposedRuns& runs);

// Pairs the Read segments of a reply with the memory that the call has for them.
struct PlannedRead {
  wire::Segment from;
  Lease to;
  std::uint64_t to_offset;
};
struct Pull {
  BoundedVector<PlannedRead, wire::kReadSegmentsMax + kExposuresMax> reads;
  BoundedVector<ReadItem, wire::kWriteChunksMax> items;       // in order of position
  BoundedVector<std::uint32_t, wire::kWriteChunksMax> sizes;  // bytes in each
  std::uint32_t in_reply_room = 0;                            // bytes
};
// False: the chunks do not fit the results' rooms and the reply's. Chunks may be listed in any
// order. Position zero goes to `reply_room`. The others go to the results in that of their
// positions, and those beyond them to `reply_room`, behind each other without gaps. Where there are
// fewer than results, some result came inline, and which is not known yet: then they all go to
// `reply_room`, as far as it has room for them.
bool plan_pull(std::span<const wire::ReadSegment> reads, std::span<const ResultRoom> results,
               const std::optional<ResultRoom>& reply_room, Pull& pull);

}  // namespace rpcrdma::engine::rfc5666

#endif  // RPCRDMA_ENGINE_RFC5666_READ_REPLY_PLANNER_H_
