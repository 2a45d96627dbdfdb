// The chunks of a Call that we make, and what its reply says about them.
#ifndef RPCRDMA_ENGINE_CALL_CHUNKS_H_
#define RPCRDMA_ENGINE_CALL_CHUNKS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "engine/chunk_planner.h"
#include "engine/exposure_set.h"
#include "engine/shared.h"
#include "engine/slot_table.h"
#include "engine/types.h"
#include "engine/work_room.h"
#include "wire/chunk_lists.h"

namespace rpcrdma::engine {

using Results = BoundedVector<std::uint32_t, wire::kWriteChunksMax>;  // bytes of each

// The additional state of a Call that is not a single inline run with a short reply: its plan, the
// handles that it offers, and how much of the offered memory the reply used.
class CallChunks {
 public:
  CallPlan plan;

  void clear() noexcept;
  bool any() const noexcept { return !plan.segments.empty(); }
  // Emits the Exposes that are left; adds to `posted` for each. False: the room is full.
  bool emit_exposures(const SlotBase& slot, WorkRoom& room, std::uint8_t& posted);
  bool all_asked() const noexcept { return exposures.size() == plan.segments.size(); }
  // Emits the Revokes of the handles that are live, in the same way.
  bool emit_revokes(const SlotBase& slot, WorkRoom& room, std::uint8_t& posted, Counters& counters);
  // Marks the handle that the peer's Send invalidated. False: it is not one of this call's.
  bool invalidated(SteeringTag tag, Counters& counters);
  // Encodes the header, whose chunks have their handles; returns its size, bytes.
  std::uint32_t encode_header(Shared& shared, Xid xid, std::uint32_t credits, MutableBytes place);

  // Notes how many bytes of each offered result the reply's Write list says were written. All three
  // forms that peers send are taken: every segment with its length rewritten, only those used, or
  // no list at all (docs/wire.md). False: it does not fit what was offered. `may_round_up`: the
  // length may include XDR padding (RFC 5666 §3.7).
  bool take_results(const wire::WriteList& writes, bool may_round_up, Counters& counters);

  ExposureSet exposures;  // of plan.segments
  Results results;

 private:
  void list(wire::ChunkLists& lists) const;
};

// RFC 5531 §9: bytes of the shortest reply, AUTH_ERROR.
inline constexpr std::size_t kReplySizeMin = 20;
// Returns whether this is the Payload stream of a message with this XID, and long enough for any
// reply.
bool is_stream_of(Bytes payload, Xid xid) noexcept;
// Returns whether it is one whose message type is not CALL.
inline bool is_reply_to(Bytes payload, Xid xid) noexcept {
  return is_stream_of(payload, xid) && xdr::load_word(payload.data() + xdr::kWordSize) != 0;
}

std::uint64_t size_of(std::span<const wire::Segment> chunk) noexcept;

// The places of a reply that came for a Call.
struct ReplyPlace {
  Bytes inline_part;
  std::uint32_t in_reply_chunk;  // bytes of it in the memory of Outgoing::reply_room; 0: inline
};
// nullopt: it is in neither, or in more than was offered, or shorter than any reply. `plan`: of the
// Call; null: it had no chunks. `pulled`: bytes of the reply that were at position zero of its Read
// list (RFC 5666), 0: there was none.
std::optional<ReplyPlace> place_reply(const Received& message, const wire::ChunkLists& lists,
                                      const CallPlan* plan, std::uint32_t pulled) noexcept;

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_CALL_CHUNKS_H_
