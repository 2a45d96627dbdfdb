#include "engine/dialect.h"

#include "base/assert.h"
#include "rpcrdma/xdr.h"
#include "wire/prefix.h"
#include "wire/v1/header.h"

namespace rpcrdma::engine {
namespace {

namespace v1 = wire::v1;

constexpr HeaderSizes kSizesV1{v1::kHeaderSizeMin, v1::kHeaderSizeMin + 8, 24, 8, 4, 16};
static_assert(v1::kHeaderSizeMin <= kShortHeaderSizeMax);

Kind kind_of(const v1::Body& body) noexcept {
  if (std::holds_alternative<v1::Msg>(body)) return Kind::kMessage;
  if (std::holds_alternative<v1::NoMsg>(body)) return Kind::kNoMessage;
  if (std::holds_alternative<v1::Msgp>(body)) return Kind::kPadded;
  if (std::holds_alternative<v1::Done>(body)) return Kind::kDone;
  return std::holds_alternative<v1::ErrVers>(body) ? Kind::kErrorVersion : Kind::kErrorChunk;
}

// What can be said of a message that decode() has refused.
void judge_refused(Bytes message, Received& received) noexcept {
  const auto prefix = wire::peek(message);
  if (!prefix) {
    received.kind = Kind::kTooShort;
    return;
  }
  received.xid = prefix->xid;
  received.version = prefix->version;
  received.credits = prefix->credits;
  const bool is_error = static_cast<v1::Type>(prefix->type) == v1::Type::kError;
  received.kind = is_error                          ? Kind::kErrorUnknown
                  : prefix->version != v1::kVersion ? Kind::kOtherVersion
                                                    : Kind::kMalformed;
}

void decode_v1(Bytes message, const wire::Limits& limits, wire::ChunkLists& lists,
               Received& received) noexcept {
  const auto decoded = v1::decode(message, limits, lists);
  if (!decoded) return judge_refused(message, received);
  received.xid = decoded->header.xid;
  received.version = decoded->header.version;
  received.credits = decoded->header.credits;
  received.kind = kind_of(decoded->header.body);
  received.has_chunks = !lists.empty();
  received.payload = decoded->payload;
  if (const auto* padded = std::get_if<v1::Msgp>(&decoded->header.body)) {
    received.alignment = padded->align;
    received.threshold = padded->threshold;
  }
}

v1::Header header_v1(const Outline& outline) noexcept {
  v1::Header header{outline.xid, v1::kVersion, outline.credits, v1::Msg{}};
  switch (outline.kind) {
    case Kind::kMessage:
      break;
    case Kind::kNoMessage:
      header.body = v1::NoMsg{};
      break;
    case Kind::kPadded:
      header.body = v1::Msgp{outline.alignment, outline.threshold};
      break;
    case Kind::kDone:
      header.body = v1::Done{};
      break;
    case Kind::kErrorVersion:
      header.version = outline.version;
      header.body = v1::ErrVers{v1::kVersion, v1::kVersion};
      break;
    case Kind::kErrorChunk:
      header.version = outline.version;
      header.body = v1::ErrChunk{};
      break;
    case Kind::kErrorUnknown:
    case Kind::kOtherVersion:
    case Kind::kMalformed:
    case Kind::kTooShort:
      RPCRDMA_ASSERT(false, "a message of a kind that is only received");
  }
  return header;
}

}  // namespace

Received decode(Dialect /*dialect*/, Bytes message, const wire::Limits& limits,
                wire::ChunkLists& lists) noexcept {
  Received received{Kind::kMessage, false, Xid{}, v1::kVersion, 0, {}, 0, 0};
  if (v1::is_short(message)) [[likely]] {
    received.xid = Xid{xdr::load_word(message.data())};
    received.credits = xdr::load_word(message.data() + 2 * xdr::kWordSize);
    received.payload = message.subspan(v1::kHeaderSizeMin);
  } else {
    decode_v1(message, limits, lists, received);
  }
  return received;
}

Direction direction_of(Dialect /*dialect*/, const Received& received) noexcept {
  const bool has_rpc = received.kind == Kind::kMessage || received.kind == Kind::kPadded;
  if (!has_rpc || received.payload.size() < 2 * xdr::kWordSize ||
      !begins_with(received.payload, received.xid)) {
    return Direction::kUnknown;
  }
  switch (xdr::load_word(received.payload.data() + xdr::kWordSize)) {
    case 0:
      return Direction::kCall;
    case 1:
      return Direction::kReply;
    default:
      return Direction::kUnknown;
  }
}

std::uint32_t encode(Dialect /*dialect*/, const Outline& outline, const wire::ChunkLists& lists,
                     MutableBytes output) noexcept {
  const auto size = v1::encode(header_v1(outline), lists, output);
  RPCRDMA_ASSERT(size.has_value(), "a header was planned to fit");
  return static_cast<std::uint32_t>(*size);
}

void encode_short(Dialect /*dialect*/, Xid xid, std::uint32_t credits,
                  MutableBytes output) noexcept {
  v1::encode_short(xid, credits, output);
}

std::size_t header_size(Dialect /*dialect*/, const wire::ChunkLists& lists) noexcept {
  return v1::encoded_size({Xid{0}, v1::kVersion, 0, v1::Msg{}}, lists);
}

const HeaderSizes& header_sizes(Dialect /*dialect*/) noexcept {
  return kSizesV1;
}

std::uint32_t version_of(Dialect /*dialect*/) noexcept {
  return v1::kVersion;
}

}  // namespace rpcrdma::engine
