#include "engine/chunk_planner.h"

#include <algorithm>

#include "base/assert.h"
#include "engine/stream_parts.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::engine {
namespace {

bool add_segment(CallPlan& plan, ChunkKind kind, Lease memory, std::uint64_t offset,
                 std::uint32_t size, std::uint64_t chunk) {
  return plan.segments.push_back({memory, size, offset, kind, static_cast<std::uint32_t>(chunk)});
}

// Splits the Call's stream, reducing every item of at least `size_min` bytes.
bool reduce_call(const Outgoing& call, std::uint64_t size_min, const HeaderSizes& sizes,
                 CallPlan& plan) {
  plan.inline_runs.clear();
  plan.segments.clear();
  plan.header_size = sizes.shortest;
  return split_stream(
      call.stream, plan.inline_runs,
      [&](std::uint32_t, std::uint64_t size) { return size > 0 && size >= size_min; },
      [&](const Fragment& run, std::uint64_t position, std::uint32_t) {
        plan.header_size += sizes.read_segment;
        return add_segment(plan, ChunkKind::kRead, run.memory, run.offset, run.size, position);
      });
}

// Moves what stays inline into a Position-Zero Read chunk, in front of the other Read segments.
bool make_long(const HeaderSizes& sizes, CallPlan& plan) {
  BoundedVector<PlannedSegment, kExposuresMax> others;
  (void)others.assign(plan.segments.view());
  plan.segments.clear();
  for (const Fragment& run : plan.inline_runs) {
    plan.header_size += sizes.read_segment;
    if (!add_segment(plan, ChunkKind::kRead, run.memory, run.offset, run.size, 0)) return false;
  }
  for (const PlannedSegment& segment : others) {
    if (!plan.segments.push_back(segment)) return false;
  }
  plan.inline_runs.clear();
  plan.is_long = true;
  return true;
}

}  // namespace

// RFC 8166 §3.4.6, §4.3.3: a Reply chunk when the largest possible reply exceeds the reply
// threshold.
Expected<void, StartError> plan_answer(const Outgoing& call, const Options& options,
                                       const LinkParameters& link, AnswerBy answer_by,
                                       CallPlan& plan) {
  const HeaderSizes& sizes = header_sizes(link.dialect);
  const std::uint32_t threshold = link.inline_receive;
  if (answer_by == AnswerBy::kReads) {
    std::uint64_t in_rooms = 0;
    for (const ResultRoom& room : call.results) in_rooms += xdr::padded(room.size_max);
    const std::uint64_t left =
        call.reply_size_max - std::min<std::uint64_t>(call.reply_size_max, in_rooms);
    const bool has_room = call.reply_room && call.reply_room->size_max >= left;
    if (!has_room) return Unexpected<StartError>(StartError::kReplyRoomNeeded);
    return {};
  }
  const bool fits_whole = std::uint64_t{sizes.shortest} + call.reply_size_max <= threshold;
  std::uint64_t reply_left = call.reply_size_max;
  std::uint64_t reply_header = sizes.shortest;
  std::uint32_t chunk = 0;
  for (std::size_t i = 0; i < call.results.size() && options.reduce;) {
    std::uint64_t size = 0;
    std::size_t end = i;
    while (end < call.results.size() && call.results[end].item == call.results[i].item) {
      size += call.results[end++].size_max;
    }
    // Chunks are used in order, so a result can only stay inline when all behind it do: reduce by
    // the size of the reply as a whole and of each result, but never leave a gap.
    if (fits_whole && size < options.reduce_size_min) break;
    const std::size_t count = end - i;
    for (; i < end; ++i) {
      const ResultRoom& room = call.results[i];
      if (!add_segment(plan, ChunkKind::kWrite, room.memory, room.offset, room.size_max, chunk)) {
        return Unexpected<StartError>(StartError::kTooLarge);
      }
    }
    if (count > wire::kSegmentsPerChunkMax || ++chunk > wire::kWriteChunksMax) {
      return Unexpected<StartError>(StartError::kTooLarge);
    }
    plan.header_size += sizes.write_chunk + sizes.plain_segment * static_cast<std::uint32_t>(count);
    reply_header += sizes.write_chunk + sizes.plain_segment * count;
    reply_left -= std::min<std::uint64_t>(reply_left, xdr::padded(size));
  }
  if (reply_header + reply_left <= threshold) return {};
  if (!call.reply_room || call.reply_room->size_max < reply_left) {
    return Unexpected<StartError>(StartError::kReplyRoomNeeded);
  }
  const ResultRoom& room = *call.reply_room;
  plan.header_size += sizes.reply_chunk + sizes.plain_segment;
  if (!add_segment(plan, ChunkKind::kReply, room.memory, room.offset, room.size_max, 0)) {
    return Unexpected<StartError>(StartError::kTooLarge);
  }
  return {};
}

Expected<void, StartError> plan_call(const Outgoing& call, const Options& options,
                                     const LinkParameters& link, AnswerBy answer_by,
                                     CallPlan& plan) {
  plan.is_long = false;
  constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // First leave small items inline; if that is too long, reduce them all (RFC 8166 §3.5.2 before
  // §3.5.3); if it still is, the rest goes by a Position-Zero Read chunk. Where the peer's Receives
  // are long, items that are not small are tried inline before.
  const bool reduce = options.reduce && link.read_chunks;
  const std::uint64_t small = options.reduce_size_min;
  const bool takes_more = link.inline_send > options.inline_arguments_max;
  const std::uint64_t larger = takes_more ? options.inline_arguments_max + std::uint64_t{1} : 0;
  std::uint64_t attempts[] = {std::max(small, larger), small, 1};
  if (!reduce) std::ranges::fill(attempts, kNever);
  const std::size_t skipped = attempts[0] == attempts[1] ? 1 : 0;
  for (const std::uint64_t size_min : std::span(attempts).subspan(skipped)) {
    if (!reduce_call(call, size_min, header_sizes(link.dialect), plan))
      return Unexpected<StartError>(StartError::kTooLarge);
    if (auto planned = plan_answer(call, options, link, answer_by, plan); !planned) return planned;
    if (plan.header_size + stream_size(plan.inline_runs.view()) <= link.inline_send) return {};
  }
  if (!link.read_chunks) return Unexpected<StartError>(StartError::kNoReadChunks);
  if (!make_long(header_sizes(link.dialect), plan) || plan.header_size > link.inline_send) {
    return Unexpected<StartError>(StartError::kTooLarge);
  }
  return {};
}

namespace {

std::uint64_t capacity(std::span<const wire::Segment> chunk) {
  std::uint64_t size = 0;
  for (const wire::Segment& segment : chunk) size += segment.length;
  return size;
}

// The segments of an offered chunk as a reply returns them when `used` bytes were written.
// `add(segment)`: false when there is no room, which a chunk of what was offered always has.
template <class Add>
void return_segments(std::span<const wire::Segment> offered, std::uint64_t used, ReturnForm form,
                     Add&& add) {
  for (const wire::Segment& segment : offered) {
    if (used == 0 && form == ReturnForm::kShortened) break;
    const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(segment.length, used));
    used -= length;
    (void)add(wire::Segment{segment.handle, length, segment.offset});
  }
}

}  // namespace

void return_reply_chunk(wire::ChunkLists& lists, std::span<const wire::Segment> offered,
                        std::uint64_t used, ReturnForm form) {
  lists.has_reply = true;
  lists.reply.clear();
  return_segments(offered, used, form,
                  [&](const wire::Segment& segment) { return lists.reply.push_back(segment); });
}

void plan_reply(std::span<const Fragment> stream, const wire::WriteList& writes, bool has_reply,
                std::span<const wire::Segment> reply_chunk, const Options& options,
                const LinkParameters& link, ReplyPlan& plan, wire::ChunkLists& returned) {
  plan.stream.clear();
  plan.items.clear();
  returned.clear();
  plan.form = ReplyForm::kErrChunk;
  std::uint64_t used[wire::kWriteChunksMax] = {};
  // RFC 8166 §4.3.2: chunks are consumed in list order, one result each, whatever its size; results
  // beyond the last chunk stay in the stream.
  const bool split = split_stream(
      stream, plan.stream, [&](std::uint32_t item, std::uint64_t) { return item < writes.size(); },
      [&](Fragment run, std::uint64_t, std::uint32_t item) {
        used[item] += run.size;
        run.item = static_cast<std::uint16_t>(item + 1);
        return run.size == 0 || plan.items.push_back(run);
      });
  if (!split) return;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (used[i] > capacity(writes.chunk(i))) return;
    if (!returned.writes.begin_chunk()) return;
    return_segments(writes.chunk(i), used[i], options.return_form,
                    [&](const wire::Segment& segment) { return returned.writes.add(segment); });
  }
  const std::uint64_t left = stream_size(plan.stream.view());
  if (has_reply) return_reply_chunk(returned, reply_chunk, 0, options.return_form);
  if (header_size(link.dialect, returned) + left <= link.inline_send) {
    plan.form = ReplyForm::kMsg;
    return;
  }
  if (!has_reply || left > capacity(reply_chunk)) return;
  return_reply_chunk(returned, reply_chunk, left, options.return_form);
  if (header_size(link.dialect, returned) <= link.inline_send) plan.form = ReplyForm::kNoMsg;
}

bool SegmentFiller::next(std::span<const Fragment> source, std::span<const wire::Segment> target,
                         Piece& piece) {
  while (run_ < source.size() && run_done_ == source[run_].size) {
    ++run_;
    run_done_ = 0;
  }
  if (run_ == source.size()) return false;
  while (segment_ < target.size() && segment_done_ == target[segment_].length) {
    ++segment_;
    segment_done_ = 0;
  }
  RPCRDMA_ASSERT(segment_ < target.size(), "the chunk was checked to hold the data");
  const Fragment& run = source[run_];
  const wire::Segment& segment = target[segment_];
  const std::uint32_t size = std::min(run.size - run_done_, segment.length - segment_done_);
  piece = {
      run.memory, run.offset + run_done_, {segment.handle, size, segment.offset + segment_done_}};
  run_done_ += size;
  segment_done_ += size;
  return true;
}

namespace {

std::span<const Fragment> items_of_chunk(const ReplyPlan& plan, std::uint16_t chunk) {
  const auto items = plan.items.view();
  std::size_t first = 0;
  while (first < items.size() && items[first].item != chunk + 1) ++first;
  std::size_t end = first;
  while (end < items.size() && items[end].item == chunk + 1) ++end;
  return items.subspan(first, end - first);
}

}  // namespace

bool ReplyFiller::next(const ReplyPlan& plan, const wire::WriteList& writes,
                       std::span<const wire::Segment> reply_chunk, bool in_reply_chunk,
                       SegmentFiller::Piece& piece) {
  for (; chunk_ < writes.size(); ++chunk_, filler_ = {}) {
    if (filler_.next(items_of_chunk(plan, chunk_), writes.chunk(chunk_), piece)) return true;
  }
  return in_reply_chunk && filler_.next(plan.stream.view(), reply_chunk, piece);
}

void count_reply(const ReplyPlan* plan, bool has_write_list, Counters& counters) {
  const bool is_long = plan != nullptr && plan->form == ReplyForm::kNoMsg;
  counters.nomsg_replies += is_long ? 1 : 0;
  counters.reply_chunk_count += is_long ? 1 : 0;
  counters.short_replies += is_long || has_write_list ? 0 : 1;
  if (plan == nullptr) return;
  std::uint16_t last = 0;
  for (const Fragment& run : plan->items) {
    counters.write_chunk_bytes += run.size;
    if (run.item != last) ++counters.write_chunk_count;
    last = run.item;
  }
}

}  // namespace rpcrdma::engine
