#include "explain/roce_link.h"

#include <fmt/core.h>

#include <algorithm>

#include "iwarp/byte_order.h"
#include "wire/private_data.h"

namespace rpcrdma::explain {
namespace {

constexpr std::size_t kKept = 8192;
constexpr std::uint32_t kPsnMask = 0xffffff;
constexpr std::size_t kReadsMax = 1024;

std::uint32_t plus(std::uint32_t psn, std::uint32_t count) noexcept {
  return (psn + count) & kPsnMask;
}
// Distance in the circle of PSNs, negative for those that came before.
std::int32_t distance(std::uint32_t from, std::uint32_t to) noexcept {
  const std::uint32_t ahead = (to - from) & kPsnMask;
  constexpr std::uint32_t kHalf = 0x800000;
  return ahead < kHalf ? static_cast<std::int32_t>(ahead)
                       : static_cast<std::int32_t>(ahead) - 0x1000000;
}

bool is_response(RoceOpcode opcode) noexcept {
  return opcode >= RoceOpcode::kResponseFirst && opcode <= RoceOpcode::kAcknowledge;
}

}  // namespace

void RoceLink::note_setup(int side, const CmMessage& message) {
  SideFact& fact = connection_.sides[side];
  fact.has_setup = true;
  fact.ird = message.resources;
  fact.ord = message.depth;
  if (const auto data = wire::find_private_data(message.private_data)) {
    fact.private_data =
        PrivateDataFact{data->takes_invalidation, data->send_size, data->receive_size};
  }
  if (message.path_mtu != 0) path_mtu_ = message.path_mtu;
  // A side names the number with which its peer begins.
  directions_[1 - side].next = message.psn;
}

void RoceLink::finish_setup() {
  Terms& terms = conversation_.terms();
  for (int sender = 0; sender < 2; ++sender) {
    const auto& from = connection_.sides[sender].private_data;
    const auto& to = connection_.sides[1 - sender].private_data;
    terms.is_default[sender] = !from || !to;
    terms.limits[sender] =
        from && to ? std::min(from->send_size, to->receive_size) : wire::kInlineSizeDefault;
    terms.reads_accepted[sender] = connection_.sides[1 - sender].ird;
  }
  terms.is_complete = true;
  terms.client = 0;
}

void RoceLink::add(int side, const RocePacket& packet, const Where& where) {
  SideFact& fact = connection_.sides[side];
  ++fact.packets;
  fact.bytes += packet.size;
  if (packet.is_icrc_good && !*packet.is_icrc_good) report(RuleId::kIcrcBad, side, where);
  FrameFact frame;
  frame.where = where;
  frame.connection = connection_.number;
  frame.side = side;
  frame.opcode = packet.opcode;
  frame.queue = packet.queue_pair;
  frame.sequence = packet.psn;
  frame.tag = packet.key;
  frame.address = packet.address;
  frame.read_size = packet.length;
  frame.size = packet.size;
  sink_.on_frame(frame);
  if (is_response(packet.kind())) {
    judge_acknowledge(side, packet, where);
    drop_passed_reads(side, packet, where);
    if (packet.kind() != RoceOpcode::kAcknowledge) add_response(side, packet, where);
    return;
  }
  if (!follow(side, packet, where)) return;
  const RoceOpcode kind = packet.kind();
  if (kind == RoceOpcode::kReadRequest) {
    add_read(side, packet, where);
  } else if (kind >= RoceOpcode::kWriteFirst && kind <= RoceOpcode::kWriteOnlyImmediate) {
    add_write(side, packet, where);
  } else {
    add_send(side, packet, where);
  }
}

// Follows the numbers of requests. Returns whether the packet is new.
bool RoceLink::follow(int side, const RocePacket& packet, const Where& where) {
  Direction& direction = directions_[side];
  SideFact& fact = connection_.sides[side];
  std::uint32_t count = 1;
  const bool is_first =
      packet.kind() == RoceOpcode::kSendFirst || packet.kind() == RoceOpcode::kWriteFirst;
  if (path_mtu_ == 0 && is_first) path_mtu_ = packet.size;
  const bool is_read = packet.kind() == RoceOpcode::kReadRequest;
  if (is_read && path_mtu_ != 0) {
    count = responses_to(packet.length);
  }
  if (direction.next) {
    const std::int32_t ahead = distance(*direction.next, packet.psn);
    if (ahead < 0) {
      ++fact.retransmitted;
      return false;
    }
    if (ahead > 0) {
      ++fact.gaps;
      report(RuleId::kPsnGap, side, where,
             fmt::format("{} follows {}; the network lost {} packets, or the capture did",
                         packet.psn, plus(*direction.next, kPsnMask), ahead));
      direction.is_whole = false;
      direction.has_write = false;
      conversation_.on_missing();
    }
  }
  if (connection_.sides[side].packets == 1) direction.first = packet.psn;
  direction.next = plus(packet.psn, count);
  if (is_read && path_mtu_ == 0) direction.next.reset();
  return true;
}

std::uint32_t RoceLink::responses_to(std::uint32_t length) const noexcept {
  const std::uint64_t count = (std::uint64_t{length} + path_mtu_ - 1) / path_mtu_;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(count, 1, kPsnMask / 2));
}

bool RoceLink::is_answered_by(const RocePacket& packet) const {
  if (is_response(packet.kind())) {
    const Direction& asked = directions_[0];
    const std::int32_t sent = asked.next ? distance(packet.psn, *asked.next) : 0;
    return sent > 0 && distance(asked.first, packet.psn) >= 0;
  }
  const bool has_xid = packet.kind() == RoceOpcode::kSendOnly ||
                       packet.kind() == RoceOpcode::kSendFirst ||
                       packet.kind() == RoceOpcode::kSendOnlyInvalidate;
  if (!has_xid || packet.payload.size() < 4) return false;
  return conversation_.awaits(0, iwarp::load32(packet.payload.data()));
}

bool RoceLink::is_contradicted_by(const RocePacket& packet) const {
  return is_response(packet.kind()) && directions_[0].next && !is_answered_by(packet);
}

std::size_t RoceLink::footprint() const noexcept {
  std::size_t size = 0;
  for (const Direction& each : directions_) {
    size += each.message.capacity() + each.reads.size() * sizeof(OpenRead);
  }
  return size;
}

void RoceLink::add_send(int side, const RocePacket& packet, const Where& where) {
  Direction& direction = directions_[side];
  const RoceOpcode kind = packet.kind();
  const bool has_invalidation =
      kind == RoceOpcode::kSendLastInvalidate || kind == RoceOpcode::kSendOnlyInvalidate;
  const bool begins = kind == RoceOpcode::kSendFirst || kind == RoceOpcode::kSendOnly ||
                      kind == RoceOpcode::kSendOnlyImmediate ||
                      kind == RoceOpcode::kSendOnlyInvalidate;
  const bool ends = kind != RoceOpcode::kSendFirst && kind != RoceOpcode::kSendMiddle;
  if (kind > RoceOpcode::kSendOnlyImmediate && !has_invalidation) return;
  if (begins) {
    direction.message.clear();
    direction.message_size = 0;
    direction.message_first = where;
    direction.is_whole = true;
  }
  if (direction.message.size() < kKept) {
    const Bytes piece =
        packet.payload.first(std::min(packet.payload.size(), kKept - direction.message.size()));
    direction.message.insert(direction.message.end(), piece.begin(), piece.end());
  }
  if (packet.payload.size() < packet.size) direction.is_whole = false;
  direction.message_size += packet.size;
  if (!ends) return;
  SendFact send{side,
                direction.message_first,
                where,
                direction.message,
                direction.message_size,
                direction.is_whole,
                {}};
  if (has_invalidation) send.invalidated = packet.invalidated;
  const bool has_header = direction.is_whole || (begins && direction.message.size() >= 28);
  if (direction.message_size != 0 && has_header) conversation_.on_send(send);
  direction.message.clear();
  direction.message_size = 0;
  direction.is_whole = false;
}

void RoceLink::add_write(int side, const RocePacket& packet, const Where& where) {
  Direction& direction = directions_[side];
  const RoceOpcode kind = packet.kind();
  if (kind == RoceOpcode::kWriteFirst || kind == RoceOpcode::kWriteOnly ||
      kind == RoceOpcode::kWriteOnlyImmediate) {
    direction.write_address = packet.address;
    direction.write_key = packet.key;
    direction.has_write = true;
  }
  if (!direction.has_write) return;
  const bool ends = kind != RoceOpcode::kWriteFirst && kind != RoceOpcode::kWriteMiddle;
  conversation_.on_write(
      {side, where, direction.write_key, direction.write_address, packet.size, ends});
  if (conversation_.wants_bytes()) conversation_.on_placed_bytes(packet.payload, 0);
  direction.write_address += packet.size;
  if (ends) direction.has_write = false;
}

void RoceLink::add_read(int side, const RocePacket& packet, const Where& where) {
  Direction& direction = directions_[side];
  const std::uint32_t count = path_mtu_ == 0 ? 0 : responses_to(packet.length);
  direction.reads.push_back({packet.psn, count, 0, packet.psn});
  if (direction.reads.size() > kReadsMax) direction.reads.pop_front();
  // The PSN stands for the sink, which the wire does not show.
  conversation_.on_read({side, where, packet.psn, 0, packet.length, packet.key, packet.address});
}

// A responder answers in the order of the requests. So responses to RDMA Reads in front of the
// request that this packet answers are missing.
void RoceLink::drop_passed_reads(int side, const RocePacket& packet, const Where& where) {
  auto& reads = directions_[1 - side].reads;
  const bool is_acknowledgement = packet.kind() == RoceOpcode::kAcknowledge;
  while (!reads.empty()) {
    const OpenRead& first = reads.front();
    const std::int32_t ahead = distance(first.psn, packet.psn);
    const bool is_behind = first.count != 0 && ahead >= static_cast<std::int32_t>(first.count);
    if (!is_behind && !(is_acknowledgement && ahead > 0)) return;
    ++connection_.sides[side].gaps;
    report(RuleId::kPsnGap, side, where,
           fmt::format("the last responses to the RDMA Read {} are missing", first.psn));
    conversation_.on_missing();
    reads.pop_front();
  }
}

void RoceLink::add_response(int side, const RocePacket& packet, const Where& where) {
  if (path_mtu_ == 0 && packet.kind() == RoceOpcode::kResponseFirst) path_mtu_ = packet.size;
  auto& reads = directions_[1 - side].reads;
  const auto at = std::find_if(reads.begin(), reads.end(), [&](const OpenRead& each) {
    const std::int32_t ahead = distance(each.psn, packet.psn);
    constexpr std::int32_t kReach = 0x10000;
    return ahead >= 0 && ahead < (each.count == 0 ? kReach : static_cast<std::int32_t>(each.count));
  });
  if (at == reads.end()) return;  // of a Read that is complete, again
  const std::int32_t ahead = distance(at->next, packet.psn);
  if (ahead < 0) {
    ++connection_.sides[side].retransmitted;
    return;
  }
  if (ahead > 0) {
    ++connection_.sides[side].gaps;
    report(RuleId::kPsnGap, side, where,
           fmt::format("{} responses to the RDMA Read {} are missing", ahead, at->psn));
    conversation_.on_missing();
    at->received += static_cast<std::uint32_t>(ahead) * path_mtu_;
  }
  const bool ends =
      packet.kind() == RoceOpcode::kResponseLast || packet.kind() == RoceOpcode::kResponseOnly;
  conversation_.on_response({side, where, at->psn, at->received, packet.size, ends});
  if (conversation_.wants_bytes()) conversation_.on_placed_bytes(packet.payload, 0);
  at->received += packet.size;
  at->next = plus(packet.psn, 1);
  if (ends) reads.erase(at);
}

void RoceLink::judge_acknowledge(int side, const RocePacket& packet, const Where& where) {
  const RoceOpcode kind = packet.kind();
  if (kind == RoceOpcode::kResponseMiddle) return;
  const unsigned type = packet.syndrome >> 5U;
  const unsigned value = packet.syndrome & 31U;
  if (type == 1) {
    report(RuleId::kNak, side, where, "RNR: the receiver had no Receive posted");
  } else if (type == 3) {
    constexpr const char* kReasons[] = {"PSN sequence error", "invalid request",
                                        "remote access error", "remote operational error",
                                        "invalid RD request"};
    report(RuleId::kNak, side, where, value < 5 ? kReasons[value] : "unknown reason");
  }
}

}  // namespace rpcrdma::explain
