// The Transport header of version 2 and the characteristics in it: what decodes encodes to the same
// bytes, no count exceeds its limit, views stay within the message, and what is refused stays
// refused with more bytes behind it.
//
// Input: three bytes of limits (0: the default), then a message.
#include <algorithm>
#include <utility>
#include <vector>

#include "fuzz/fuzz.h"
#include "wire/v2/characteristics.h"
#include "wire/v2/header.h"

namespace rpcrdma::fuzz {
namespace {

using wire::ChunkLists;
using wire::Limits;
namespace v2 = wire::v2;

void check_limits(const ChunkLists& lists, const Limits& limits) {
  FUZZ_CHECK(lists.reads.size() <= limits.read_segments, "too many Read segments");
  FUZZ_CHECK(lists.writes.size() <= limits.write_chunks, "too many Write chunks");
  FUZZ_CHECK(lists.reply.size() <= limits.segments_per_chunk, "too many segments of the reply");
}

void check_encoding(Bytes header, const v2::Decoded& decoded, const ChunkLists& lists) {
  Buffer output(header.size() + 1, std::byte{0xa5});
  const auto size = encode(decoded.header, lists, output);
  FUZZ_CHECK(size && *size == header.size(), "encode() writes another size than it told");
  WithZeroFill expected(header);
  if (const auto* option = std::get_if<v2::Optional>(&decoded.header.body)) {
    expected.clear_behind(option->info);
  }
  FUZZ_CHECK(equal(Bytes(output).first(*size), expected.bytes()), "other bytes come back");
  FUZZ_CHECK(output.back() == std::byte{0xa5}, "a byte behind the header was written");
  const auto shorter = encode(decoded.header, lists, MutableBytes(output).first(header.size() - 1));
  FUZZ_CHECK(!shorter && shorter.error() == xdr::Errc::kTruncated, "encoded into too little room");
}

// A cut inside the header is truncation; one behind it only shortens the payload.
void check_cuts(Bytes message, std::size_t header_size, const Limits& limits) {
  ChunkLists lists;
  const std::size_t step = std::max<std::size_t>(1, header_size / 24);
  for (std::size_t cut = 0; cut <= message.size(); cut += step) {
    const auto decoded = v2::decode(message.first(cut), limits, lists);
    FUZZ_CHECK(decoded.has_value() == (cut >= header_size), "a prefix means something else");
    FUZZ_CHECK(decoded || decoded.error().code == xdr::Errc::kTruncated,
               "a prefix fails for another reason");
  }
}

// The values again, out of what was decoded.
std::vector<v2::CharacteristicValue> values_of(const v2::CharacteristicSpec& spec, Bytes info) {
  std::vector<v2::CharacteristicValue> values;
  spec.for_each([&](std::uint32_t index, const v2::CharacteristicValue& value) {
    FUZZ_CHECK(index == values.size() && within(value.data, info), "a value leaves the message");
    values.push_back(value);
    (void)as_number(value);
    (void)as_boolean(value);
    (void)as_backward_support(value);
  });
  FUZZ_CHECK(values.size() == spec.size(), "a list of another size");
  return values;
}

void check_subset(const v2::CharacteristicSubset& subset, Bytes info) {
  FUZZ_CHECK(within(subset.bytes(), info), "a subset leaves the message");
  const auto bits = static_cast<std::uint32_t>(8 * subset.bytes().size());
  FUZZ_CHECK(!subset.contains(bits) && !subset.contains(0xffffffff), "an element behind the end");
}

void check_option(const v2::Optional& message) {
  const auto option = v2::decode_option(message.type, message.info);
  if (!option) {
    FUZZ_CHECK(option.error().offset <= message.info.size(), "a failure behind the end");
    return;
  }
  if (const auto* init = std::get_if<v2::InitXch>(&*option)) {
    (void)values_of(init->start, message.info);
    check_subset(init->no_change, message.info);
  } else if (const auto* request = std::get_if<v2::ReqXch>(&*option)) {
    const auto values = values_of(request->want, message.info);
    Buffer output(message.info.size(), std::byte{0});
    xdr::Writer writer(output);
    v2::write_request(writer, values);
    WithZeroFill expected(message.info);
    for (const v2::CharacteristicValue& each : values) expected.clear_behind(each.data);
    FUZZ_CHECK(writer.ok() && equal(output, expected.bytes()), "another request comes back");
  } else if (const auto* response = std::get_if<v2::RespXch>(&*option)) {
    check_subset(response->done, message.info);
    check_subset(response->rejected, message.info);
    check_subset(response->pending, message.info);
  } else if (const auto* update = std::get_if<v2::UpdXch>(&*option)) {
    Buffer output(message.info.size(), std::byte{0});
    xdr::Writer writer(output);
    v2::write_update(writer, update->now, update->clears_pending);
    WithZeroFill expected(message.info);
    expected.clear_behind(update->now.data);
    FUZZ_CHECK(writer.ok() && equal(output, expected.bytes()), "another update comes back");
  }
}

void check_short(Bytes message) {
  ChunkLists lists;
  const auto decoded = v2::decode(message, Limits{}, lists);
  const auto* msg = decoded ? std::get_if<v2::Msg>(&decoded->header.body) : nullptr;
  const bool has_only_payload = msg != nullptr && lists.empty();
  FUZZ_CHECK(v2::is_short(message) == has_only_payload, "short on one way only");
  if (!has_only_payload) return;
  Buffer output(v2::kHeaderSizeMin, std::byte{0xa5});
  v2::encode_short(decoded->header.xid, decoded->header.credits, msg->direction, output);
  FUZZ_CHECK(equal(output, message.first(output.size())), "other bytes come back");
}

void check(Bytes message, const Limits& limits) {
  check_short(message);
  ChunkLists lists;
  const auto decoded = v2::decode(message, limits, lists);
  if (!decoded) {
    FUZZ_CHECK(lists.empty(), "lists of a refused header are left behind");
    if (decoded.error().code == xdr::Errc::kTruncated) return;
    Buffer longer(message.begin(), message.end());
    longer.resize(longer.size() + 64);
    const auto again = v2::decode(longer, limits, lists);
    FUZZ_CHECK(!again && again.error() == decoded.error(), "more bytes make a bad header good");
    return;
  }
  check_limits(lists, limits);
  const std::size_t header_size = encoded_size(decoded->header, lists);
  FUZZ_CHECK(header_size + decoded->payload.size() == message.size(), "bytes are lost");
  FUZZ_CHECK(within(decoded->payload, message), "the payload leaves the message");
  check_encoding(message.first(header_size), *decoded, lists);
  check_cuts(message, header_size, limits);
  if (const auto* option = std::get_if<v2::Optional>(&decoded->header.body)) check_option(*option);
}

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(wire_v2) {
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  rpcrdma::wire::Limits limits;
  const std::uint32_t reads = choices.u8();
  const std::uint32_t writes = choices.u8();
  const std::uint32_t segments = choices.u8();
  if (reads != 0) limits.read_segments = reads - 1;  // also above what there is room for
  if (writes != 0) limits.write_chunks = writes - 1;
  if (segments != 0) limits.segments_per_chunk = segments - 1;
  rpcrdma::fuzz::check(choices.rest(), limits);
  return 0;
}
