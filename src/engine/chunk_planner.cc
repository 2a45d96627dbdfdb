#include "engine/chunk_planner.h"

#include <algorithm>

#include "base/assert.h"
#include "engine/outbox.h"
#include "engine/stream_parts.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::engine {
namespace {

// A stream that is one inline run.
void take_run(BoundedVector<Fragment, kFragmentsMax>& runs, const Fragment& run) {
  runs.clear();
  Fragment& added = runs.extend();
  added.memory = run.memory;
  added.size = run.size;
  added.offset = run.offset;
  added.item = 0;
}

bool add_segment(CallPlan& plan, ChunkKind kind, Lease memory, std::uint64_t offset,
                 std::uint32_t size, std::uint64_t chunk) {
  return plan.segments.push_back({memory, size, offset, kind, static_cast<std::uint32_t>(chunk)});
}

// Adds Write chunks for the results and the Reply chunk where they are needed. RFC 8166 §3.4.6,
// §4.3.3: a Reply chunk when the largest possible reply exceeds the reply threshold.
Expected<void, StartError> plan_answer(const Outgoing& call, const Options& options,
                                       const Negotiated& negotiated, CallPlan& plan) {
  const std::uint32_t threshold = negotiated.inline_receive;
  if (may_be_answered_by_read(call, options, negotiated)) {
    std::uint64_t in_rooms = 0;
    for (const ResultRoom& room : call.results) in_rooms += xdr::padded(room.size_max);
    const std::uint64_t left =
        call.reply_size_max - std::min<std::uint64_t>(call.reply_size_max, in_rooms);
    const bool has_room = call.reply_room && call.reply_room->size_max >= left;
    if (!has_room) return Unexpected<StartError>(StartError::kReplyRoomNeeded);
    return {};
  }
  const bool fits_whole =
      wire::v1::kHeaderSizeMin + std::uint64_t{call.reply_size_max} <= threshold;
  std::uint64_t reply_left = call.reply_size_max;
  std::uint64_t reply_header = wire::v1::kHeaderSizeMin;
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
    plan.header_size += kWriteEntrySize + kSegmentSize * static_cast<std::uint32_t>(count);
    reply_header += kWriteEntrySize + kSegmentSize * count;
    reply_left -= std::min<std::uint64_t>(reply_left, xdr::padded(size));
  }
  if (reply_header + reply_left <= threshold) return {};
  if (!call.reply_room || call.reply_room->size_max < reply_left) {
    return Unexpected<StartError>(StartError::kReplyRoomNeeded);
  }
  const ResultRoom& room = *call.reply_room;
  plan.header_size += kReplyEntrySize + kSegmentSize;
  if (!add_segment(plan, ChunkKind::kReply, room.memory, room.offset, room.size_max, 0)) {
    return Unexpected<StartError>(StartError::kTooLarge);
  }
  return {};
}

// Splits the Call's stream, reducing every item of at least `size_min` bytes.
bool reduce_call(const Outgoing& call, std::uint64_t size_min, CallPlan& plan) {
  plan.inline_runs.clear();
  plan.segments.clear();
  plan.header_size = wire::v1::kHeaderSizeMin;
  return split_stream(
      call.stream, plan.inline_runs,
      [&](std::uint32_t, std::uint64_t size) { return size > 0 && size >= size_min; },
      [&](const Fragment& run, std::uint64_t position, std::uint32_t) {
        plan.header_size += kReadEntrySize;
        return add_segment(plan, ChunkKind::kRead, run.memory, run.offset, run.size, position);
      });
}

// Moves what stays inline into a Position-Zero Read chunk, in front of the other Read segments.
bool make_long(CallPlan& plan) {
  BoundedVector<PlannedSegment, kExposuresMax> others;
  (void)others.assign(plan.segments.view());
  plan.segments.clear();
  for (const Fragment& run : plan.inline_runs) {
    plan.header_size += kReadEntrySize;
    if (!add_segment(plan, ChunkKind::kRead, run.memory, run.offset, run.size, 0)) return false;
  }
  for (const PlannedSegment& segment : others) {
    if (!plan.segments.push_back(segment)) return false;
  }
  plan.inline_runs.clear();
  plan.is_long = true;
  return true;
}

constexpr std::uint32_t kPaddedHeaderSize = wire::v1::kHeaderSizeMin + 8;  // bytes; two words more

// RFC 5666 §3.9: aligns the item at the end of a Call that has no chunks. False: it is not such a
// Call, or it would not fit.
bool pad_call(const Outgoing& call, const Options& options, const Negotiated& negotiated,
              CallPlan& plan) {
  const std::uint32_t alignment = negotiated.padding_alignment;
  if (options.profile != Profile::kRfc5666 || alignment < 2) return false;
  const auto item =
      std::ranges::find_if(call.stream, [](const Fragment& run) { return run.item != 0; });
  if (item == call.stream.end()) return false;
  const auto first = static_cast<std::size_t>(item - call.stream.begin());
  const ItemExtent extent = item_extent(call.stream, first);
  const std::uint64_t behind = stream_size(call.stream.subspan(extent.end));
  const std::uint64_t head = stream_size(call.stream.first(first));
  // The receiver looks for padding in front of every opaque above the threshold, and only this item
  // has some: no opaque of the head is larger than the head.
  const std::uint64_t threshold = std::max<std::uint64_t>(options.rfc5666.padding_threshold, head);
  // Peers that compare with "at least" and with "more than" agree on this size.
  if (extent.size <= threshold) return false;
  if (behind != xdr::pad_size(extent.size)) return false;
  const std::uint64_t before =
      head + (options.rfc5666.padding_base == PaddingBase::kBuffer ? kPaddedHeaderSize : 0);
  const std::uint64_t pad = (alignment - before % alignment) % alignment;
  if (kPaddedHeaderSize + head + pad + extent.size + behind > negotiated.inline_send) return false;
  if (kPaddedHeaderSize + pad > HeaderArena::kSizeMax) return false;
  if (auto planned = plan_answer(call, options, negotiated, plan);
      !planned || !plan.segments.empty()) {
    return false;
  }
  for (const Fragment& run : call.stream.first(first)) {
    if (!append_run(plan.inline_runs, run)) return false;
  }
  plan.pad_before = static_cast<std::uint32_t>(plan.inline_runs.size());
  for (const Fragment& run : call.stream.subspan(first)) {
    if (!plan.inline_runs.push_back(run)) return false;  // not joined with what is before the pad
    plan.inline_runs.back().item = 0;
  }
  if (plan.inline_runs.full()) return false;  // the pad takes a place in the message's list
  plan.header_size = kPaddedHeaderSize;
  plan.pad_size = static_cast<std::uint32_t>(pad);
  plan.pad_threshold = static_cast<std::uint32_t>(threshold);
  plan.is_padded = true;
  return true;
}

}  // namespace

Padding padding_of(const wire::v1::Msgp& message, const Options& options) noexcept {
  const bool from_buffer = options.rfc5666.padding_base == PaddingBase::kBuffer;
  return {message.align, message.threshold, from_buffer ? kPaddedHeaderSize : 0};
}

bool may_be_answered_by_read(const Outgoing& call, const Options& options,
                             const Negotiated& negotiated) noexcept {
  return options.profile == Profile::kRfc5666 && options.rfc5666.results_by_read &&
         wire::v1::kHeaderSizeMin + std::uint64_t{call.reply_size_max} > negotiated.inline_receive;
}

Expected<void, StartError> plan_call(const Outgoing& call, const Options& options,
                                     const Negotiated& negotiated, CallPlan& plan) {
  plan.is_long = plan.is_padded = false;
  if (call.stream.size() == 1 && call.stream[0].item == 0 && call.stream[0].size > 0 &&
      call.results.empty() &&
      wire::v1::kHeaderSizeMin + std::uint64_t{call.stream[0].size} <= negotiated.inline_send &&
      wire::v1::kHeaderSizeMin + std::uint64_t{call.reply_size_max} <= negotiated.inline_receive) {
    // A Short Call whose reply is short: nothing to plan.
    plan.segments.clear();
    plan.header_size = wire::v1::kHeaderSizeMin;
    take_run(plan.inline_runs, call.stream[0]);
    return {};
  }
  plan.segments.clear();
  plan.inline_runs.clear();
  if (pad_call(call, options, negotiated, plan)) return {};
  plan.is_padded = false;
  constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // First leave small items inline; if that is too long, reduce them all (RFC 8166 §3.5.2 before
  // §3.5.3); if it still is, the rest goes by a Position-Zero Read chunk.
  const bool reduce = options.reduce && negotiated.read_chunks;
  const std::uint64_t attempts[] = {reduce ? options.reduce_size_min : kNever, reduce ? 1 : kNever};
  for (const std::uint64_t size_min : attempts) {
    if (!reduce_call(call, size_min, plan)) return Unexpected<StartError>(StartError::kTooLarge);
    if (auto planned = plan_answer(call, options, negotiated, plan); !planned) return planned;
    if (plan.header_size + stream_size(plan.inline_runs.view()) <= negotiated.inline_send)
      return {};
  }
  if (!negotiated.read_chunks) return Unexpected<StartError>(StartError::kNoReadChunks);
  if (!make_long(plan) || plan.header_size > negotiated.inline_send) {
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
BoundedVector<wire::Segment, wire::kSegmentsPerChunkMax> returned_segments(
    std::span<const wire::Segment> offered, std::uint64_t used, ReturnForm form) {
  BoundedVector<wire::Segment, wire::kSegmentsPerChunkMax> result;
  for (const wire::Segment& segment : offered) {
    if (used == 0 && form == ReturnForm::kShortened) break;
    wire::Segment copy = segment;
    copy.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(segment.length, used));
    used -= copy.length;
    (void)result.push_back(copy);  // as many as were offered at most
  }
  return result;
}

}  // namespace

void return_reply_chunk(wire::v1::ChunkLists& lists, std::span<const wire::Segment> offered,
                        std::uint64_t used, ReturnForm form) {
  lists.has_reply = true;
  lists.reply = returned_segments(offered, used, form);
}

void plan_reply(std::span<const Fragment> stream, const wire::v1::WriteList& writes, bool has_reply,
                std::span<const wire::Segment> reply_chunk, const Options& options,
                const Negotiated& negotiated, ReplyPlan& plan, wire::v1::ChunkLists& returned) {
  plan.stream.clear();
  plan.items.clear();
  returned.clear();
  plan.form = ReplyForm::kErrChunk;
  if (stream.size() == 1 && stream[0].item == 0 && stream[0].size > 0 && writes.empty() &&
      !has_reply &&
      wire::v1::kHeaderSizeMin + std::uint64_t{stream[0].size} <= negotiated.inline_send) {
    // A short reply to a Call without chunks for it: nothing to plan.
    take_run(plan.stream, stream[0]);
    plan.form = ReplyForm::kMsg;
    return;
  }
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
    const auto segments = returned_segments(writes.chunk(i), used[i], options.return_form);
    if (!returned.writes.push_back(segments.view())) return;
  }
  const std::uint64_t left = stream_size(plan.stream.view());
  if (has_reply) return_reply_chunk(returned, reply_chunk, 0, options.return_form);
  const wire::v1::Header msg{Xid{0}, wire::v1::kVersion, 0, wire::v1::Msg{}};
  if (wire::v1::encoded_size(msg, returned) + left <= negotiated.inline_send) {
    plan.form = ReplyForm::kMsg;
    return;
  }
  if (!has_reply || left > capacity(reply_chunk)) return;
  return_reply_chunk(returned, reply_chunk, left, options.return_form);
  if (wire::v1::encoded_size(msg, returned) <= negotiated.inline_send)
    plan.form = ReplyForm::kNoMsg;
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

}  // namespace rpcrdma::engine
