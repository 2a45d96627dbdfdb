// The Transport header of version 1: what decodes encodes to the same bytes, no count exceeds its
// limit, and what is refused stays refused with more bytes behind it.
//
// Input: three bytes of limits (0: the default), then a message.
#include <algorithm>

#include "fuzz/fuzz.h"
#include "wire/prefix.h"
#include "wire/v1/header.h"

namespace rpcrdma::fuzz {
namespace {

using wire::ChunkLists;
using wire::Limits;
using wire::v1::Decoded;

void check_limits(const ChunkLists& lists, const Limits& limits) {
  FUZZ_CHECK(lists.reads.size() <= limits.read_segments, "too many Read segments");
  FUZZ_CHECK(lists.writes.size() <= limits.write_chunks, "too many Write chunks");
  FUZZ_CHECK(lists.reply.size() <= limits.segments_per_chunk, "too many segments of the reply");
  for (std::size_t i = 0; i < lists.writes.size(); ++i) {
    FUZZ_CHECK(lists.writes.chunk(i).size() <= limits.segments_per_chunk, "too many segments");
  }
}

// The header's bytes again, and nothing in one byte less.
void check_encoding(Bytes header, const Decoded& decoded, const ChunkLists& lists) {
  Buffer output(header.size() + 1, std::byte{0xa5});
  const auto size = encode(decoded.header, lists, output);
  FUZZ_CHECK(size && *size == header.size(), "encode() writes another size than it told");
  FUZZ_CHECK(equal(Bytes(output).first(*size), header), "other bytes come back");
  FUZZ_CHECK(output.back() == std::byte{0xa5}, "a byte behind the header was written");
  output.assign(output.size(), std::byte{0xa5});
  const auto shorter = encode(decoded.header, lists, MutableBytes(output).first(header.size() - 1));
  FUZZ_CHECK(!shorter && shorter.error() == xdr::Errc::kTruncated, "encoded into too little room");
  FUZZ_CHECK(output[header.size() - 1] == std::byte{0xa5}, "a byte behind the room was written");
}

// A cut inside the header is truncation; one behind it only shortens the payload.
void check_cuts(Bytes message, std::size_t header_size, const Limits& limits, const Decoded& whole,
                const ChunkLists& whole_lists) {
  ChunkLists lists;
  const std::size_t step = std::max<std::size_t>(1, header_size / 24);
  for (std::size_t cut = 0; cut <= message.size(); cut += step) {
    const auto decoded = wire::v1::decode(message.first(cut), limits, lists);
    FUZZ_CHECK(decoded.has_value() == (cut >= header_size), "a prefix means something else");
    if (!decoded) {
      FUZZ_CHECK(decoded.error().code == xdr::Errc::kTruncated,
                 "a prefix fails for another reason");
      FUZZ_CHECK(decoded.error().offset <= cut, "a failure behind the end");
      continue;
    }
    FUZZ_CHECK(decoded->header == whole.header && lists == whole_lists, "a prefix differs");
    FUZZ_CHECK(decoded->payload.size() == cut - header_size, "a payload of another size");
  }
}

void check_accepted(Bytes message, const Limits& limits, const Decoded& decoded,
                    const ChunkLists& lists) {
  check_limits(lists, limits);
  const std::size_t header_size = encoded_size(decoded.header, lists);
  FUZZ_CHECK(header_size + decoded.payload.size() == message.size(), "bytes are lost");
  FUZZ_CHECK(within(decoded.payload, message), "the payload leaves the message");
  check_encoding(message.first(header_size), decoded, lists);
  check_cuts(message, header_size, limits, decoded, lists);
  ChunkLists again;
  const auto relaxed = wire::v1::decode(message, Limits{}, again);
  FUZZ_CHECK(relaxed && relaxed->header == decoded.header && again == lists,
             "higher limits change what is read");
}

void check_refused(Bytes message, const Limits& limits, const xdr::DecodeError& error,
                   ChunkLists& lists) {
  FUZZ_CHECK(lists.empty(), "lists of a refused header are left behind");
  FUZZ_CHECK(error.offset <= message.size() && !error.field.empty(), "a failure without a place");
  if (error.code == xdr::Errc::kTruncated) return;
  Buffer longer(message.begin(), message.end());
  longer.resize(longer.size() + 64);
  const auto again = wire::v1::decode(longer, limits, lists);
  FUZZ_CHECK(!again && again.error() == error, "more bytes make a bad header good");
}

// The way past wire::v1::decode() and encode() is for just those messages that have nothing but a
// payload.
void check_short(Bytes message) {
  ChunkLists lists;
  const auto decoded = wire::v1::decode(message, Limits{}, lists);
  const bool has_only_payload =
      decoded && lists.empty() && std::holds_alternative<wire::v1::Msg>(decoded->header.body);
  FUZZ_CHECK(wire::v1::is_short(message) == has_only_payload, "short on one way only");
  if (!has_only_payload) return;
  FUZZ_CHECK(decoded->payload.size() == message.size() - wire::v1::kHeaderSizeMin, "payload");
  Buffer output(wire::v1::kHeaderSizeMin + 1, std::byte{0xa5});
  wire::v1::encode_short(decoded->header.xid, decoded->header.credits, output);
  FUZZ_CHECK(equal(Bytes(output).first(output.size() - 1), message.first(output.size() - 1)) &&
                 output.back() == std::byte{0xa5},
             "other bytes come back");
}

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(wire_v1) {
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  rpcrdma::wire::Limits limits;
  const std::uint32_t reads = choices.u8();
  const std::uint32_t writes = choices.u8();
  const std::uint32_t segments = choices.u8();
  if (reads != 0) limits.read_segments = reads - 1;  // also above what there is room for
  if (writes != 0) limits.write_chunks = writes - 1;
  if (segments != 0) limits.segments_per_chunk = segments - 1;
  const rpcrdma::Bytes message = choices.rest();
  const auto prefix = rpcrdma::wire::peek(message);
  FUZZ_CHECK(prefix.has_value() == (message.size() >= rpcrdma::wire::kPrefixSize),
             "the prefix is sixteen bytes");
  rpcrdma::fuzz::check_short(message);
  rpcrdma::wire::ChunkLists lists;
  const auto decoded = rpcrdma::wire::v1::decode(message, limits, lists);
  if (decoded) {
    FUZZ_CHECK(prefix->xid == decoded->header.xid && prefix->version == decoded->header.version &&
                   prefix->credits == decoded->header.credits,
               "peek() and rpcrdma::wire::v1::decode() read different words");
    rpcrdma::fuzz::check_accepted(message, limits, *decoded, lists);
  } else {
    rpcrdma::fuzz::check_refused(message, limits, decoded.error(), lists);
  }
  return 0;
}
