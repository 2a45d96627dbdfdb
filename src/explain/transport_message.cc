#include "explain/transport_message.h"

#include <variant>

#include "wire/prefix.h"
#include "wire/v1/header.h"
#include "wire/v2/header.h"

namespace rpcrdma::explain {
namespace {

SegmentFact fact_of(const wire::Segment& segment) {
  return {0, static_cast<std::uint32_t>(segment.handle), segment.length, segment.offset};
}

Chunk chunk_of(std::span<const wire::Segment> segments) {
  Chunk chunk;
  chunk.reserve(segments.size());
  for (const wire::Segment& segment : segments) chunk.push_back(fact_of(segment));
  return chunk;
}

void take_error(const xdr::DecodeError& error, MessageFact& fact) {
  fact.error = to_string(error.code);
  fact.error_field = error.field;
}

constexpr std::uint32_t kErrVers = 1, kErrChunk = 2, kErrInvalOption = 3;

}  // namespace

Bytes HeaderDecoder::decode(Bytes message, MessageFact& fact) {
  const auto prefix = wire::peek(message);
  if (!prefix) {
    take_error(prefix.error(), fact);
    return {};
  }
  fact.xid = static_cast<std::uint32_t>(prefix->xid);
  fact.version = prefix->version;
  fact.credits = prefix->credits;
  fact.type = prefix->type;
  return fact.version == wire::v2::kVersion ? decode_v2(message, fact) : decode_v1(message, fact);
}

Bytes HeaderDecoder::decode_v1(Bytes message, MessageFact& fact) {
  const auto decoded = wire::v1::decode(message, wire::Limits(), lists_);
  if (!decoded) {
    take_error(decoded.error(), fact);
    return {};
  }
  if (const auto* versions = std::get_if<wire::v1::ErrVers>(&decoded->header.body)) {
    fact.error_code = kErrVers;
    fact.low = versions->low;
    fact.high = versions->high;
  } else if (std::holds_alternative<wire::v1::ErrChunk>(decoded->header.body)) {
    fact.error_code = kErrChunk;
  } else {
    take_lists(fact);
  }
  fact.header_size = static_cast<std::uint32_t>(message.size() - decoded->payload.size());
  return decoded->payload;
}

Bytes HeaderDecoder::decode_v2(Bytes message, MessageFact& fact) {
  const auto decoded = wire::v2::decode(message, wire::Limits(), lists_);
  if (!decoded) {
    take_error(decoded.error(), fact);
    return {};
  }
  const wire::v2::Body& body = decoded->header.body;
  if (const auto* versions = std::get_if<wire::v2::ErrVers>(&body)) {
    fact.error_code = kErrVers;
    fact.low = versions->low;
    fact.high = versions->high;
  } else if (std::holds_alternative<wire::v2::ErrBadHeader>(body)) {
    fact.error_code = kErrChunk;
  } else if (std::holds_alternative<wire::v2::ErrInvalOption>(body)) {
    fact.error_code = kErrInvalOption;
  } else if (const auto* optional = std::get_if<wire::v2::Optional>(&body)) {
    fact.is_reply = optional->direction == wire::v2::Direction::kReply;
    fact.option = optional->type;
  } else {
    const auto* message_body = std::get_if<wire::v2::Msg>(&body);
    const auto direction = message_body != nullptr ? message_body->direction
                                                   : std::get<wire::v2::NoMsg>(body).direction;
    fact.is_reply = direction == wire::v2::Direction::kReply;
    take_lists(fact);
  }
  if (fact.type == static_cast<std::uint32_t>(MessageType::kError)) fact.is_reply = true;
  fact.header_size = static_cast<std::uint32_t>(message.size() - decoded->payload.size());
  const auto* option = std::get_if<wire::v2::Optional>(&body);
  return option != nullptr ? option->info : decoded->payload;
}

void HeaderDecoder::take_lists(MessageFact& fact) const {
  fact.reads.reserve(lists_.reads.size());
  for (const wire::ReadSegment& read : lists_.reads) {
    fact.reads.push_back(fact_of(read.target));
    fact.reads.back().position = read.position;
  }
  for (std::size_t i = 0; i < lists_.writes.size(); ++i) {
    fact.writes.push_back(chunk_of(lists_.writes.chunk(i)));
  }
  fact.has_reply_chunk = lists_.has_reply;
  if (lists_.has_reply) fact.reply_chunk = chunk_of(lists_.reply.view());
}

}  // namespace rpcrdma::explain
