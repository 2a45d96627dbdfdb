#include "engine/dialect.h"

#include "base/assert.h"
#include "rpcrdma/xdr.h"
#include "wire/prefix.h"
#include "wire/v1/header.h"
#include "wire/v2/header.h"

namespace rpcrdma::engine {
namespace {

namespace v1 = wire::v1;
namespace v2 = wire::v2;

static_assert(kHeaderSizesV1.shortest == v1::kHeaderSizeMin);
static_assert(kHeaderSizesV2.shortest == v2::kHeaderSizeMin);
static_assert(v1::kHeaderSizeMin <= kShortHeaderSizeMax);
static_assert(v2::kHeaderSizeMin <= kShortHeaderSizeMax);
static_assert(v2::kReceiveSizeDefault == kReceiveSizeV2);

// Classifies a message that decode() of its version has refused. The prefix, and the number of
// errors, are the same in both versions.
void judge_refused(Bytes message, std::uint32_t version, Received& received) noexcept {
  static_assert(static_cast<std::uint32_t>(v1::Type::kError) ==
                static_cast<std::uint32_t>(v2::Type::kError));
  const auto prefix = wire::peek(message);
  if (!prefix) {
    received.kind = Kind::kTooShort;
    return;
  }
  received.xid = prefix->xid;
  received.version = prefix->version;
  received.credits = prefix->credits;
  const bool is_error = static_cast<v1::Type>(prefix->type) == v1::Type::kError;
  const bool is_option =
      version == v2::kVersion && static_cast<v2::Type>(prefix->type) == v2::Type::kOptional;
  received.kind = is_error                     ? Kind::kErrorUnknown
                  : prefix->version != version ? Kind::kOtherVersion
                  : is_option                  ? Kind::kBadOption
                                               : Kind::kMalformed;
  // The direction stands in front of the lists.
  const bool has_direction = version == v2::kVersion && received.kind == Kind::kMalformed &&
                             static_cast<v2::Type>(prefix->type) <= v2::Type::kNoMsg &&
                             message.size() >= 5 * xdr::kWordSize;
  if (!has_direction) return;
  const std::uint32_t direction = xdr::load_word(message.data() + 4 * xdr::kWordSize);
  if (direction <= static_cast<std::uint32_t>(v2::Direction::kReply)) {
    received.direction = direction == 0 ? Direction::kCall : Direction::kReply;
  }
}

// --- Version 1 ---------------------------------------------------------------------------------

Kind kind_of(const v1::Body& body) noexcept {
  if (std::holds_alternative<v1::Msg>(body)) return Kind::kMessage;
  if (std::holds_alternative<v1::NoMsg>(body)) return Kind::kNoMessage;
  if (std::holds_alternative<v1::Msgp>(body)) return Kind::kPadded;
  if (std::holds_alternative<v1::Done>(body)) return Kind::kDone;
  return std::holds_alternative<v1::ErrVers>(body) ? Kind::kErrorVersion : Kind::kErrorChunk;
}

void decode_v1(Bytes message, const wire::Limits& limits, wire::ChunkLists& lists,
               Received& received) noexcept {
  const auto decoded = v1::decode(message, limits, lists);
  if (!decoded) return judge_refused(message, v1::kVersion, received);
  received.xid = decoded->header.xid;
  received.version = decoded->header.version;
  received.credits = decoded->header.credits;
  received.kind = kind_of(decoded->header.body);
  received.has_chunks = !lists.empty();
  received.payload = decoded->payload;
  if (const auto* padded = std::get_if<v1::Msgp>(&decoded->header.body)) {
    received.alignment = padded->align;
    received.threshold = padded->threshold;
  } else if (const auto* error = std::get_if<v1::ErrVers>(&decoded->header.body)) {
    received.versions = {error->low, error->high};
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
      header.body = v1::ErrVers{outline.versions.low, outline.versions.high};
      break;
    case Kind::kErrorChunk:
      header.version = outline.version;
      header.body = v1::ErrChunk{};
      break;
    case Kind::kOption:
    case Kind::kBadOption:
    case Kind::kErrorOption:
    case Kind::kErrorUnknown:
    case Kind::kOtherVersion:
    case Kind::kMalformed:
    case Kind::kTooShort:
      RPCRDMA_ASSERT(false, "a message of a kind that is not sent");
  }
  return header;
}

// --- Version 2 ---------------------------------------------------------------------------------

Direction to_direction(v2::Direction direction) noexcept {
  return direction == v2::Direction::kCall ? Direction::kCall : Direction::kReply;
}
v2::Direction to_wire(Direction direction) noexcept {
  return direction == Direction::kReply ? v2::Direction::kReply : v2::Direction::kCall;
}

// One overload for each body.
struct BodyReader {
  Received& received;

  void operator()(const v2::Msg& body) const noexcept {
    received.kind = Kind::kMessage;
    received.direction = to_direction(body.direction);
  }
  void operator()(const v2::NoMsg& body) const noexcept {
    received.kind = Kind::kNoMessage;
    received.direction = to_direction(body.direction);
  }
  void operator()(const v2::ErrVers& body) const noexcept {
    error(Kind::kErrorVersion);
    received.versions = {body.low, body.high};
  }
  void operator()(const v2::ErrBadHeader&) const noexcept { error(Kind::kErrorChunk); }
  void operator()(const v2::ErrInvalOption&) const noexcept { error(Kind::kErrorOption); }
  void operator()(const v2::Optional& body) const noexcept {
    received.kind = Kind::kOption;
    received.direction = to_direction(body.direction);
    received.option = body.type;
    received.payload = body.info;
  }

 private:
  void error(Kind kind) const noexcept {
    received.kind = kind;
    received.direction = Direction::kReply;
  }
};

void decode_v2(Bytes message, const wire::Limits& limits, wire::ChunkLists& lists,
               Received& received) noexcept {
  if (v2::is_short(message)) [[likely]] {
    received.xid = Xid{xdr::load_word(message.data())};
    received.credits = xdr::load_word(message.data() + 2 * xdr::kWordSize);
    received.direction =
        to_direction(v2::Direction{xdr::load_word(message.data() + 4 * xdr::kWordSize)});
    received.payload = message.subspan(v2::kHeaderSizeMin);
    received.version = v2::kVersion;
    return;
  }
  const auto decoded = v2::decode(message, limits, lists);
  if (!decoded) return judge_refused(message, v2::kVersion, received);
  received.xid = decoded->header.xid;
  received.version = decoded->header.version;
  received.credits = decoded->header.credits;
  received.has_chunks = !lists.empty();
  received.payload = decoded->payload;
  std::visit(BodyReader{received}, decoded->header.body);
}

v2::Header header_v2(const Outline& outline) noexcept {
  v2::Header header{outline.xid, v2::kVersion, outline.credits,
                    v2::Msg{to_wire(outline.direction)}};
  switch (outline.kind) {
    case Kind::kMessage:
      break;
    case Kind::kNoMessage:
      header.body = v2::NoMsg{to_wire(outline.direction)};
      break;
    case Kind::kErrorVersion:
      header.version = outline.version;
      header.body = v2::ErrVers{outline.versions.low, outline.versions.high};
      break;
    case Kind::kErrorChunk:
      header.body = v2::ErrBadHeader{};
      break;
    case Kind::kErrorOption:
      header.body = v2::ErrInvalOption{};
      break;
    case Kind::kOption:
      header.body = v2::Optional{to_wire(outline.direction), outline.option, outline.info};
      break;
    case Kind::kPadded:
    case Kind::kDone:
    case Kind::kBadOption:
    case Kind::kErrorUnknown:
    case Kind::kOtherVersion:
    case Kind::kMalformed:
    case Kind::kTooShort:
      RPCRDMA_ASSERT(false, "a message of a kind that is not sent");
  }
  return header;
}

// The version that a message says it has; 0: it is too short to say.
std::uint32_t version_in(Bytes message) noexcept {
  const auto prefix = wire::peek(message);
  return prefix ? prefix->version : 0;
}

Received nothing_of(Dialect dialect) noexcept {
  return {Kind::kMessage,      dialect, false, Xid{}, v1::kVersion, 0, {}, 0, 0,
          Direction::kUnknown, 0,       {0, 0}};
}

// The common case: RDMA_MSG of version 1 without chunks. False, and nothing is changed: it is
// something else.
bool take_short_v1(Bytes message, Received& received) noexcept {
  if (!v1::is_short(message)) [[unlikely]]
    return false;
  received.xid = Xid{xdr::load_word(message.data())};
  received.credits = xdr::load_word(message.data() + 2 * xdr::kWordSize);
  received.payload = message.subspan(v1::kHeaderSizeMin);
  return true;
}

// Not inline: the common case is to stay small.
[[gnu::noinline]] void decode_other(const Versions& ours, Bytes message, const wire::Limits& limits,
                                    wire::ChunkLists& lists, Received& received) noexcept {
  if (ours.high >= 2 && version_in(message) == v2::kVersion) {
    received.dialect = Dialect::kV2;
    return decode_v2(message, limits, lists, received);
  }
  decode_v1(message, limits, lists, received);
  if (ours.low > 1 && !is_error(received.kind) && received.kind != Kind::kTooShort) {
    received.kind = Kind::kOtherVersion;
  }
}

}  // namespace

Received decode(Dialect dialect, Bytes message, const wire::Limits& limits,
                wire::ChunkLists& lists) noexcept {
  Received received = nothing_of(dialect);
  if (dialect == Dialect::kV2) {
    decode_v2(message, limits, lists, received);
  } else if (!take_short_v1(message, received)) {
    decode_v1(message, limits, lists, received);
  }
  return received;
}

Received decode(const Versions& ours, Bytes message, const wire::Limits& limits,
                wire::ChunkLists& lists) noexcept {
  Received received = nothing_of(Dialect::kV1);
  const bool is_short = ours.low == 1 && take_short_v1(message, received);
  if (!is_short) [[unlikely]]
    decode_other(ours, message, limits, lists, received);
  return received;
}

Direction direction_of(Dialect dialect, const Received& received) noexcept {
  if (dialect == Dialect::kV2) return received.direction;
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

std::uint32_t encode(Dialect dialect, const Outline& outline, const wire::ChunkLists& lists,
                     MutableBytes output) noexcept {
  const auto size = dialect == Dialect::kV2 ? v2::encode(header_v2(outline), lists, output)
                                            : v1::encode(header_v1(outline), lists, output);
  RPCRDMA_ASSERT(size.has_value(), "a header was planned to fit");
  return static_cast<std::uint32_t>(*size);
}

void encode_short(Dialect dialect, Xid xid, std::uint32_t credits, Direction direction,
                  MutableBytes output) noexcept {
  if (dialect == Dialect::kV2) [[unlikely]]
    return v2::encode_short(xid, credits, to_wire(direction), output);
  v1::encode_short(xid, credits, output);
}

std::size_t header_size(Dialect dialect, const wire::ChunkLists& lists) noexcept {
  if (dialect == Dialect::kV2) return v2::encoded_size({Xid{}, 0, 0, v2::Msg{}}, lists);
  return v1::encoded_size({Xid{0}, v1::kVersion, 0, v1::Msg{}}, lists);
}

}  // namespace rpcrdma::engine
