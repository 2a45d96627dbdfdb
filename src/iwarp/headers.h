// DDP and RDMAP headers inside an FPDU (RFC 5041 §4, RFC 5040 §4), and the faults that a Terminate
// message tells (RFC 5040 §4.8).
//
// Sizes here are without the two bytes of the FPDU's length field unless said otherwise.
#ifndef RPCRDMA_IWARP_HEADERS_H_
#define RPCRDMA_IWARP_HEADERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rpcrdma/steering_tag.h"
#include "rpcrdma/types.h"

namespace rpcrdma::iwarp {

// RFC 5040 §4.2, the low four bits of the RDMAP control byte.
enum class Opcode : std::uint8_t {
  kWrite = 0,
  kReadRequest = 1,
  kReadResponse = 2,
  kSend = 3,
  kSendInvalidate = 4,
  kSendSolicited = 5,
  kSendSolicitedInvalidate = 6,
  kTerminate = 7,
};
constexpr bool is_tagged(Opcode opcode) noexcept {
  return opcode == Opcode::kWrite || opcode == Opcode::kReadResponse;
}
constexpr bool is_send(Opcode opcode) noexcept {
  return opcode >= Opcode::kSend && opcode <= Opcode::kSendSolicitedInvalidate;
}
constexpr bool invalidates(Opcode opcode) noexcept {
  return opcode == Opcode::kSendInvalidate || opcode == Opcode::kSendSolicitedInvalidate;
}

// Untagged DDP queues, RFC 5040 §4.1.
inline constexpr std::uint32_t kQueueSend = 0;
inline constexpr std::uint32_t kQueueReadRequest = 1;
inline constexpr std::uint32_t kQueueTerminate = 2;

inline constexpr std::size_t kLengthSize = 2;     // MPA's ULPDU length field
inline constexpr std::size_t kControlSize = 2;    // DDP and RDMAP control bytes
inline constexpr std::size_t kTaggedSize = 14;    // control, STag, TO
inline constexpr std::size_t kUntaggedSize = 18;  // control, reserved or STag, QN, MSN, MO
inline constexpr std::size_t kReadRequestSize = 28;
inline constexpr std::size_t kCrcSize = 4;
inline constexpr std::size_t kTerminateSizeMax = kUntaggedSize + 4 + 2 + kUntaggedSize + 28;
inline constexpr std::size_t kUlpduSizeMax = 0xffff;

constexpr std::size_t header_size(Opcode opcode) noexcept {
  return is_tagged(opcode) ? kTaggedSize : kUntaggedSize;
}
// Zero bytes that bring length field and ULPDU to a multiple of four, RFC 5044 §4.1.
constexpr std::size_t pad_size(std::size_t ulpdu_size) noexcept {
  return (0U - (kLengthSize + ulpdu_size)) & 3U;
}
// All of it on the wire: length field, ULPDU, pad, CRC.
constexpr std::size_t fpdu_size(std::size_t ulpdu_size) noexcept {
  return kLengthSize + ulpdu_size + pad_size(ulpdu_size) + kCrcSize;
}

// The faults of a stream that a Terminate can report. The comment is layer/type/code.
enum class Fault : std::uint8_t {
  kNone,
  kRdmapCatastrophic,           // 0/0/00
  kProtectionInvalidStag,       // 0/1/00
  kProtectionBounds,            // 0/1/01
  kProtectionAccess,            // 0/1/02
  kProtectionNotAssociated,     // 0/1/03
  kProtectionWrap,              // 0/1/04
  kProtectionCannotInvalidate,  // 0/1/09
  kProtectionUnspecified,       // 0/1/ff
  kOperationVersion,            // 0/2/05
  kOperationOpcode,             // 0/2/06
  kOperationStream,             // 0/2/07: too many Read Requests
  kOperationGlobal,             // 0/2/08
  kOperationCannotInvalidate,   // 0/2/09
  kOperationUnspecified,        // 0/2/ff
  kDdpCatastrophic,             // 1/0/00
  kTaggedInvalidStag,           // 1/1/00
  kTaggedBounds,                // 1/1/01
  kTaggedNotAssociated,         // 1/1/02
  kTaggedWrap,                  // 1/1/03
  kTaggedVersion,               // 1/1/04
  kUntaggedQueue,               // 1/2/01
  kUntaggedNoBuffer,            // 1/2/02
  kUntaggedMsn,                 // 1/2/03
  kUntaggedOffset,              // 1/2/04
  kUntaggedTooLong,             // 1/2/05
  kUntaggedVersion,             // 1/2/06
  kLlpClosed,                   // 2/0/01
  kLlpCrc,                      // 2/0/02
  kLlpLength,                   // 2/0/03: also a length that does not fit the header
  kLlpFrame,                    // 2/0/04
  kLlpCatastrophic,             // 2/0/05
  kLlpIrd,                      // 2/0/06
  kLlpRtr,                      // 2/0/07
  kUnknown,                     // received, and not in this table
};
std::string_view to_string(Fault fault) noexcept;

struct TerminateCode {
  std::uint8_t layer, type, code;
  bool operator==(const TerminateCode&) const = default;
};
// Precondition: neither kNone nor kUnknown.
TerminateCode code_of(Fault fault) noexcept;
Fault fault_of(TerminateCode code) noexcept;

// One decoded DDP segment header. Fields of the other model are zero.
struct Header {
  Opcode opcode = Opcode::kWrite;
  bool last = false;
  std::uint16_t ulpdu_size = 0;    // DDP header and payload
  std::uint32_t payload_size = 0;  // of this segment
  SteeringTag tag{};               // tagged: target; Send with Invalidate: tag to invalidate
  std::uint64_t address = 0;       // tagged: TO of the first byte
  std::uint32_t queue = 0;         // untagged: QN
  std::uint32_t sequence = 0;      // untagged: MSN, from 1
  std::uint32_t offset = 0;        // untagged: MO, bytes
  bool operator==(const Header&) const = default;
};
struct ReadRequest {
  SteeringTag sink_tag{};
  std::uint64_t sink_address = 0;
  std::uint32_t size = 0;
  SteeringTag source_tag{};
  std::uint64_t source_address = 0;
  bool operator==(const ReadRequest&) const = default;
};

// Writes length field and header of a Send that is one segment; 20 bytes.
void encode_send_header(Opcode opcode, std::uint16_t ulpdu_size, SteeringTag tag,
                        std::uint32_t sequence, std::byte* to) noexcept;
// Returns whether these 20 bytes start a plain Send that is one segment and has this MSN. The
// length is not looked at.
bool is_plain_send(const std::byte* fpdu, std::uint32_t sequence) noexcept;

// Checks the length field and both control bytes, before anything else is read. Precondition:
// fpdu.size() >= 4. kNone means that the FPDU is long enough for its header. Reserved bits are not
// checked (RFC 5040 §4.1, RFC 5041 §4: ignored on receipt).
Fault check_start(Bytes fpdu) noexcept;
// Decodes length field and header. Precondition: check_start() gave kNone and the bytes are there.
Header decode_header(Bytes fpdu) noexcept;
void decode_header(Bytes fpdu, Header& header) noexcept;  // in place
// Precondition: 28 bytes behind the header of a Read Request.
ReadRequest decode_read_request(Bytes payload) noexcept;

// Writes length field and header; returns the bytes written (16 or 20).
std::size_t encode_header(const Header& header, std::byte* to) noexcept;
void encode_read_request(const ReadRequest& request, std::byte* to) noexcept;

// Encodes the ULPDU of a Terminate: header and payload, RFC 5040 §4.8. `bad` are the bytes of the
// FPDU at fault from its length field on (header and, for a Read Request, its payload) or empty; as
// much of it is appended as the fault asks for. Returns the ULPDU size, at most kTerminateSizeMax.
std::size_t encode_terminate(Fault fault, Bytes bad, std::byte* to) noexcept;

// A decoded Terminate of the peer. The decoder is lenient: Linux's siw up to at least 6.12 has both
// nibbles of the first byte swapped, so a code that only makes sense the other way round is read
// that way.
struct Terminate {
  Fault fault = Fault::kUnknown;
  TerminateCode code{};                // as understood
  std::optional<ReadRequest> request;  // the Read Request at fault, when it came along
  std::optional<Header> write;         // the header of the RDMA Write at fault, when it came along
};
Terminate decode_terminate(Bytes payload) noexcept;

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_HEADERS_H_
