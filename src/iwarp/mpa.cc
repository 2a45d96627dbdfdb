#include "iwarp/mpa.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/assert.h"
#include "iwarp/byte_order.h"

namespace rpcrdma::iwarp {
namespace {

constexpr std::string_view kRequestKey = "MPA ID Req Frame";
constexpr std::string_view kReplyKey = "MPA ID Rep Frame";
constexpr unsigned kMarkersFlag = 0x80;
constexpr unsigned kCrcFlag = 0x40;
constexpr unsigned kRejectFlag = 0x20;
constexpr unsigned kEnhancedFlag = 0x10;
constexpr unsigned kHighBit = 0x8000;
constexpr unsigned kSecondBit = 0x4000;
constexpr unsigned kDepthMask = 0x3fff;

std::string_view key(bool reply) noexcept {
  return reply ? kReplyKey : kRequestKey;
}

Enhanced decode_enhanced(const std::byte* at) noexcept {
  const unsigned ird = load16(at);
  const unsigned ord = load16(at + 2);
  return {static_cast<std::uint16_t>(ird & kDepthMask),
          static_cast<std::uint16_t>(ord & kDepthMask),
          (ird & kHighBit) != 0,
          (ird & kSecondBit) != 0,
          (ord & kHighBit) != 0,
          (ord & kSecondBit) != 0};
}

void encode_enhanced(const Enhanced& enhanced, std::byte* to) noexcept {
  store16(to, static_cast<std::uint16_t>((enhanced.ird & kDepthMask) |
                                         (enhanced.peer_to_peer ? kHighBit : 0U) |
                                         (enhanced.rtr_send ? kSecondBit : 0U)));
  store16(to + 2, static_cast<std::uint16_t>((enhanced.ord & kDepthMask) |
                                             (enhanced.rtr_write ? kHighBit : 0U) |
                                             (enhanced.rtr_read ? kSecondBit : 0U)));
}

// Limits `wanted` to the peer's limit, which may be unknown.
std::uint16_t limited(std::uint16_t wanted, std::uint16_t peer) noexcept {
  return peer == kReadDepthUnknown ? wanted : std::min(wanted, peer);
}

// Prefers Write to Read, and grants a peer that offers nothing Write, as siw does. A Send, which
// siw does not know, is granted where nothing else is offered.
Rtr granted_rtr(const Enhanced& asked) noexcept {
  if (!asked.peer_to_peer) return Rtr::kNone;
  if (asked.rtr_write) return Rtr::kWrite;
  if (asked.rtr_read) return Rtr::kRead;
  return asked.rtr_send ? Rtr::kSend : Rtr::kWrite;
}

Rtr rtr_of(const Enhanced& enhanced) noexcept {
  if (enhanced.rtr_write) return Rtr::kWrite;
  if (enhanced.rtr_read) return Rtr::kRead;
  return enhanced.rtr_send ? Rtr::kSend : Rtr::kNone;
}

}  // namespace

std::size_t encode(const MpaFrame& frame, std::byte* to) noexcept {
  const std::size_t words = frame.enhanced ? kMpaEnhancedSize : 0;
  const std::size_t size = words + frame.private_data.size();
  RPCRDMA_ASSERT(size <= kMpaPrivateDataMax, "private data does not fit an MPA frame");
  std::memcpy(to, key(frame.reply).data(), kMpaKeySize);
  to[16] = static_cast<std::byte>(
      (frame.markers ? kMarkersFlag : 0U) | (frame.crc ? kCrcFlag : 0U) |
      (frame.rejected ? kRejectFlag : 0U) | (frame.enhanced ? kEnhancedFlag : 0U));
  to[17] = static_cast<std::byte>(frame.revision);
  store16(to + 18, static_cast<std::uint16_t>(size));
  if (frame.enhanced) encode_enhanced(*frame.enhanced, to + kMpaHeaderSize);
  if (!frame.private_data.empty()) {
    std::memcpy(to + kMpaHeaderSize + words, frame.private_data.data(), frame.private_data.size());
  }
  return kMpaHeaderSize + size;
}

bool key_matches(bool reply, Bytes start) noexcept {
  const std::size_t size = std::min(start.size(), kMpaKeySize);
  return size == 0 || std::memcmp(start.data(), key(reply).data(), size) == 0;
}

Expected<std::size_t, MpaError> frame_size(bool reply, Bytes header) noexcept {
  if (header.size() < kMpaHeaderSize) return Unexpected<MpaError>(MpaError::kTruncated);
  if (!key_matches(reply, header)) return Unexpected<MpaError>(MpaError::kBadKey);
  const std::size_t size = load16(header.data() + 18);
  if (size > kMpaPrivateDataMax) return Unexpected<MpaError>(MpaError::kTooLong);
  return kMpaHeaderSize + size;
}

Expected<MpaFrame, MpaError> decode(bool reply, Bytes frame) noexcept {
  const auto size = frame_size(reply, frame);
  if (!size) return Unexpected<MpaError>(size.error());
  if (frame.size() != *size) {
    return Unexpected<MpaError>(frame.size() < *size ? MpaError::kTruncated : MpaError::kTooLong);
  }
  const auto flags = std::to_integer<unsigned>(frame[16]);
  MpaFrame decoded;
  decoded.reply = reply;
  decoded.markers = (flags & kMarkersFlag) != 0;
  decoded.crc = (flags & kCrcFlag) != 0;
  decoded.rejected = reply && (flags & kRejectFlag) != 0;
  decoded.revision = std::to_integer<std::uint8_t>(frame[17]);
  decoded.private_data = frame.subspan(kMpaHeaderSize);
  if (decoded.revision >= 2 && (flags & kEnhancedFlag) != 0) {
    if (decoded.private_data.size() < kMpaEnhancedSize) {
      return Unexpected<MpaError>(MpaError::kTruncated);
    }
    decoded.enhanced = decode_enhanced(decoded.private_data.data());
    decoded.private_data = decoded.private_data.subspan(kMpaEnhancedSize);
  }
  return decoded;
}

MpaFrame make_request(const MpaWishes& wishes, Bytes private_data) noexcept {
  MpaFrame request;
  request.crc = wishes.crc;
  request.revision = wishes.revision;
  request.private_data = private_data;
  if (wishes.revision >= 2) {
    request.enhanced = Enhanced{wishes.ird,
                                wishes.ord,
                                wishes.rtr != Rtr::kNone,
                                wishes.rtr == Rtr::kSend,
                                wishes.rtr == Rtr::kWrite,
                                wishes.rtr == Rtr::kRead};
  }
  return request;
}

Acceptance accept(const MpaFrame& request, const MpaWishes& wishes, Bytes private_data) noexcept {
  Acceptance acceptance;
  Negotiated& agreed = acceptance.negotiated;
  // RFC 5044 §7.1.1: CRCs are used when either side asks for them.
  agreed = {false,
            wishes.crc || request.crc,
            std::min<std::uint8_t>(request.revision, 2),
            wishes.ird,
            wishes.ord,
            Rtr::kNone};
  MpaFrame& reply = acceptance.reply;
  reply.reply = true;
  reply.crc = agreed.crc;
  reply.revision = agreed.revision;
  reply.private_data = private_data;
  if (request.enhanced) {
    const Enhanced& asked = *request.enhanced;
    agreed.ird = limited(wishes.ird, asked.ord);
    agreed.ord = limited(wishes.ord, asked.ird);
    agreed.rtr = granted_rtr(asked);
    reply.enhanced = Enhanced{agreed.ird,
                              agreed.ord,
                              asked.peer_to_peer,
                              agreed.rtr == Rtr::kSend,
                              agreed.rtr == Rtr::kWrite,
                              agreed.rtr == Rtr::kRead};
  }
  return acceptance;
}

MpaFrame make_reject(const MpaFrame& request, Bytes private_data) noexcept {
  MpaFrame reply;
  reply.reply = true;
  reply.rejected = true;
  reply.crc = request.crc;
  reply.revision = std::clamp<std::uint8_t>(request.revision, 1, 2);
  reply.private_data = private_data;
  if (request.enhanced) reply.enhanced = Enhanced{};
  return reply;
}

Expected<Negotiated, ReplyFault> judge_reply(const MpaFrame& reply,
                                             const MpaWishes& wishes) noexcept {
  if (reply.rejected) return Unexpected<ReplyFault>(ReplyFault::kRejected);
  if (reply.markers) return Unexpected<ReplyFault>(ReplyFault::kMarkers);
  if (reply.revision < wishes.revision || reply.revision > 2) {
    return Unexpected<ReplyFault>(ReplyFault::kRevision);
  }
  Negotiated agreed{true,      wishes.crc || reply.crc, wishes.revision, wishes.ird, wishes.ord,
                    Rtr::kNone};
  if (wishes.revision < 2) return agreed;
  if (!reply.enhanced) return Unexpected<ReplyFault>(ReplyFault::kNotEnhanced);
  const Enhanced& granted = *reply.enhanced;
  // RFC 6581 §9.1: a responder that wants more Reads than we can hold ends the connection.
  if (granted.ord != kReadDepthUnknown && granted.ord > wishes.ird) {
    return Unexpected<ReplyFault>(ReplyFault::kIrd);
  }
  agreed.ord = limited(wishes.ord, granted.ird);
  if (wishes.rtr != Rtr::kNone && granted.peer_to_peer) {
    agreed.rtr = rtr_of(granted);
    if (agreed.rtr != wishes.rtr) return Unexpected<ReplyFault>(ReplyFault::kRtr);
  }
  return agreed;
}

}  // namespace rpcrdma::iwarp
