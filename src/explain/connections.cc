#include "explain/connections.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace rpcrdma::explain {
namespace {

constexpr std::size_t kRoceMax = 4096;
// Packets behind a finding after which a gap in front of it would have shown.
constexpr std::uint64_t kCertainAfter = 1024;
constexpr std::uint64_t kAllPackets = ~std::uint64_t{0};

}  // namespace

// Each part is mixed with those before it, and all with what the maker of a capture does not know:
// else it could have endpoints that share a hash.
std::size_t EndpointHash::operator()(const Endpoint& endpoint) const noexcept {
  std::uint64_t halves[2];
  std::memcpy(halves, endpoint.address.data(), sizeof halves);
  std::uint64_t mixed = seed;
  for (const std::uint64_t part : {halves[0], halves[1], std::uint64_t{endpoint.port}}) {
    mixed = (mixed ^ part) * 0x9e3779b97f4a7c15U;
    mixed ^= mixed >> 32U;
  }
  return static_cast<std::size_t>(mixed * 0x9e3779b97f4a7c15U >> 16U);
}

std::size_t Decoder::Connections::PairHash::operator()(const Pair& pair) const noexcept {
  return hash(pair.first) * 31 + hash(pair.second);
}

Connection::Connection(std::uint64_t number, Transport transport, Sink& sink, Shared& shared)
    : sink_(sink), shared_(shared) {
  fact.number = number;
  fact.transport = transport;
}

void Connection::report(RuleId id, int side, const Where& where, std::optional<std::uint32_t> xid,
                        std::string detail) {
  Finding finding{&rule(id), where, fact.number, side, xid, std::move(detail)};
  if (!needs_all_bytes(id)) return sink_.on_finding(finding, fact);
  constexpr std::size_t kHeldMax = 4096;
  if (held_.size() >= kHeldMax) release(held_.front().where.packet);
  held_.push_back(std::move(finding));
}

void Connection::release(std::uint64_t packet) {
  while (!held_.empty() && held_.front().where.packet <= packet) {
    sink_.on_finding(held_.front(), fact);
    held_.pop_front();
  }
}

std::size_t Connection::held_footprint() const noexcept {
  constexpr std::size_t kFinding = sizeof(Finding) + 128;
  return held_.size() * kFinding;
}

TcpConnection::TcpConnection(std::uint64_t number, const Endpoint& client, const Endpoint& server,
                             Sink& sink, Shared& shared)
    : Connection(number, Transport::kUnknown, sink, shared) {
  fact.sides[0].endpoint = client;
  fact.sides[1].endpoint = server;
}

TcpConnection::Parts::Parts(TcpConnection& of, Shared& shared) noexcept
    : conversation(of.fact, of.sink_, of, shared),
      link(of.fact, conversation, of.sink_, of, shared.history) {}

TcpConnection::Parts& TcpConnection::parts() {
  if (!parts_) {
    parts_ = std::make_unique<Parts>(*this, shared_);
    for (int side = 0; side < 2; ++side) {
      if (first_[side]) parts_->link.stream(side).begin(*first_[side]);
    }
    Terms& terms = parts_->conversation.terms();
    // Both beginnings have to be seen, or bytes of the other side may be missing.
    terms.is_complete = first_[0] && first_[1];
    if (is_client_known_) terms.client = 0;
  }
  return *parts_;
}

std::size_t TcpConnection::footprint() const noexcept {
  const std::size_t parts =
      parts_ ? parts_->link.footprint() + parts_->conversation.footprint() : 0;
  return sizeof *this + held_footprint() + parts;
}

bool TcpConnection::is_succeeded_by(const Segment& syn) const noexcept {
  if (is_finished_) return true;
  const auto& first = first_[side_of(syn.from)];
  return fact.sides[0].bytes + fact.sides[1].bytes != 0 && first != syn.sequence + 1;
}

void TcpConnection::note_syn(int side, std::uint32_t first) {
  is_client_known_ = true;
  fact.has_beginning = true;
  if (parts_ && parts_->link.stream(side).has_begun()) return;  // it came once more
  first_[side] = first;
  if (!parts_) return;
  // The other side's first bytes came before this.
  parts_->link.stream(side).begin(first);
  parts_->conversation.terms().is_complete = first_[0] && first_[1];
}

void TcpConnection::add(const Segment& segment) {
  const int side = side_of(segment.from);
  if (is_finished_) return;
  ++fact.sides[side].packets;
  fact.last = segment.where;
  if (segment.where.packet > kCertainAfter) release(segment.where.packet - kCertainAfter);
  const std::uint32_t first = segment.sequence + (segment.flags.syn ? 1 : 0);
  if (segment.flags.syn) note_syn(side, first);
  if (segment.size != 0 && !is_other_) {
    TcpLink& link = parts().link;
    link.stream(side).add(first, segment.payload, segment.size, segment.where, link.consumer(side));
  }
  if (segment.flags.fin && parts_) parts_->link.stream(side).note_fin();
  if (segment.flags.ack && parts_) {
    TcpLink& link = parts_->link;
    link.stream(1 - side).acknowledge(segment.acknowledged, link.consumer(1 - side));
  }
  if (parts_ && parts_->link.is_other()) {
    is_other_ = true;
    parts_.reset();
  }
  if (segment.flags.fin || segment.flags.rst) note_end(side, segment);
}

void TcpConnection::note_end(int side, const Segment& segment) {
  has_fin_[side] = true;
  if (fact.ended_by.empty()) {
    fact.ended_by = fmt::format("{} of {} in packet {}", segment.flags.rst ? "RST" : "FIN",
                                to_string(segment.from), segment.where.packet);
  }
  // A reset does not reach the other side before what that side has sent meanwhile.
  if (parts_) parts_->conversation.note_lost();
  if (has_fin_[0] && has_fin_[1]) finish();
}

void TcpConnection::finish() {
  if (is_finished_) return;
  is_finished_ = true;
  if (parts_) {
    parts_->link.finish();
    parts_->conversation.end(!fact.ended_by.empty());
  }
  release(kAllPackets);
  if (fact.transport != Transport::kUnknown) sink_.on_connection(fact);
  parts_.reset();
}

RoceConnection::RoceConnection(std::uint64_t number, Sink& sink, Shared& shared)
    : Connection(number, Transport::kRoce, sink, shared),
      conversation(fact, sink, *this, shared),
      link(fact, conversation, sink, *this) {}

void RoceConnection::finish(bool has_ended) {
  conversation.end(has_ended || !fact.ended_by.empty());
  release(kAllPackets);
  sink_.on_connection(fact);
}

std::size_t RoceConnection::footprint() const noexcept {
  return sizeof *this + held_footprint() + link.footprint() + conversation.footprint();
}

void Decoder::Connections::add(const Packet& packet) {
  ++counts_.packets;
  if (!is_known(packet.link)) {
    ++counts_.unknown_links;
    return;
  }
  const Segment segment = parse_packet(packet);
  switch (segment.protocol) {
    case Protocol::kTcp:
      return add_tcp(segment);
    case Protocol::kUdp:
      if (segment.to.port == kRocePort) return add_roce(segment);
      break;
    case Protocol::kFragment:
      ++counts_.fragments;
      return;
    case Protocol::kNone:
      break;
  }
  ++counts_.other;
}

TcpConnection& Decoder::Connections::tcp_of(const Segment& segment) {
  const bool is_ordered = segment.from < segment.to;
  const Pair pair = is_ordered ? Pair{segment.from, segment.to} : Pair{segment.to, segment.from};
  const bool is_new = segment.flags.syn && !segment.flags.ack;
  if (last_ != nullptr && pair == last_pair_ && !is_new) return *last_;
  auto at = tcp_.find(pair);
  if (at != tcp_.end() && is_new && at->second->is_succeeded_by(segment)) {
    footprint_ -= std::min(footprint_, at->second->footprint());
    at->second->finish();
    tcp_.erase(at);
    at = tcp_.end();
  }
  last_ = at == tcp_.end() ? &make_tcp(pair, segment) : at->second.get();
  last_pair_ = pair;
  return *last_;
}

TcpConnection& Decoder::Connections::make_tcp(const Pair& pair, const Segment& segment) {
  if (tcp_.size() >= options_.connections_max) drop_silent();
  // The side that sent the SYN, else the one with the higher port, began.
  const bool is_server =
      segment.flags.syn ? segment.flags.ack : segment.from.port < segment.to.port;
  const Endpoint& client = is_server ? segment.to : segment.from;
  const Endpoint& server = is_server ? segment.from : segment.to;
  auto made = std::make_unique<TcpConnection>(++numbers_, client, server, sink_, shared_);
  made->fact.first = segment.where;
  footprint_ += made->footprint();
  return *tcp_.emplace(pair, std::move(made)).first->second;
}

void Decoder::Connections::add_tcp(const Segment& segment) {
  TcpConnection& connection = tcp_of(segment);
  const std::size_t before = connection.footprint();
  connection.add(segment);
  weigh(before, connection.footprint());
}

void Decoder::Connections::weigh(std::size_t before, std::size_t after) {
  footprint_ += after - before;
  if (footprint_ > options_.memory_max && tcp_.size() + roce_.size() > 1) drop_silent();
}

// Gives up the half of the connections that was silent longest.
void Decoder::Connections::drop_silent() {
  std::vector<std::uint64_t> times;
  times.reserve(tcp_.size() + roce_.size());
  for (const auto& [pair, each] : tcp_) times.push_back(each->fact.last.packet);
  for (const auto& each : roce_) times.push_back(each->fact.last.packet);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  footprint_ = 0;
  finish_tcp(*middle);
  std::erase_if(tcp_, [&](const auto& each) {
    const bool is_silent = each.second->fact.last.packet <= *middle;
    if (!is_silent) footprint_ += each.second->footprint();
    return is_silent;
  });
  std::erase_if(roce_, [&](const std::unique_ptr<RoceConnection>& each) {
    if (each->fact.last.packet > *middle) {
      footprint_ += each->footprint();
      return false;
    }
    each->finish(false);
    forget_half(*each);
    return true;
  });
  last_ = nullptr;
}

RoceConnection& Decoder::Connections::make_roce(const Where& where) {
  if (roce_.size() >= kRoceMax) drop_silent();
  roce_.push_back(std::make_unique<RoceConnection>(++numbers_, sink_, shared_));
  roce_.back()->fact.first = roce_.back()->fact.last = where;
  footprint_ += roce_.back()->footprint();
  return *roce_.back();
}

void Decoder::Connections::forget_half(const RoceConnection& connection) {
  for (const SideFact& side : connection.fact.sides) {
    const auto at = halves_.find(side.endpoint);
    if (at != halves_.end() && at->second.connection == &connection) halves_.erase(at);
  }
  if (connection.unpaired) unpaired_.erase(*connection.unpaired);
}

void Decoder::Connections::add_roce(const Segment& segment) {
  const auto packet = parse_roce(segment);
  if (!packet) {
    ++counts_.other;
    return;
  }
  if (const auto cm = parse_cm(*packet)) return add_cm(segment, *cm);
  if (!packet->is_reliable()) {
    ++counts_.other;
    return;
  }
  const Half half = half_of(segment, *packet);
  RoceConnection& connection = *half.connection;
  const std::size_t before = connection.footprint();
  connection.fact.last = segment.where;
  if (segment.where.packet > kCertainAfter) {
    connection.release(segment.where.packet - kCertainAfter);
  }
  connection.link.add(half.sender, *packet, segment.where);
  weigh(before, connection.footprint());
}

// A packet names the queue pair of its receiver alone.
Decoder::Connections::Half Decoder::Connections::half_of(const Segment& segment,
                                                         const RocePacket& packet) {
  Endpoint to = segment.to;
  to.port = packet.queue_pair;
  const auto at = halves_.find(to);
  if (at != halves_.end()) return at->second;
  Endpoint from = segment.from;
  from.port = 0;
  if (RoceConnection* const found = find_half(segment, packet)) {
    found->source_port[1] = segment.from.port;
    found->fact.sides[0].endpoint = to;
    return halves_.emplace(to, Half{found, 1}).first->second;
  }
  RoceConnection& made = make_roce(segment.where);
  made.source_port[0] = segment.from.port;
  made.fact.sides[0].endpoint = from;
  made.fact.sides[1].endpoint = to;
  Endpoint receiver = to;
  receiver.port = 0;
  made.unpaired = unpaired_.emplace(std::pair{receiver, from}, &made);
  return halves_.emplace(to, Half{&made, 0}).first->second;
}

// Without a set-up in the capture, the other direction of a connection is known by what it says
// about this one: the number that it acknowledges, or the XID that it answers. Linux' rxe also
// gives both directions one UDP source port.
RoceConnection* Decoder::Connections::find_half(const Segment& segment, const RocePacket& packet) {
  Endpoint from = segment.from, to = segment.to;
  from.port = to.port = 0;
  constexpr int kCandidatesMax = 64;
  auto [at, end] = unpaired_.equal_range({from, to});
  auto found = end;
  for (int count = 0; at != end && count < kCandidatesMax; ++at, ++count) {
    RoceConnection& each = *at->second;
    if (each.link.is_answered_by(packet)) {
      found = at;
      break;
    }
    const bool has_port = each.source_port[0] == segment.from.port;
    if (has_port && found == end && !each.link.is_contradicted_by(packet)) found = at;
  }
  if (found == end) return nullptr;
  RoceConnection* const connection = found->second;
  unpaired_.erase(found);
  connection->unpaired.reset();
  return connection;
}

void Decoder::Connections::add_cm(const Segment& segment, const CmMessage& message) {
  Endpoint from = segment.from, to = segment.to;
  from.port = to.port = 0;
  switch (message.kind) {
    case CmMessage::Kind::kRequest: {
      CmRequest request{message, {}, from, segment.where};
      request.private_data.assign(message.private_data.begin(), message.private_data.end());
      request.message.private_data = {};
      return requests_.add(std::move(request));
    }
    case CmMessage::Kind::kReply: {
      const auto request = requests_.take(to, message.remote_id);
      if (request) pair_cm(segment, message, *request);
      return;
    }
    case CmMessage::Kind::kDisconnect: {
      // It names ids, which are not kept: the only connection of these hosts that goes on.
      for (auto& each : roce_) {
        ConnectionFact& fact = each->fact;
        const bool is_of_both = (fact.sides[0].endpoint.address == from.address &&
                                 fact.sides[1].endpoint.address == to.address) ||
                                (fact.sides[1].endpoint.address == from.address &&
                                 fact.sides[0].endpoint.address == to.address);
        if (!is_of_both || !fact.ended_by.empty()) continue;
        fact.ended_by =
            fmt::format("DREQ of {} in packet {}", to_string(from), segment.where.packet);
        return;
      }
      return;
    }
    case CmMessage::Kind::kReject:
    case CmMessage::Kind::kReady:
      return;
  }
}

void Decoder::Connections::pair_cm(const Segment& segment, const CmMessage& reply,
                                   const CmRequest& request) {
  Endpoint client = request.from, server = segment.from;
  client.port = request.message.queue_pair;
  server.port = reply.queue_pair;
  const auto known = halves_.find(server);
  if (known != halves_.end() && known->second.connection->is_set_up_as(client, server)) return;
  RoceConnection& made = make_roce(request.where);
  ConnectionFact& fact = made.fact;
  fact.has_beginning = true;
  fact.last = segment.where;
  fact.sides[0].endpoint = client;
  fact.sides[1].endpoint = server;
  CmMessage asked = request.message;
  asked.private_data = request.private_data;
  made.link.note_setup(0, asked);
  made.link.note_setup(1, reply);
  made.link.finish_setup();
  halves_.insert_or_assign(fact.sides[1].endpoint, Half{&made, 0});
  halves_.insert_or_assign(fact.sides[0].endpoint, Half{&made, 1});
}

// Ends those that had nothing behind this packet, in the order in which they began: that of the
// table differs from run to run.
void Decoder::Connections::finish_tcp(std::uint64_t last_packet) {
  std::vector<TcpConnection*> in_order;
  in_order.reserve(tcp_.size());
  for (const auto& [pair, each] : tcp_) {
    if (each->fact.last.packet <= last_packet) in_order.push_back(each.get());
  }
  std::sort(in_order.begin(), in_order.end(), [](const TcpConnection* a, const TcpConnection* b) {
    return a->fact.number < b->fact.number;
  });
  for (TcpConnection* each : in_order) each->finish();
}

void Decoder::Connections::finish() {
  finish_tcp(kAllPackets);
  for (auto& each : roce_) each->finish(false);
  tcp_.clear();
  roce_.clear();
  halves_.clear();
  unpaired_.clear();
  last_ = nullptr;
}

Decoder::Decoder(Sink& sink, DecoderOptions options)
    : connections_(std::make_unique<Connections>(sink, options)) {}

Decoder::~Decoder() = default;

void Decoder::add(const Packet& packet) {
  connections_->add(packet);
}

void Decoder::finish() {
  connections_->finish();
}

const Decoder::Counts& Decoder::counts() const noexcept {
  return connections_->counts();
}

}  // namespace rpcrdma::explain
