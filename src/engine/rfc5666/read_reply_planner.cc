#include "engine/rfc5666/read_reply_planner.h"

#include <algorithm>

#include "engine/stream_parts.h"

namespace rpcrdma::engine::rfc5666 {

void plan_read_reply(std::span<const Fragment> stream, std::optional<std::size_t> reply_segments,
                     const Options& options, const LinkParameters& link, ReplyPlan& plan,
                     ExposedRuns& runs) {
  plan.form = ReplyForm::kErrChunk;
  plan.items.clear();
  plan.stream.clear();
  runs.clear();
  const bool split = split_stream(
      stream, plan.stream, [&](std::uint32_t, std::uint64_t) { return options.reduce; },
      [&](const Fragment& run, std::uint64_t position, std::uint32_t) {
        return runs.push_back(
            {run.memory, run.size, run.offset, static_cast<std::uint32_t>(position)});
      });
  if (!split) return;
  const bool full_form = options.return_form == ReturnForm::kFull;
  const auto header_size = [&] {
    const HeaderSizes& sizes = header_sizes(link.dialect);
    return sizes.shortest + sizes.read_segment * runs.size() +
           (reply_segments ? sizes.reply_chunk : 0) +
           (full_form ? sizes.plain_segment * reply_segments.value_or(0) : 0);
  };
  if (!runs.empty() && header_size() + stream_size(plan.stream.view()) <= link.inline_send) {
    plan.form = ReplyForm::kMsg;
    return;
  }
  ExposedRuns whole;
  for (const Fragment& run : plan.stream) {
    if (!whole.push_back({run.memory, run.size, run.offset, 0})) return;
  }
  for (const ExposedRun& run : runs) {
    if (!whole.push_back(run)) return;
  }
  runs = whole;
  if (header_size() <= link.inline_send) plan.form = ReplyForm::kNoMsg;
}

namespace {

// The runs of the result that begins at `first`, and the place behind them.
std::size_t end_of_result(std::span<const ResultRoom> results, std::size_t first) {
  std::size_t end = std::min(first, results.size());
  while (end < results.size() && results[end].item == results[first].item) ++end;
  return end;
}

// Reads the segments of one position into `rooms`. RFC 5666 lets a chunk carry its item's padding,
// for which there is no room: it is left where it is. How much was planned; nullopt: too much.
std::optional<std::uint64_t> pull_chunk(std::span<const wire::ReadSegment> reads,
                                        std::uint32_t position, std::span<const ResultRoom> rooms,
                                        Pull& pull) {
  std::size_t room = 0;
  std::uint32_t room_done = 0;  // bytes
  std::uint64_t size = 0, beyond = 0;
  for (const wire::ReadSegment& read : reads) {
    if (read.position != position) continue;
    wire::Segment from = read.target;
    while (from.length > 0) {
      while (room < rooms.size() && room_done == rooms[room].size_max) {
        ++room;
        room_done = 0;
      }
      if (room == rooms.size()) break;
      const std::uint32_t piece = std::min(from.length, rooms[room].size_max - room_done);
      if (!pull.reads.push_back({{from.handle, piece, from.offset},
                                 rooms[room].memory,
                                 rooms[room].offset + room_done})) {
        return std::nullopt;
      }
      from.length -= piece;
      from.offset += piece;
      room_done += piece;
      size += piece;
    }
    beyond += from.length;
  }
  if (beyond > 0 && size + beyond != xdr::padded(size)) return std::nullopt;
  return size;
}

// The smallest position above `last` (or of all, when there is none).
std::optional<std::uint32_t> next_position(std::span<const wire::ReadSegment> reads,
                                           std::optional<std::uint32_t> last) {
  std::optional<std::uint32_t> next;
  for (const wire::ReadSegment& read : reads) {
    if (last && read.position <= *last) continue;
    if (!next || read.position < *next) next = read.position;
  }
  return next;
}

}  // namespace

namespace {

std::uint64_t chunk_size(std::span<const wire::ReadSegment> reads, std::uint32_t position) {
  std::uint64_t size = 0;
  for (const wire::ReadSegment& read : reads) {
    if (read.position == position) size += read.target.length;
  }
  return size;
}

std::size_t item_count(std::span<const wire::ReadSegment> reads) {
  std::size_t count = 0;
  for (auto position = next_position(reads, 0); position;
       position = next_position(reads, position)) {
    ++count;
  }
  return count;
}

std::size_t result_count(std::span<const ResultRoom> results) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < results.size(); i = end_of_result(results, i)) ++count;
  return count;
}

// Returns whether the chunk fits, without the padding that it may carry.
bool fits(std::uint64_t size, std::span<const ResultRoom> rooms) {
  std::uint64_t room = 0;
  for (const ResultRoom& each : rooms) room += each.size_max;
  return size <= room || size == xdr::padded(room);
}

}  // namespace

bool plan_pull(std::span<const wire::ReadSegment> reads, std::span<const ResultRoom> results,
               const std::optional<ResultRoom>& reply_room, Pull& pull) {
  pull.reads.clear();
  pull.items.clear();
  pull.sizes.clear();
  pull.in_reply_room = 0;
  const bool each_has_one = item_count(reads) >= result_count(results);
  std::size_t result = 0;
  ResultRoom spare = reply_room.value_or(ResultRoom{Lease{}, 0, 0, 0});
  const auto pull_into_spare = [&](std::uint32_t position) {
    const auto size = pull_chunk(reads, position, {&spare, 1}, pull);
    if (size) {
      spare.offset += *size;
      spare.size_max -= static_cast<std::uint32_t>(*size);
    }
    return size;
  };
  for (auto position = next_position(reads, std::nullopt); position;
       position = next_position(reads, position)) {
    if (*position % xdr::kWordSize != 0) return false;
    if (*position == 0) {
      // A message has no padding behind it that could be left where it is.
      if (chunk_size(reads, 0) > spare.size_max) return false;
      const auto size = pull_into_spare(0);
      if (!size || *size == 0) return false;
      pull.in_reply_room = static_cast<std::uint32_t>(*size);
      continue;
    }
    const std::size_t end = end_of_result(results, result);
    const auto rooms = results.subspan(result, end - result);
    const bool in_result =
        end > result && (each_has_one || !fits(chunk_size(reads, *position), {&spare, 1}));
    const auto size =
        in_result ? pull_chunk(reads, *position, rooms, pull) : pull_into_spare(*position);
    if (!size || !pull.items.push_back({*position, in_result}) ||
        !pull.sizes.push_back(static_cast<std::uint32_t>(*size))) {
      return false;
    }
    result = end;
  }
  return true;
}

}  // namespace rpcrdma::engine::rfc5666
