// The FPDUs of a TcpLink: rules of MPA, DDP and RDMAP, and the messages that they carry.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "explain/tcp_link.h"
#include "iwarp/byte_order.h"

namespace rpcrdma::explain {
namespace {

constexpr std::size_t kKept = 8192;  // of a Send: its Transport and RPC headers

std::uint32_t queue_of(iwarp::Opcode opcode) noexcept {
  if (opcode == iwarp::Opcode::kReadRequest) return iwarp::kQueueReadRequest;
  if (opcode == iwarp::Opcode::kTerminate) return iwarp::kQueueTerminate;
  return iwarp::kQueueSend;
}

RuleId rule_of(Bytes raw, iwarp::Fault fault) noexcept {
  using iwarp::Fault;
  if (fault == Fault::kTaggedVersion || fault == Fault::kUntaggedVersion) {
    return RuleId::kDdpVersion;
  }
  if (fault == Fault::kOperationVersion) return RuleId::kRdmapVersion;
  if (fault == Fault::kOperationOpcode) {
    return (std::to_integer<unsigned>(raw[3]) & 15U) > 7 ? RuleId::kOpcodeBad : RuleId::kTaggedFlag;
  }
  // A Read Request whose payload is too short fits its DDP header all the same.
  const bool is_request = (std::to_integer<unsigned>(raw[3]) & 15U) == 1;
  const bool has_header = iwarp::load16(raw.data()) >= iwarp::kUntaggedSize;
  return is_request && has_header ? RuleId::kReadRequestSize : RuleId::kLengthBad;
}

}  // namespace

void TcpLink::Direction::on_fpdu(const FpduStart& start_of) {
  fpdu = start_of;
  if (!has_fpdu) link->judge_first_fpdu(*this, fpdu);
  link->connection_.transport = Transport::kIwarp;
  judge_start(fpdu);
  if (fpdu.fault != iwarp::Fault::kNone) return;
  const iwarp::Header& header = fpdu.header;
  if (iwarp::is_tagged(header.opcode)) {  // also between the segments of an untagged message
    start_placed(header, fpdu.where);
    return;
  }
  if (header.offset == 0) message_size = 0;
  judge_untagged(header, fpdu.where);
  if (header.offset == 0 || message.empty()) {
    message.clear();
    message_size = 0;
    message_first = fpdu.where;
    is_message_whole = header.offset == 0;
  }
}

void TcpLink::Direction::judge_start(const FpduStart& start_of) {
  const Where& where = start_of.where;
  if (is_terminated) report(RuleId::kAfterTerminate, where);
  if (start_of.fault != iwarp::Fault::kNone) {
    report(rule_of(start_of.raw, start_of.fault), where, std::string(to_string(start_of.fault)));
  } else if (start_of.has_reserved_bits) {
    report(RuleId::kReservedBits, where);
  }
}

void TcpLink::Direction::judge_untagged(const iwarp::Header& header, const Where& where) {
  const std::uint32_t queue = queue_of(header.opcode);
  if (header.queue != queue) {
    report(RuleId::kQueueBad, where, fmt::format("queue {} for {}", header.queue, queue));
  }
  std::uint32_t& expected = sequence[queue];
  if (expected != 0 && header.sequence != expected) {
    report(RuleId::kSequenceBad, where,
           fmt::format("number {}, and {} is next", header.sequence, expected));
  } else if (expected != 0 && header.offset != message_size) {
    report(RuleId::kOffsetBad, where,
           fmt::format("offset {}, and {} bytes came before", header.offset, message_size));
  }
  expected = header.last ? header.sequence + 1 : header.sequence;
}

void TcpLink::Direction::start_placed(const iwarp::Header& header, const Where& where) {
  const PlacedFact placed{side,
                          where,
                          static_cast<std::uint32_t>(header.tag),
                          header.address,
                          header.payload_size,
                          header.last};
  if (header.opcode == iwarp::Opcode::kWrite) {
    link->conversation_.on_write(placed);
  } else {
    link->conversation_.on_response(placed);
  }
}

void TcpLink::Direction::on_payload(Bytes bytes, std::uint32_t offset, const Where&) {
  if (fpdu.fault != iwarp::Fault::kNone) return;
  if (iwarp::is_tagged(fpdu.header.opcode)) {
    if (link->conversation_.wants_bytes()) link->conversation_.on_placed_bytes(bytes, offset);
    return;
  }
  // Behind a gap nothing is kept, or it would stand where the missing bytes were.
  const std::uint64_t at = std::uint64_t{fpdu.header.offset} + offset;
  if (at == message.size() && message.size() < kKept) {
    const Bytes piece = bytes.first(std::min(bytes.size(), kKept - message.size()));
    message.insert(message.end(), piece.begin(), piece.end());
  }
}

void TcpLink::Direction::on_fpdu_end(const FpduEnd& end_of) {
  const bool is_judged = link->is_setup_known_ ? link->has_crc_ : has_good_crc;
  if (end_of.crc == Crc::kGood) has_good_crc = true;
  if (is_judged && end_of.crc == Crc::kBad) report(RuleId::kCrcBad, end_of.where);
  if (is_judged && end_of.crc == Crc::kZero) report(RuleId::kCrcMissing, end_of.where);
  if (end_of.has_pad_bits) report(RuleId::kPadBits, end_of.where);
  if (end_of.has_bad_marker) report(RuleId::kMarkerBad, end_of.where);
  if (!end_of.is_whole) is_message_whole = false;
  FrameFact frame_fact;
  const iwarp::Header& header = fpdu.header;
  frame_fact.where = end_of.where;
  frame_fact.connection = link->connection_.number;
  frame_fact.side = side;
  frame_fact.opcode = std::to_integer<std::uint32_t>(fpdu.raw[3]) & 15U;
  frame_fact.is_last = header.last;
  frame_fact.queue = header.queue;
  frame_fact.sequence = header.sequence;
  frame_fact.offset = header.offset;
  frame_fact.tag = static_cast<std::uint32_t>(header.tag);
  frame_fact.address = header.address;
  frame_fact.size = fpdu.size;
  const bool is_request = header.opcode == iwarp::Opcode::kReadRequest;
  if (fpdu.fault == iwarp::Fault::kNone && is_request &&
      message.size() >= iwarp::kReadRequestSize) {
    const iwarp::ReadRequest request = iwarp::decode_read_request(message);
    frame_fact.sink_tag = static_cast<std::uint32_t>(request.sink_tag);
    frame_fact.read_size = request.size;
    frame_fact.source_tag = static_cast<std::uint32_t>(request.source_tag);
  }
  link->sink_.on_frame(frame_fact);
  if (fpdu.fault != iwarp::Fault::kNone || iwarp::is_tagged(header.opcode)) return;
  message_size = std::uint64_t{header.offset} + header.payload_size;
  if (!header.last) return;
  if (iwarp::is_send(header.opcode)) finish_untagged(end_of);
  if (is_request) finish_read_request(end_of);
  if (header.opcode == iwarp::Opcode::kTerminate) finish_terminate(end_of);
  message.clear();
  message_size = 0;
  is_message_whole = true;
}

void TcpLink::Direction::finish_untagged(const FpduEnd& end_of) {
  const iwarp::Header& header = fpdu.header;
  if (message_size == 0) return;  // a ready-to-receive message
  SendFact send{side, message_first, end_of.where, message, message_size, is_message_whole, {}};
  if (iwarp::invalidates(header.opcode)) {
    send.invalidated = static_cast<std::uint32_t>(header.tag);
  }
  // Bytes in front are missing: the header is among them, perhaps.
  if (!is_message_whole && message.size() < 16) return;
  link->conversation_.on_send(send);
}

void TcpLink::Direction::finish_read_request(const FpduEnd& end_of) {
  if (message.size() < iwarp::kReadRequestSize) return;
  if (message.size() > iwarp::kReadRequestSize) {
    report(RuleId::kReadRequestSize, end_of.where, fmt::format("it has {} bytes", message_size));
  }
  const iwarp::ReadRequest request = iwarp::decode_read_request(message);
  link->conversation_.on_read(
      {side, end_of.where, static_cast<std::uint32_t>(request.sink_tag), request.sink_address,
       request.size, static_cast<std::uint32_t>(request.source_tag), request.source_address});
}

void TcpLink::Direction::finish_terminate(const FpduEnd& end_of) {
  const iwarp::Terminate terminate = iwarp::decode_terminate(message);
  is_terminated = true;
  const std::string why(to_string(terminate.fault));
  report(RuleId::kTerminated, end_of.where, why);
  if (link->connection_.ended_by.empty()) {
    link->connection_.ended_by =
        fmt::format("Terminate of {} in packet {}: {}",
                    to_string(link->connection_.sides[side].endpoint), end_of.where.packet, why);
  }
}

}  // namespace rpcrdma::explain
