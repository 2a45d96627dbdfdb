// Messages of RPC-over-RDMA in the terms that its versions share. These functions hide the
// differences between versions; only they know the codecs.
#ifndef RPCRDMA_ENGINE_DIALECT_H_
#define RPCRDMA_ENGINE_DIALECT_H_

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"
#include "wire/chunk_lists.h"

namespace rpcrdma::engine {

enum class Dialect : std::uint8_t {
  kV1,  // RFC 8166, and RFC 5666 with its further messages
  kV2,  // draft-cel-nfsv4-rpcrdma-version-two-01
};

// Bytes that every side of version 2 can receive, and counts on until a characteristic says more.
inline constexpr std::uint32_t kReceiveSizeV2 = 4096;

// Room that a short header takes in front of a message, bytes, in the largest of the dialects.
inline constexpr std::size_t kShortHeaderSizeMax = 32;

enum class Kind : std::uint8_t {
  kMessage,       // the Payload stream follows the header, but for what is reduced
  kNoMessage,     // the Payload stream is in a chunk
  kPadded,        // as kMessage, with aligned data (RFC 5666 §3.9)
  kDone,          // RDMA_DONE (RFC 5666 §3.8)
  kOption,        // RDMA2_OPTIONAL: the payload is its information
  kBadOption,     // RDMA2_OPTIONAL whose header breaks a rule
  kErrorVersion,  // the peer does not speak this version
  kErrorChunk,    // the peer could not use our header or its chunks
  kErrorOption,   // the peer does not know our option
  kErrorUnknown,  // an error message that makes no sense
  kOtherVersion,  // in a version that this dialect is not
  kMalformed,     // breaks a rule of the header
  kTooShort,      // fewer than the 16 bytes that every version begins with
};

constexpr bool is_error(Kind kind) noexcept {
  return kind == Kind::kErrorVersion || kind == Kind::kErrorChunk || kind == Kind::kErrorOption ||
         kind == Kind::kErrorUnknown;
}
constexpr bool is_option(Kind kind) noexcept {
  return kind == Kind::kOption || kind == Kind::kBadOption;
}
// There is nothing in it that could be looked at.
constexpr bool is_unreadable(Kind kind) noexcept {
  return kind == Kind::kErrorUnknown || kind == Kind::kOtherVersion || kind == Kind::kMalformed ||
         kind == Kind::kTooShort;
}

enum class Direction : std::uint8_t { kCall, kReply, kUnknown };

// Versions of RPC-over-RDMA that a peer speaks, or that we do: a range.
struct Versions {
  std::uint32_t low, high;
  constexpr bool contain(std::uint32_t version) const noexcept {
    return low <= version && version <= high;
  }
  bool operator==(const Versions&) const = default;
};

// A message that was decoded, once, when it came.
struct Received {
  Kind kind;
  Dialect dialect;  // that decoded it
  bool has_chunks;  // what they are is in the lists that decode() was given
  Xid xid;          // with kTooShort: 0
  std::uint32_t version;
  std::uint32_t credits;
  Bytes payload;                       // what follows the header; borrows from the message
  std::uint32_t alignment, threshold;  // kPadded: bytes
  Direction direction;                 // of the header; kUnknown in version 1, which has none
  std::uint32_t option;                // kOption: its type
  Versions versions;                   // kErrorVersion: what the peer speaks
};

// Return whether a Payload stream belongs to the RPC message with this XID, and whether its message
// type is CALL.
inline bool begins_with(Bytes payload, Xid xid) noexcept {
  return payload.size() >= xdr::kWordSize &&
         xdr::load_word(payload.data()) == static_cast<std::uint32_t>(xid);
}
inline bool says_call(Bytes payload) noexcept {
  return payload.size() >= 2 * xdr::kWordSize &&
         xdr::load_word(payload.data() + xdr::kWordSize) == 0;
}

// Returns whether the Payload stream may belong to the header's Call. In version 2 both must have
// the same direction; in version 1 the layer above checks the message type.
inline bool is_call_of(const Received& message) noexcept {
  return begins_with(message.payload, message.xid) &&
         (message.dialect == Dialect::kV1 || says_call(message.payload));
}

// `lists` is overwritten where the message has chunks, and left alone where it has none.
Received decode(Dialect dialect, Bytes message, const wire::Limits& limits,
                wire::ChunkLists& lists) noexcept;
// Does the same for a message in any version of ours. Errors are read in either version: a peer may
// name its own version in ERR_VERS.
Received decode(const Versions& ours, Bytes message, const wire::Limits& limits,
                wire::ChunkLists& lists) noexcept;

// Returns whether a message is a Call or a reply. In version 2 its header has a direction, and
// errors are replies. In version 1 the RPC message decides, if it is in the Payload stream and its
// XID is the header's (RFC 5531 §9, msg_type; RFC 8167 §5.3).
Direction direction_of(Dialect dialect, const Received& received) noexcept;

// The header of a message to send.
struct Outline {
  Kind kind;
  Xid xid;
  std::uint32_t credits;
  Direction direction = Direction::kCall;      // not kUnknown
  std::uint32_t version = 0;                   // errors of version 1: of what is answered
  Versions versions{};                         // kErrorVersion: what we speak
  std::uint32_t alignment = 0, threshold = 0;  // kPadded: bytes
  std::uint32_t option = 0;                    // kOption: its type
  Bytes info{};                                // kOption
};
// Writes it to the start of `output`, with `lists` where its kind has chunk lists; returns its
// size, bytes. Precondition: it fits.
std::uint32_t encode(Dialect dialect, const Outline& outline, const wire::ChunkLists& lists,
                     MutableBytes output) noexcept;
// Does the same for a kMessage without chunks, whose header has HeaderSizes::shortest bytes.
void encode_short(Dialect dialect, Xid xid, std::uint32_t credits, Direction direction,
                  MutableBytes output) noexcept;
// Bytes that encode() writes for a kMessage or kNoMessage with these lists.
std::size_t header_size(Dialect dialect, const wire::ChunkLists& lists) noexcept;

// Sizes on the wire, bytes.
struct HeaderSizes {
  std::uint32_t shortest;       // kMessage or kNoMessage, all lists empty
  std::uint32_t padded;         // kPadded, all lists empty
  std::uint32_t read_segment;   // each entry of the Read list
  std::uint32_t write_chunk;    // each Write chunk, without its segments
  std::uint32_t reply_chunk;    // the Reply chunk, without its segments
  std::uint32_t plain_segment;  // each segment of a Write chunk or Reply chunk
};
inline constexpr HeaderSizes kHeaderSizesV1{28, 36, 24, 8, 4, 16};
inline constexpr HeaderSizes kHeaderSizesV2{32, 32, 24, 8, 4, 16};
constexpr const HeaderSizes& header_sizes(Dialect dialect) noexcept {
  return dialect == Dialect::kV2 ? kHeaderSizesV2 : kHeaderSizesV1;
}

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_DIALECT_H_
