#include "wire/v1/header.h"

#include <algorithm>

#include "wire/prefix.h"

namespace rpcrdma::wire::v1 {
namespace {

// rdma_err, RFC 8166 §4.5.
constexpr std::uint32_t kErrVers = 1;   // ERR_VERS
constexpr std::uint32_t kErrChunk = 2;  // ERR_CHUNK

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

Body read_error(xdr::Reader& reader) {
  switch (reader.u32("rdma_err")) {
    case kErrVers: {
      const std::uint32_t low = reader.u32("rdma_vers_low");
      return ErrVers{low, reader.u32("rdma_vers_high")};
    }
    case kErrChunk:
      return ErrChunk{};
    default:
      reader.fail(xdr::Errc::kBadEnum, "rdma_err");
      return ErrChunk{};
  }
}

Body read_body(xdr::Reader& reader, std::uint32_t type, const Limits& limits, ChunkLists& lists) {
  switch (Type{type}) {
    case Type::kMsg:
      read_lists(reader, limits, lists);
      return Msg{};
    case Type::kNoMsg:
      read_lists(reader, limits, lists);
      return NoMsg{};
    case Type::kMsgp: {
      const std::uint32_t align = reader.u32("rdma_align");
      const Msgp body{align, reader.u32("rdma_thresh")};
      read_lists(reader, limits, lists);
      return body;
    }
    case Type::kDone:
      return Done{};
    case Type::kError:
      return read_error(reader);
  }
  reader.fail(xdr::Errc::kBadEnum, "rdma_proc");
  return Done{};
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

void write_segment(xdr::Writer& writer, const Segment& segment) noexcept {
  writer.words({static_cast<std::uint32_t>(segment.handle), segment.length,
                static_cast<std::uint32_t>(segment.offset >> 32U),
                static_cast<std::uint32_t>(segment.offset)});
}

void write_segments(xdr::Writer& writer, std::span<const Segment> segments) noexcept {
  writer.u32(static_cast<std::uint32_t>(segments.size()));
  for (const Segment& segment : segments) write_segment(writer, segment);
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

// What stands behind the prefix, one overload for each body: its size and its bytes.
struct BodySize {
  const ChunkLists& lists;
  std::size_t operator()(const Msg&) const noexcept { return lists_size(lists); }
  std::size_t operator()(const NoMsg&) const noexcept { return lists_size(lists); }
  std::size_t operator()(const Msgp&) const noexcept { return 2 * kWord + lists_size(lists); }
  std::size_t operator()(const Done&) const noexcept { return 0; }
  std::size_t operator()(const ErrVers&) const noexcept { return 3 * kWord; }
  std::size_t operator()(const ErrChunk&) const noexcept { return kWord; }
};

struct BodyWriter {
  xdr::Writer& writer;
  const ChunkLists& lists;

  void operator()(const Msg&) const noexcept {
    type(Type::kMsg);
    write_lists(writer, lists);
  }
  void operator()(const NoMsg&) const noexcept {
    type(Type::kNoMsg);
    write_lists(writer, lists);
  }
  void operator()(const Msgp& body) const noexcept {
    type(Type::kMsgp);
    writer.u32(body.align);
    writer.u32(body.threshold);
    write_lists(writer, lists);
  }
  void operator()(const Done&) const noexcept { type(Type::kDone); }
  void operator()(const ErrVers& body) const noexcept {
    type(Type::kError);
    writer.u32(kErrVers);
    writer.u32(body.low);
    writer.u32(body.high);
  }
  void operator()(const ErrChunk&) const noexcept {
    type(Type::kError);
    writer.u32(kErrChunk);
  }

 private:
  void type(Type value) const noexcept { writer.u32(static_cast<std::uint32_t>(value)); }
};

}  // namespace

Expected<Decoded, xdr::DecodeError> decode(Bytes message, const Limits& limits, ChunkLists& lists) {
  lists.clear();
  const Expected<Prefix, xdr::DecodeError> prefix = peek(message);
  if (!prefix) return Unexpected<xdr::DecodeError>(prefix.error());

  // RFC 8166 §4.2.2, §4.5: an error repeats the version of the message that it answers, which is
  // just what was wrong with it.
  const bool is_error = prefix->type == static_cast<std::uint32_t>(Type::kError);
  if (prefix->version != kVersion && !is_error) {
    return Unexpected<xdr::DecodeError>(
        xdr::DecodeError{xdr::Errc::kBadEnum, xdr::kWordSize, kPrefixFields[1]});
  }
  xdr::Reader reader(message);
  reader.skip(kPrefixSize - kWord, "");
  const std::uint32_t type = reader.u32(kPrefixFields[3]);
  Decoded decoded{
      {prefix->xid, prefix->version, prefix->credits, read_body(reader, type, limits, lists)},
      reader.rest()};
  if (!reader.ok()) lists.clear();
  return reader.finish(decoded);
}

std::size_t encoded_size(const Header& header, const ChunkLists& lists) noexcept {
  return kPrefixSize + std::visit(BodySize{lists}, header.body);
}

Expected<std::size_t, xdr::Errc> encode(const Header& header, const ChunkLists& lists,
                                        MutableBytes output) noexcept {
  xdr::Writer writer(output);
  writer.words({static_cast<std::uint32_t>(header.xid), header.version, header.credits});
  std::visit(BodyWriter{writer, lists}, header.body);
  return writer.finish();
}

}  // namespace rpcrdma::wire::v1
