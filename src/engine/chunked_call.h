// A received Call with chunks, or whose reply has several runs: what its slot has besides.
#ifndef RPCRDMA_ENGINE_CHUNKED_CALL_H_
#define RPCRDMA_ENGINE_CHUNKED_CALL_H_

#include <cstdint>
#include <optional>

#include "engine/chunk_planner.h"
#include "engine/offered_chunks.h"
#include "engine/pull_window.h"
#include "engine/puller.h"
#include "engine/recent_writes.h"
#include "engine/slot_table.h"
#include "engine/types.h"
#include "engine/work_room.h"

namespace rpcrdma::engine {

class ChunkedCall {
 public:
  OfferedChunks offered;
  Puller puller;
  PullWindow::Claim claim;
  ReplyPlan reply;
  bool has_written = false;               // RDMA Writes went out for its reply
  std::uint64_t written = 0;              // bytes of these, or of a reply that is read
  std::optional<SteeringTag> invalidate;  // by the Send of its reply
  Padding padding;                        // of an RDMA_MSGP

  void clear() noexcept;
  // Takes the chunk lists and fields of the header. False: they make no sense (RFC 8166 §4.5.2).
  bool take(const Received& message, const wire::ChunkLists& lists, const Options& options);
  // Describes the pulled items to the layer above; valid until CallDone.
  void describe(CallReceived& received, Counters& counters);
  // Emits the RDMA Writes of the reply that are left. `in_reply_chunk`: its stream is one of them.
  // False: the room is full.
  bool emit_writes(const SlotBase& slot, bool in_reply_chunk, WorkRoom& room, RecentWrites& recent);

 private:
  BoundedVector<PulledItem, kReadChunksMax> items_;
  ReplyFiller filler_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_CHUNKED_CALL_H_
