#include "wire/chunk_lists_codec.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace rpcrdma::wire {
namespace {

constexpr std::size_t kWord = xdr::kWordSize;
constexpr std::size_t kSegmentSize = 4 * kWord;
constexpr std::size_t kReadSegmentSize = kWord + kSegmentSize;

Segment read_segment(xdr::Reader& reader) {
  const Bytes rest = reader.rest();
  if (rest.size() >= kSegmentSize) [[likely]] {
    const std::byte* at = rest.data();
    reader.skip(kSegmentSize, "segment");
    return {SteeringTag{xdr::load_word(at)}, xdr::load_word(at + kWord),
            std::uint64_t{xdr::load_word(at + 2 * kWord)} << 32U | xdr::load_word(at + 3 * kWord)};
  }
  Segment segment{};  // names the word that is missing
  segment.handle = SteeringTag{reader.u32("handle")};
  segment.length = reader.u32("length");
  segment.offset = reader.u64("offset");
  return segment;
}

// A Write chunk or a Reply chunk: a counted array (RFC 8166 §3.4.6). `add(segment)`: false when
// there is no room.
template <class Add>
void read_segments(xdr::Reader& reader, std::uint32_t count_max, Add&& add) {
  const std::uint32_t count = reader.u32("segment count");
  if (count > std::min<std::size_t>(count_max, kSegmentsPerChunkMax)) {
    reader.fail(xdr::Errc::kOverLimit, "segment count");
  }
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    if (!add(read_segment(reader))) reader.fail(xdr::Errc::kOverLimit, "segment count");
  }
}

void write_segment(xdr::Writer& writer, const Segment& segment) noexcept {
  writer.words({static_cast<std::uint32_t>(segment.handle), segment.length,
                static_cast<std::uint32_t>(segment.offset >> 32U),
                static_cast<std::uint32_t>(segment.offset)});
}

void write_segments(xdr::Writer& writer, std::span<const Segment> segments) noexcept {
  writer.u32(static_cast<std::uint32_t>(segments.size()));
  for (const Segment& segment : segments) write_segment(writer, segment);
}

}  // namespace

// The discriminators are XDR booleans: other values than 0 and 1 are refused, although some peers
// take any value but 0 for present.
void read_lists(xdr::Reader& reader, const Limits& limits, ChunkLists& lists) {
  while (reader.boolean("read list")) {
    if (lists.reads.size() >= limits.read_segments || lists.reads.full()) {
      reader.fail(xdr::Errc::kOverLimit, "read list");
      return;
    }
    const std::uint32_t position = reader.u32("position");
    // It was checked above that there is room.
    (void)lists.reads.push_back(ReadSegment{position, read_segment(reader)});
  }
  while (reader.boolean("write list")) {
    if (lists.writes.size() >= limits.write_chunks || !lists.writes.begin_chunk()) {
      reader.fail(xdr::Errc::kOverLimit, "write list");
      return;
    }
    read_segments(reader, limits.segments_per_chunk,
                  [&](const Segment& segment) { return lists.writes.add(segment); });
  }
  lists.has_reply = reader.boolean("reply chunk");
  if (!lists.has_reply) return;
  read_segments(reader, limits.segments_per_chunk,
                [&](const Segment& segment) { return lists.reply.push_back(segment); });
}

std::size_t lists_size(const ChunkLists& lists) noexcept {
  std::size_t size = 3 * kWord;  // the two ends of lists and the discriminator of the Reply chunk
  size += lists.reads.size() * (kWord + kReadSegmentSize);
  for (std::size_t i = 0; i < lists.writes.size(); ++i) {
    size += 2 * kWord + lists.writes.chunk(i).size() * kSegmentSize;
  }
  if (lists.has_reply) size += kWord + lists.reply.size() * kSegmentSize;
  return size;
}

void write_lists(xdr::Writer& writer, const ChunkLists& lists) noexcept {
  for (const ReadSegment& read : lists.reads) {
    writer.boolean(true);
    writer.u32(read.position);
    write_segment(writer, read.target);
  }
  writer.boolean(false);
  for (std::size_t i = 0; i < lists.writes.size(); ++i) {
    writer.boolean(true);
    write_segments(writer, lists.writes.chunk(i));
  }
  writer.boolean(false);
  writer.boolean(lists.has_reply);
  if (lists.has_reply) write_segments(writer, lists.reply.view());
}

}  // namespace rpcrdma::wire
