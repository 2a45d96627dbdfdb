// The chunk lists of a Call's header, and what a reply's say about them: pure functions, no state.
#ifndef RPCRDMA_ENGINE_CALL_CHUNKS_H_
#define RPCRDMA_ENGINE_CALL_CHUNKS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "engine/chunk_planner.h"
#include "engine/exposure_set.h"
#include "engine/types.h"
#include "wire/chunk_lists.h"

namespace rpcrdma::engine {

using Results = BoundedVector<std::uint32_t, wire::kWriteChunksMax>;  // bytes of each

// Lists the planned segments with their handles. Precondition: each has one.
void list_chunks(const CallPlan& plan, const ExposureSet& exposures, wire::ChunkLists& lists);

void count_chunks(const wire::ChunkLists& lists, Counters& counters);

// RFC 5531 §9: bytes of the shortest reply, AUTH_ERROR.
inline constexpr std::size_t kReplySizeMin = 20;
// Whether this is the Payload stream of a message with this XID, of any reply's size.
bool is_stream_of(Bytes payload, Xid xid) noexcept;

std::uint64_t size_of(std::span<const wire::Segment> chunk) noexcept;

// Where a reply is that came for a Call.
struct ReplyPlace {
  Bytes inline_part;
  std::uint32_t in_reply_chunk;  // bytes of it in the memory of Outgoing::reply_room; 0: inline
};
// nullopt: it is in neither, or in more than was offered, or shorter than any reply. `plan`: of the
// Call; null: it had no chunks. `pulled`: bytes of the reply that were at position zero of its Read
// list (RFC 5666), 0: there was none.
std::optional<ReplyPlace> place_reply(const Received& message, const wire::ChunkLists& lists,
                                      const CallPlan* plan, std::uint32_t pulled) noexcept;

// How many bytes of each offered result the reply's Write list says were written. All three forms
// that peers send are taken: every segment with its length rewritten, only those used, or no list
// at all (docs/wire.md). nullopt: it does not fit what was offered. `may_round_up`: the length may
// include XDR padding (RFC 5666 §3.7).
std::optional<Results> written_results(const CallPlan& plan, const wire::WriteList& writes,
                                       bool may_round_up);

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_CALL_CHUNKS_H_
