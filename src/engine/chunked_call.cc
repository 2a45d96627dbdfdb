#include "engine/chunked_call.h"

namespace rpcrdma::engine {

void ChunkedCall::clear() noexcept {
  offered.clear();
  puller.clear();
  reply.stream.clear();
  reply.items.clear();
  has_written = false;
  written = 0;
  invalidate.reset();
  items_.clear();
  filler_ = {};
}

bool ChunkedCall::take(const Received& message, const wire::ChunkLists& lists,
                       const Options& options) {
  const bool is_long = message.kind == Kind::kNoMessage;
  if (!offered.take(lists, options)) return false;
  // A message is inline or in a Position-Zero Read chunk, never both and never neither.
  if (is_long != offered.has_position_zero() || is_long != message.payload.empty()) return false;
  // Nor is it empty: there would be no memory that holds it.
  if (is_long && offered.chunks()[0].size == 0) return false;
  return offered.positions_fit(message.payload.size());
}

void ChunkedCall::describe(CallReceived& received, Counters& counters) {
  for (const ReadChunk& chunk : offered.chunks()) {
    if (chunk.position == 0) {
      received.long_part = chunk.data;
    } else {
      counters.read_chunk_bytes += chunk.size;
      (void)items_.push_back({chunk.position, chunk.data});  // as many as chunks
    }
  }
  received.items = items_.view();
  received.has_chunks = true;
}

bool ChunkedCall::emit_writes(const SlotBase& slot, bool in_reply_chunk, WorkRoom& room,
                              RecentWrites& recent) {
  const WorkId id = to_id({WorkKind::kWrite, 0, slot.index, slot.generation});
  for (SegmentFiller::Piece piece{};;) {
    if (room.full()) return false;
    if (!filler_.next(reply, offered.writes(), offered.reply_chunk(), in_reply_chunk, piece)) {
      return true;
    }
    room.add_write(id, {piece.from, piece.to.length, piece.from_offset}, to_remote(piece.to));
    recent.note(piece.to, slot);
    has_written = true;
    written += piece.to.length;
  }
}

}  // namespace rpcrdma::engine
