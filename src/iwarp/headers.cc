#include "iwarp/headers.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "iwarp/byte_order.h"

namespace rpcrdma::iwarp {
namespace {

constexpr unsigned kTaggedBit = 0x80;
constexpr unsigned kLastBit = 0x40;
constexpr unsigned kDdpVersionMask = 0x03;
constexpr unsigned kDdpVersion = 1;
constexpr unsigned kRdmapVersionShift = 6;
constexpr unsigned kRdmapVersion = 1;
constexpr unsigned kOpcodeMask = 0x0f;
constexpr unsigned kOpcodeMax = 7;

// Third byte of the Terminate control word.
constexpr unsigned kLengthValid = 0x80;
constexpr unsigned kDdpHeaderFollows = 0x40;
constexpr unsigned kRdmapHeaderFollows = 0x20;

struct FaultRow {
  Fault fault;
  TerminateCode code;
  std::string_view text;
};
constexpr std::array kFaults{
    FaultRow{Fault::kRdmapCatastrophic, {0, 0, 0}, "RDMAP: local catastrophic error"},
    FaultRow{Fault::kProtectionInvalidStag, {0, 1, 0}, "remote protection: invalid STag"},
    FaultRow{Fault::kProtectionBounds, {0, 1, 1}, "remote protection: base or bounds violation"},
    FaultRow{Fault::kProtectionAccess, {0, 1, 2}, "remote protection: access rights violation"},
    FaultRow{
        Fault::kProtectionNotAssociated, {0, 1, 3}, "remote protection: STag of another stream"},
    FaultRow{Fault::kProtectionWrap, {0, 1, 4}, "remote protection: tagged offset wraps"},
    FaultRow{Fault::kProtectionCannotInvalidate,
             {0, 1, 9},
             "remote protection: STag cannot be invalidated"},
    FaultRow{Fault::kProtectionUnspecified, {0, 1, 0xff}, "remote protection: unspecified"},
    FaultRow{Fault::kOperationVersion, {0, 2, 5}, "remote operation: invalid RDMAP version"},
    FaultRow{Fault::kOperationOpcode, {0, 2, 6}, "remote operation: unexpected opcode"},
    FaultRow{Fault::kOperationStream, {0, 2, 7}, "remote operation: catastrophic, this stream"},
    FaultRow{Fault::kOperationGlobal, {0, 2, 8}, "remote operation: catastrophic, global"},
    FaultRow{Fault::kOperationCannotInvalidate,
             {0, 2, 9},
             "remote operation: STag cannot be invalidated"},
    FaultRow{Fault::kOperationUnspecified, {0, 2, 0xff}, "remote operation: unspecified"},
    FaultRow{Fault::kDdpCatastrophic, {1, 0, 0}, "DDP: local catastrophic error"},
    FaultRow{Fault::kTaggedInvalidStag, {1, 1, 0}, "DDP tagged: invalid STag"},
    FaultRow{Fault::kTaggedBounds, {1, 1, 1}, "DDP tagged: base or bounds violation"},
    FaultRow{Fault::kTaggedNotAssociated, {1, 1, 2}, "DDP tagged: STag of another stream"},
    FaultRow{Fault::kTaggedWrap, {1, 1, 3}, "DDP tagged: tagged offset wraps"},
    FaultRow{Fault::kTaggedVersion, {1, 1, 4}, "DDP tagged: invalid DDP version"},
    FaultRow{Fault::kUntaggedQueue, {1, 2, 1}, "DDP untagged: invalid queue number"},
    FaultRow{Fault::kUntaggedNoBuffer, {1, 2, 2}, "DDP untagged: no Receive posted"},
    FaultRow{Fault::kUntaggedMsn, {1, 2, 3}, "DDP untagged: message sequence number out of range"},
    FaultRow{Fault::kUntaggedOffset, {1, 2, 4}, "DDP untagged: invalid message offset"},
    FaultRow{Fault::kUntaggedTooLong, {1, 2, 5}, "DDP untagged: message too long for its Receive"},
    FaultRow{Fault::kUntaggedVersion, {1, 2, 6}, "DDP untagged: invalid DDP version"},
    FaultRow{Fault::kLlpClosed, {2, 0, 1}, "MPA: TCP connection closed or lost"},
    FaultRow{Fault::kLlpCrc, {2, 0, 2}, "MPA: CRC error"},
    FaultRow{Fault::kLlpLength, {2, 0, 3}, "MPA: FPDU length does not fit"},
    FaultRow{Fault::kLlpFrame, {2, 0, 4}, "MPA: invalid request or reply frame"},
    FaultRow{Fault::kLlpCatastrophic, {2, 0, 5}, "MPA: local catastrophic error"},
    FaultRow{Fault::kLlpIrd, {2, 0, 6}, "MPA: insufficient IRD"},
    FaultRow{Fault::kLlpRtr, {2, 0, 7}, "MPA: no matching RTR option"},
};

// Returns which parts of the bad segment the Terminate carries: the flags of its third byte.
unsigned appended_parts(Fault fault, Bytes bad) noexcept {
  if (bad.size() < kLengthSize + kTaggedSize) return 0;
  const TerminateCode code = code_of(fault);
  const bool version = fault == Fault::kOperationVersion || fault == Fault::kOperationOpcode ||
                       fault == Fault::kTaggedVersion || fault == Fault::kUntaggedVersion;
  if (code.layer == 2 || code.type == 0 || version) return 0;
  const auto opcode = static_cast<Opcode>(std::to_integer<unsigned>(bad[3]) & kOpcodeMask);
  if (bad.size() < kLengthSize + header_size(opcode)) return 0;
  unsigned parts = kLengthValid | kDdpHeaderFollows;
  if (code.layer == 0 && code.type == 1 && opcode == Opcode::kReadRequest &&
      bad.size() >= kLengthSize + kUntaggedSize + kReadRequestSize) {
    parts |= kRdmapHeaderFollows;
  }
  return parts;
}

}  // namespace

std::string_view to_string(Fault fault) noexcept {
  for (const FaultRow& row : kFaults) {
    if (row.fault == fault) return row.text;
  }
  return fault == Fault::kNone ? "no fault" : "a fault that is not in RFC 5040";
}

TerminateCode code_of(Fault fault) noexcept {
  for (const FaultRow& row : kFaults) {
    if (row.fault == fault) return row.code;
  }
  RPCRDMA_ASSERT(false, "a fault without a code on the wire");
  return {};
}

Fault fault_of(TerminateCode code) noexcept {
  for (const FaultRow& row : kFaults) {
    if (row.code == code) return row.fault;
  }
  return Fault::kUnknown;
}

Fault check_start(Bytes fpdu) noexcept {
  RPCRDMA_ASSERT(fpdu.size() >= kLengthSize + kControlSize, "FPDU start is incomplete");
  const std::size_t size = load16(fpdu.data());
  if (size < kControlSize) return Fault::kLlpLength;
  const auto ddp = std::to_integer<unsigned>(fpdu[2]);
  const auto rdmap = std::to_integer<unsigned>(fpdu[3]);
  const bool tagged = (ddp & kTaggedBit) != 0;
  if ((ddp & kDdpVersionMask) != kDdpVersion) {
    return tagged ? Fault::kTaggedVersion : Fault::kUntaggedVersion;
  }
  if (rdmap >> kRdmapVersionShift != kRdmapVersion) return Fault::kOperationVersion;
  if ((rdmap & kOpcodeMask) > kOpcodeMax) return Fault::kOperationOpcode;
  const auto opcode = static_cast<Opcode>(rdmap & kOpcodeMask);
  if (is_tagged(opcode) != tagged) return Fault::kOperationOpcode;
  std::size_t least = header_size(opcode);
  if (opcode == Opcode::kReadRequest) least += kReadRequestSize;
  return size < least ? Fault::kLlpLength : Fault::kNone;
}

void encode_send_header(Opcode opcode, std::uint16_t ulpdu_size, SteeringTag tag,
                        std::uint32_t sequence, std::byte* to) noexcept {
  store16(to, ulpdu_size);
  to[2] = std::byte{kLastBit | kDdpVersion};
  to[3] =
      static_cast<std::byte>(kRdmapVersion << kRdmapVersionShift | static_cast<unsigned>(opcode));
  store32(to + 4, static_cast<std::uint32_t>(tag));
  store32(to + 8, kQueueSend);
  store32(to + 12, sequence);
  store32(to + 16, 0);
}

bool is_plain_send(const std::byte* fpdu, std::uint32_t sequence) noexcept {
  constexpr unsigned kControl = (kLastBit | kDdpVersion) << 8U |
                                kRdmapVersion << kRdmapVersionShift |
                                static_cast<unsigned>(Opcode::kSend);
  return load16(fpdu + 2) == kControl && load32(fpdu + 8) == kQueueSend &&
         load32(fpdu + 12) == sequence && load32(fpdu + 16) == 0;
}

Header decode_header(Bytes fpdu) noexcept {
  Header header;
  decode_header(fpdu, header);
  return header;
}

void decode_header(Bytes fpdu, Header& header) noexcept {
  const std::byte* at = fpdu.data();
  header = {};
  header.ulpdu_size = load16(at);
  header.last = (std::to_integer<unsigned>(at[2]) & kLastBit) != 0;
  header.opcode = static_cast<Opcode>(std::to_integer<unsigned>(at[3]) & kOpcodeMask);
  if (is_tagged(header.opcode)) {
    header.tag = SteeringTag{load32(at + 4)};
    header.address = load64(at + 8);
  } else {
    if (invalidates(header.opcode)) header.tag = SteeringTag{load32(at + 4)};
    header.queue = load32(at + 8);
    header.sequence = load32(at + 12);
    header.offset = load32(at + 16);
  }
  header.payload_size = static_cast<std::uint32_t>(header.ulpdu_size - header_size(header.opcode));
}

ReadRequest decode_read_request(Bytes payload) noexcept {
  const std::byte* at = payload.data();
  return {SteeringTag{load32(at)}, load64(at + 4), load32(at + 12), SteeringTag{load32(at + 16)},
          load64(at + 20)};
}

std::size_t encode_header(const Header& header, std::byte* to) noexcept {
  const bool tagged = is_tagged(header.opcode);
  store16(to, header.ulpdu_size);
  to[2] = static_cast<std::byte>((tagged ? kTaggedBit : 0U) | (header.last ? kLastBit : 0U) |
                                 kDdpVersion);
  to[3] = static_cast<std::byte>((kRdmapVersion << kRdmapVersionShift) |
                                 static_cast<unsigned>(header.opcode));
  store32(to + 4, static_cast<std::uint32_t>(header.tag));
  if (tagged) {
    store64(to + 8, header.address);
    return kLengthSize + kTaggedSize;
  }
  store32(to + 8, header.queue);
  store32(to + 12, header.sequence);
  store32(to + 16, header.offset);
  return kLengthSize + kUntaggedSize;
}

void encode_read_request(const ReadRequest& request, std::byte* to) noexcept {
  store32(to, static_cast<std::uint32_t>(request.sink_tag));
  store64(to + 4, request.sink_address);
  store32(to + 12, request.size);
  store32(to + 16, static_cast<std::uint32_t>(request.source_tag));
  store64(to + 20, request.source_address);
}

std::size_t encode_terminate(Fault fault, Bytes bad, std::byte* to) noexcept {
  const TerminateCode code = code_of(fault);
  const unsigned parts = appended_parts(fault, bad);
  std::byte* at = to + kLengthSize + kUntaggedSize;
  at[0] = static_cast<std::byte>((code.layer << 4U) | code.type);
  at[1] = static_cast<std::byte>(code.code);
  at[2] = static_cast<std::byte>(parts);
  at[3] = std::byte{0};
  at += 4;
  if ((parts & kDdpHeaderFollows) != 0) {
    // Length field, DDP header and Read Request header lie in the FPDU as they have to lie here.
    std::size_t size = kLengthSize + header_size(decode_header(bad).opcode);
    if ((parts & kRdmapHeaderFollows) != 0) size += kReadRequestSize;
    std::memcpy(at, bad.data(), size);
    at += size;
  }
  Header header;
  header.opcode = Opcode::kTerminate;
  header.last = true;
  header.ulpdu_size =
      static_cast<std::uint16_t>(at - to - static_cast<std::ptrdiff_t>(kLengthSize));
  header.queue = kQueueTerminate;
  header.sequence = 1;
  encode_header(header, to);
  return header.ulpdu_size;
}

Terminate decode_terminate(Bytes payload) noexcept {
  Terminate terminate;
  if (payload.size() < 4) return terminate;
  const auto first = std::to_integer<unsigned>(payload[0]);
  const auto code = std::to_integer<std::uint8_t>(payload[1]);
  terminate.code = {static_cast<std::uint8_t>(first >> 4U),
                    static_cast<std::uint8_t>(first & 0x0fU), code};
  terminate.fault = fault_of(terminate.code);
  auto parts = std::to_integer<unsigned>(payload[2]);
  const TerminateCode swapped{terminate.code.type, terminate.code.layer, code};
  // 1/2 and 2/1, 0/1 and 1/0 are ambiguous by themselves; siw also has the flags in the low bits.
  const bool flags_low = (parts & 0xe0U) == 0 && (parts & 0x07U) != 0;
  if (flags_low || (terminate.fault == Fault::kUnknown && fault_of(swapped) != Fault::kUnknown)) {
    terminate.code = swapped;
    terminate.fault = fault_of(swapped);
    if (flags_low) {
      parts = ((parts & 2U) != 0 ? kDdpHeaderFollows : 0U) |
              ((parts & 4U) != 0 ? kRdmapHeaderFollows : 0U);
    }
  }
  constexpr unsigned kBoth = kDdpHeaderFollows | kRdmapHeaderFollows;
  constexpr std::size_t kBefore = 4 + kLengthSize + kUntaggedSize;
  if ((parts & kBoth) == kBoth && payload.size() >= kBefore + kReadRequestSize) {
    terminate.request = decode_read_request(payload.subspan(kBefore));
  } else if ((parts & kDdpHeaderFollows) != 0 && payload.size() >= 4 + kLengthSize + kTaggedSize) {
    // An untagged header is longer; only one that says that it is a Write's is read further.
    const Bytes segment = payload.subspan(4);
    const auto opcode = std::to_integer<unsigned>(segment[kLengthSize + 1]) & kOpcodeMask;
    if (opcode == static_cast<unsigned>(Opcode::kWrite)) terminate.write = decode_header(segment);
  }
  return terminate;
}

}  // namespace rpcrdma::iwarp
