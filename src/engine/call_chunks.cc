#include "engine/call_chunks.h"

#include "base/assert.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::engine {

namespace {

void count_chunks(const wire::ChunkLists& lists, Counters& counters) {
  if (lists.has_reply) ++counters.reply_chunk_count;
  counters.write_chunk_count += lists.writes.size();
  std::uint32_t position = 0;
  for (const wire::ReadSegment& read : lists.reads) {
    if (read.position != 0) counters.read_chunk_bytes += read.target.length;
    if (read.position != position) ++counters.read_chunk_count;
    position = read.position;
  }
}

WorkId id_of(const SlotBase& slot, WorkKind kind, std::size_t part) {
  return to_id({kind, static_cast<std::uint8_t>(part), slot.index, slot.generation});
}

}  // namespace

std::uint64_t size_of(std::span<const wire::Segment> chunk) noexcept {
  std::uint64_t size = 0;
  for (const wire::Segment& segment : chunk) size += segment.length;
  return size;
}

bool is_stream_of(Bytes payload, Xid xid) noexcept {
  return payload.size() >= kReplySizeMin && begins_with(payload, xid);
}

std::optional<ReplyPlace> place_reply(const Received& message, const wire::ChunkLists& lists,
                                      const CallPlan* plan, std::uint32_t pulled) noexcept {
  const std::uint64_t written = size_of(lists.reply.view());
  if (message.kind != Kind::kNoMessage) {
    if (pulled > 0 || written > 0 || !is_stream_of(message.payload, message.xid)) {
      return std::nullopt;
    }
    return ReplyPlace{message.payload, 0};
  }
  if (pulled > 0) {
    if (written > 0 || pulled < kReplySizeMin) return std::nullopt;
    return ReplyPlace{{}, pulled};
  }
  std::uint64_t offered = 0;
  for (const PlannedSegment& segment :
       plan != nullptr ? plan->segments.view() : std::span<const PlannedSegment>{}) {
    if (segment.kind == ChunkKind::kReply) offered += segment.size;
  }
  if (written < kReplySizeMin || written > offered) return std::nullopt;
  return ReplyPlace{{}, static_cast<std::uint32_t>(written)};
}

void CallChunks::clear() noexcept {
  exposures.clear();
  results.clear();
}

bool CallChunks::emit_exposures(const SlotBase& slot, WorkRoom& room, std::uint8_t& posted) {
  while (!all_asked()) {
    if (room.full()) return false;
    const std::size_t next = exposures.size();
    const PlannedSegment& segment = plan.segments[next];
    auto& expose = room.add<work::Expose>(id_of(slot, WorkKind::kExpose, next));
    expose.memory = {segment.memory, segment.size, segment.offset};
    expose.access =
        segment.kind == ChunkKind::kRead ? work::RemoteAccess::kRead : work::RemoteAccess::kWrite;
    exposures.ask();
    ++posted;
  }
  return true;
}

bool CallChunks::emit_revokes(const SlotBase& slot, WorkRoom& room, std::uint8_t& posted,
                              Counters& counters) {
  return exposures.revoke_live([&](std::size_t part, SteeringTag tag) {
    if (room.full()) return false;
    room.add<work::Revoke>(id_of(slot, WorkKind::kRevoke, part)).tag = tag;
    ++posted;
    ++counters.revoked_locally;
    return true;
  });
}

bool CallChunks::invalidated(SteeringTag tag, Counters& counters) {
  if (!exposures.invalidated(tag)) return false;
  ++counters.invalidated_remotely;
  return true;
}

std::uint32_t CallChunks::encode_header(Shared& shared, Xid xid, std::uint32_t credits,
                                        MutableBytes place) {
  list(shared.lists);
  const Kind kind = plan.is_long ? Kind::kNoMessage : Kind::kMessage;
  const std::uint32_t size = encode(
      shared.link.dialect, {.kind = kind, .xid = xid, .credits = credits}, shared.lists, place);
  // Less, when the peer has taken an earlier version than the plan was made for.
  RPCRDMA_ASSERT(size <= plan.header_size, "the header is not as it was planned");
  if (plan.is_long) ++shared.counters.nomsg_calls;
  count_chunks(shared.lists, shared.counters);
  return size;
}

void CallChunks::list(wire::ChunkLists& lists) const {
  lists.clear();
  for (std::size_t i = 0; i < plan.segments.size(); ++i) {
    const PlannedSegment& planned = plan.segments[i];
    const wire::Segment segment = exposures.segment(i, planned.size);
    bool fits = true;
    switch (planned.kind) {
      case ChunkKind::kRead:
        fits = lists.reads.push_back({planned.chunk, segment});
        break;
      case ChunkKind::kWrite:
        fits = planned.chunk < lists.writes.size() || lists.writes.begin_chunk();
        fits = fits && lists.writes.add(segment);
        break;
      case ChunkKind::kReply:
        lists.has_reply = true;
        fits = lists.reply.push_back(segment);
        break;
    }
    RPCRDMA_ASSERT(fits, "the plan has more segments than a header may have");
  }
}

bool CallChunks::take_results(const wire::WriteList& writes, bool may_round_up,
                              Counters& counters) {
  results.clear();
  const auto take_chunk = [&](std::uint64_t offered) {
    const std::size_t chunk = results.size();
    std::uint64_t written = chunk < writes.size() ? size_of(writes.chunk(chunk)) : 0;
    counters.write_chunk_bytes += written;
    if (may_round_up && written == xdr::padded(offered)) written = offered;
    return written <= offered && results.push_back(static_cast<std::uint32_t>(written));
  };
  std::optional<std::uint64_t> offered;  // in the chunk that the segments are of
  for (const PlannedSegment& segment : plan.segments) {
    if (segment.kind != ChunkKind::kWrite) continue;
    if (offered && segment.chunk != results.size()) {
      if (!take_chunk(*offered)) return false;
      offered.reset();
    }
    offered = offered.value_or(0) + segment.size;
  }
  if (offered && !take_chunk(*offered)) return false;
  return writes.size() <= results.size();
}

}  // namespace rpcrdma::engine
