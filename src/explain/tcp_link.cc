#include "explain/tcp_link.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "iwarp/byte_order.h"
#include "wire/private_data.h"

namespace rpcrdma::explain {
namespace {

constexpr std::string_view kMpaStart = "MPA ID Re";
constexpr std::size_t kDecisive = 16;  // bytes after which the protocol is known

bool begins_with_mpa(Bytes bytes) noexcept {
  const std::size_t count = std::min(bytes.size(), kMpaStart.size());
  return std::memcmp(bytes.data(), kMpaStart.data(), count) == 0;
}

}  // namespace

void TcpLink::end(int side) {
  Direction& direction = directions_[side];
  direction.stream.end(direction);
}

void TcpLink::finish() {
  for (int side = 0; side < 2; ++side) {
    end(side);
    if (directions_[side].state == State::kFpdus) directions_[side].fpdus.end();
    connection_.sides[side].skipped_bytes = directions_[side].fpdus.skipped_bytes();
    connection_.sides[side].retransmitted = directions_[side].stream.retransmitted();
  }
}

void TcpLink::Direction::report(RuleId id, const Where& where, std::string detail) const {
  link->judge_.report(id, side, where, std::nullopt, std::move(detail));
}

std::size_t TcpLink::footprint() const noexcept {
  std::size_t size = sizeof *this;
  for (const Direction& each : directions_) {
    size += each.stream.footprint() + each.fpdus.footprint() + each.records.footprint();
    size += each.start.capacity() + each.message.capacity();
  }
  return size;
}

// Connections of other protocols are nobody's business here.
void TcpLink::Direction::on_other_bytes(std::uint32_t count, const Where& where) {
  if (link->connection_.transport == Transport::kUnknown) return;
  report(RuleId::kOtherBytes, where, fmt::format("{} bytes differ; the first ones count", count));
}

void TcpLink::Direction::on_bytes(Bytes bytes, const Where& where) {
  link->connection_.sides[side].bytes += bytes.size();
  switch (state) {
    case State::kStart:
    case State::kFrame:
      start.insert(start.end(), bytes.begin(), bytes.end());
      if (state == State::kStart) choose(where);
      if (state == State::kFrame) take_frame(where);
      return;
    case State::kFpdus:
      if (is_first_fpdu) {
        message_first = where;
        begin_fpdus(bytes);
      }
      fpdus.add(bytes, where);
      return;
    case State::kRecords: {
      const Bytes left = records.add(bytes, where);
      if (left.empty()) return;
      state = State::kFrame;
      start.assign(left.begin(), left.end());
      take_frame(where);
      return;
    }
    case State::kOther:
      return;
  }
}

// Decides by the first bytes which protocol the connection has.
void TcpLink::Direction::choose(const Where& where) {
  const Bytes bytes(start);
  const bool may_be_mpa = begins_with_mpa(bytes);
  if (may_be_mpa && bytes.size() >= kMpaStart.size()) {
    state = State::kFrame;
    return;
  }
  if (bytes.size() < kDecisive) return;
  const std::vector<std::byte> seen = std::move(start);
  start.clear();
  ConnectionFact& connection = link->connection_;
  // The mark of a record and an RPC header may also be a Read Request, where no set-up was seen.
  const bool may_be_fpdu =
      !connection.has_beginning && iwarp::check_start(Bytes(seen).first(4)) == iwarp::Fault::kNone;
  if (looks_like_record(seen) && !may_be_fpdu && connection.transport != Transport::kIwarp) {
    state = State::kRecords;
    connection.transport = Transport::kTcp;
    const Bytes left = records.add(seen, where);
    if (!left.empty()) {
      state = State::kFrame;
      start.assign(left.begin(), left.end());
      take_frame(where);
    }
    return;
  }
  if (connection.has_beginning && link->directions_[1 - side].state != State::kFpdus) {
    state = State::kOther;
    return;
  }
  state = State::kFpdus;
  is_first_fpdu = false;
  fpdus.begin_anywhere();
  fpdus.add(seen, where);
}

void TcpLink::Direction::take_frame(const Where& where) {
  const Bytes bytes(start);
  if (bytes.size() < iwarp::kMpaHeaderSize) return;
  is_reply = !iwarp::key_matches(false, bytes.first(iwarp::kMpaKeySize));
  const auto size = iwarp::frame_size(is_reply, bytes.first(iwarp::kMpaHeaderSize));
  if (!size) {
    report(RuleId::kBadFrame, where);
    state = State::kOther;
    return;
  }
  if (bytes.size() < *size) return;
  const auto decoded = iwarp::decode(is_reply, bytes.first(*size));
  if (!decoded) {
    report(RuleId::kBadFrame, where);
    state = State::kOther;
    return;
  }
  frame = *decoded;
  link->connection_.transport = Transport::kIwarp;
  link->note_setup(*this, where);
  const std::vector<std::byte> rest(start.begin() + static_cast<std::ptrdiff_t>(*size),
                                    start.end());
  start.clear();
  frame->private_data = {};
  state = State::kFpdus;
  if (!rest.empty()) on_bytes(rest, where);
}

void TcpLink::note_setup(Direction& direction, const Where& where) {
  const iwarp::MpaFrame& frame = *direction.frame;
  SideFact& side = connection_.sides[direction.side];
  side.has_setup = true;
  side.crc = frame.crc;
  side.markers = frame.markers;
  side.revision = frame.revision;
  side.is_enhanced = frame.enhanced.has_value();
  if (frame.enhanced) {
    side.ird = frame.enhanced->ird;
    side.ord = frame.enhanced->ord;
  }
  if (const auto data = wire::find_private_data(frame.private_data)) {
    side.private_data =
        PrivateDataFact{data->takes_invalidation, data->send_size, data->receive_size};
  }
  constexpr std::uint32_t kMagic = 0xf6ab0e18;
  const Bytes given = frame.private_data;
  if (!side.private_data && given.size() >= 8 && iwarp::load32(given.data()) == kMagic) {
    judge_.report(RuleId::kPrivateVersion, direction.side, where, std::nullopt,
                  fmt::format("version {}", std::to_integer<unsigned>(given[4])));
  }
  if (!direction.is_reply && conversation_.terms().client < 0) {
    conversation_.terms().client = direction.side;
  }
  if (directions_[0].frame && directions_[1].frame) judge_setup(where);
}

void TcpLink::judge_setup(const Where& where) {
  if (directions_[0].is_reply == directions_[1].is_reply) {
    // Two requests, or two replies: nobody can say who is to send first.
    judge_.report(RuleId::kBadFrame, 1, where, std::nullopt, "both sides sent the same kind");
    return;
  }
  is_setup_known_ = true;
  const int initiator = directions_[0].is_reply ? 1 : 0;
  const int responder = 1 - initiator;
  const iwarp::MpaFrame& request = *directions_[initiator].frame;
  const iwarp::MpaFrame& reply = *directions_[responder].frame;
  has_crc_ = request.crc || reply.crc;
  is_rejected_ = reply.rejected;
  const auto report = [&](RuleId id, std::string detail = {}) {
    judge_.report(id, responder, where, std::nullopt, std::move(detail));
  };
  if (reply.rejected) report(RuleId::kRejected);
  const bool is_enhanced = reply.enhanced.has_value();
  if (reply.revision != request.revision && !reply.rejected) {
    report(RuleId::kRevision, fmt::format("{} for {}", reply.revision, request.revision));
  } else if (is_enhanced != request.enhanced.has_value() && !reply.rejected) {
    report(RuleId::kRevision,
           is_enhanced ? "the request is not enhanced" : "the request is enhanced");
  }
  Terms& terms = conversation_.terms();
  if (request.enhanced && reply.enhanced) {
    const std::uint32_t ird = request.enhanced->ird, ord = reply.enhanced->ord;
    const bool is_known = ird != iwarp::kReadDepthUnknown && ord != iwarp::kReadDepthUnknown;
    if (is_known && ord > ird) report(RuleId::kOrdOverIrd, fmt::format("{} and {}", ord, ird));
    if (is_known) terms.reads_accepted[responder] = std::min(ird, ord);
    const std::uint32_t served = reply.enhanced->ird;
    if (served != iwarp::kReadDepthUnknown) terms.reads_accepted[initiator] = served;
  }
  if (reply.rejected) return;
  const auto& mine = connection_.sides[initiator].private_data;
  const auto& theirs = connection_.sides[responder].private_data;
  if (mine && !theirs) report(RuleId::kServerSilent);
  for (int sender = 0; sender < 2; ++sender) {
    const auto& from = connection_.sides[sender].private_data;
    const auto& to = connection_.sides[1 - sender].private_data;
    terms.is_default[sender] = !from || !to;
    terms.limits[sender] =
        from && to ? std::min(from->send_size, to->receive_size) : wire::kInlineSizeDefault;
  }
}

void TcpLink::judge_first_fpdu(Direction& direction, const FpduStart& start) {
  direction.has_fpdu = true;
  if (!is_setup_known_ || !connection_.has_beginning) return;
  if (is_rejected_) {
    judge_.report(RuleId::kAfterReject, direction.side, start.where, std::nullopt, {});
  }
  const Direction& other = directions_[1 - direction.side];
  if (direction.is_reply && !other.has_fpdu && connection_.sides[1 - direction.side].gaps == 0) {
    judge_.report(RuleId::kFpduEarly, direction.side, start.where, std::nullopt, {});
  }
  const auto& enhanced = other.frame->enhanced;
  if (direction.is_reply || !enhanced || !enhanced->peer_to_peer) return;
  // A zero-length message: for a Read, its size is in the payload, which the opcode has to stand
  // for.
  const bool is_read = start.header.opcode == iwarp::Opcode::kReadRequest;
  if (!is_read && start.header.payload_size != 0) {
    judge_.report(RuleId::kNoRtr, direction.side, start.where, std::nullopt, {});
  }
}

void TcpLink::Direction::begin_fpdus(Bytes bytes) {
  is_first_fpdu = false;
  const auto& peer = link->directions_[1 - side].frame;
  const bool has_markers = peer && peer->markers;
  // A marker in front of the first FPDU is zero, and the length field of an FPDU is not.
  const bool begins_with_marker = bytes.size() >= 2 && iwarp::load16(bytes.data()) == 0;
  if (has_markers && !begins_with_marker) {
    link->judge_.report(RuleId::kMarkersWanted, side, message_first, std::nullopt, {});
  }
  fpdus.begin(has_markers && begins_with_marker);
  if (link->connection_.has_beginning) {
    for (std::uint32_t& each : sequence) each = 1;
  }
}

void TcpLink::Direction::on_gap(std::uint64_t size, const Where& where) {
  SideFact& fact = link->connection_.sides[side];
  ++fact.gaps;
  fact.gap_bytes += size;
  link->conversation_.on_missing();
  for (std::uint32_t& each : sequence) each = 0;
  is_message_whole = false;
  if (state == State::kFpdus) {
    // The first FPDU is among what is missing.
    const auto& peer = link->directions_[1 - side].frame;
    if (is_first_fpdu) fpdus.begin(peer && peer->markers);
    is_first_fpdu = false;
    fpdus.gap(size, where);
  }
  if (state == State::kRecords) records.gap(size, where);
  if (state == State::kFrame || state == State::kStart) {
    // The connection's set-up is incomplete: the rest is found as in the middle of a capture.
    start.clear();
    state = link->connection_.transport == Transport::kTcp ? State::kRecords : State::kFpdus;
    is_first_fpdu = false;
    if (state == State::kFpdus) fpdus.begin_anywhere();
    if (state == State::kRecords) records.gap(1, where);
  }
}

void TcpLink::Direction::on_lost(const Where&) {
  for (std::uint32_t& each : sequence) each = 0;
  is_message_whole = false;
  link->conversation_.on_missing();
}

void TcpLink::Direction::on_record(const Where& first, const Where& last, Bytes kept,
                                   std::uint64_t size, bool is_whole) {
  link->conversation_.on_record({side, first, last, kept, size, is_whole, std::nullopt});
}

}  // namespace rpcrdma::explain
