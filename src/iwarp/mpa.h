// MPA connection set-up frames: RFC 5044 §7.1, enhanced by RFC 6581 §6 and §9.
//
// An initiator sends a Request, a responder answers with a Reply; FPDUs follow.
#ifndef RPCRDMA_IWARP_MPA_H_
#define RPCRDMA_IWARP_MPA_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rpcrdma/types.h"

namespace rpcrdma::iwarp {

inline constexpr std::size_t kMpaKeySize = 16;
inline constexpr std::size_t kMpaHeaderSize = 20;       // key, flags, revision, length
inline constexpr std::size_t kMpaPrivateDataMax = 512;  // with the IRD/ORD words
inline constexpr std::size_t kMpaEnhancedSize = 4;      // the IRD/ORD words
inline constexpr std::size_t kMpaFrameMax = kMpaHeaderSize + kMpaPrivateDataMax;
inline constexpr std::size_t kMpaUserDataMax = kMpaPrivateDataMax - kMpaEnhancedSize;
inline constexpr std::uint16_t kReadDepthMax = 0x3ffe;
inline constexpr std::uint16_t kReadDepthUnknown = 0x3fff;  // "not negotiated"

// The message that opens the stream in the peer-to-peer model ("ready to receive", RFC 6581 §9).
enum class Rtr : std::uint8_t {
  kNone,
  kWrite,  // zero-length RDMA Write
  kRead,   // zero-length RDMA Read
  kSend,   // zero-length Send
};

struct Enhanced {             // RFC 6581 §9; sender's view
  std::uint16_t ird = 0;      // RDMA Reads that the sender accepts
  std::uint16_t ord = 0;      // RDMA Reads that the sender wants to issue
  bool peer_to_peer = false;  // A
  bool rtr_send = false, rtr_write = false, rtr_read = false;  // B, C, D
  bool operator==(const Enhanced&) const = default;
};

struct MpaFrame {
  bool reply = false;
  bool markers = false;   // M: the sender wants markers in what it receives
  bool crc = false;       // C: the sender wants CRCs
  bool rejected = false;  // R: only in a Reply
  std::uint8_t revision = 2;
  std::optional<Enhanced> enhanced;  // S, only from revision 2 on
  Bytes private_data;                // of the upper layer; borrows from what was decoded
};

enum class MpaError : std::uint8_t {
  kBadKey,     // not the frame that is expected here
  kTooLong,    // more private data than RFC 5044 allows
  kTruncated,  // S without room for IRD and ORD, or fewer bytes than announced
};

// Writes the frame. Precondition: private_data fits. Returns the bytes written.
std::size_t encode(const MpaFrame& frame, std::byte* to) noexcept;
// True as long as `start` (at most the key) may become the key of that frame.
bool key_matches(bool reply, Bytes start) noexcept;
// Total size of the frame that starts with these kMpaHeaderSize bytes.
Expected<std::size_t, MpaError> frame_size(bool reply, Bytes header) noexcept;
// Decodes one whole frame; trailing bytes are kTooLong.
Expected<MpaFrame, MpaError> decode(bool reply, Bytes frame) noexcept;

// The agreement of both sides, from the point of view of the side that holds it.
struct Negotiated {
  bool initiator = true;
  bool crc = true;
  std::uint8_t revision = 2;
  std::uint16_t ird = 0;  // RDMA Reads of the peer that we must be able to hold
  std::uint16_t ord = 0;  // RDMA Reads that we may have in flight
  Rtr rtr = Rtr::kNone;   // initiator: to be sent first; responder: expected first
  bool operator==(const Negotiated&) const = default;
};

// Our side's wishes.
struct MpaWishes {
  bool crc = true;
  std::uint16_t ird = 16, ord = 16;
  std::uint8_t revision = 2;  // of our Request
  Rtr rtr = Rtr::kNone;       // other than kNone: ask for the peer-to-peer model
};

MpaFrame make_request(const MpaWishes& wishes, Bytes private_data) noexcept;
// The Reply that accepts a request, and what is agreed with it. Reads: RFC 6581 §9.1, our ORD is at
// most the initiator's IRD (a reply of 0 would make siw drop every later Read Request of ours), our
// IRD as much of the initiator's ORD as we have.
struct Acceptance {
  MpaFrame reply;
  Negotiated negotiated;
};
Acceptance accept(const MpaFrame& request, const MpaWishes& wishes, Bytes private_data) noexcept;
// The Reply that refuses it: R set, markers off.
MpaFrame make_reject(const MpaFrame& request, Bytes private_data) noexcept;

// The reason why an initiator cannot continue after a Reply.
enum class ReplyFault : std::uint8_t { kRejected, kMarkers, kRevision, kNotEnhanced, kIrd, kRtr };
Expected<Negotiated, ReplyFault> judge_reply(const MpaFrame& reply,
                                             const MpaWishes& wishes) noexcept;

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_MPA_H_
