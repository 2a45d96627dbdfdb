#include "explain/connections.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace rpcrdma::explain {
namespace {

constexpr std::size_t kPendingMax = 1024;
constexpr std::size_t kRoceMax = 4096;
// Packets behind a finding after which a gap in front of it would have shown.
constexpr std::uint64_t kCertainAfter = 1024;
constexpr std::uint64_t kAllPackets = ~std::uint64_t{0};

}  // namespace

std::size_t EndpointHash::operator()(const Endpoint& endpoint) const noexcept {
  std::uint64_t halves[2];
  std::memcpy(halves, endpoint.address.data(), sizeof halves);
  const std::uint64_t mixed = (halves[0] ^ (halves[1] * 0x9e3779b97f4a7c15U)) + endpoint.port;
  return static_cast<std::size_t>(mixed * 0x9e3779b97f4a7c15U >> 16U);
}

std::size_t Decoder::Connections::PairHash::operator()(const Pair& pair) const noexcept {
  return EndpointHash()(pair.first) * 31 + EndpointHash()(pair.second);
}

Connection::Connection(std::uint64_t number, Transport transport, Sink& sink, Shared& shared)
    : conversation(fact, sink, *this, shared), sink_(sink) {
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

TcpConnection::TcpConnection(std::uint64_t number, const Endpoint& client, const Endpoint& server,
                             Sink& sink, Shared& shared)
    : Connection(number, Transport::kUnknown, sink, shared),
      link_(fact, conversation, sink, *this) {
  fact.sides[0].endpoint = client;
  fact.sides[1].endpoint = server;
}

void TcpConnection::add(const Segment& segment) {
  const int side = side_of(segment.from);
  if (is_finished_) return;
  ++fact.sides[side].packets;
  fact.last = segment.where;
  if (segment.where.packet > kCertainAfter) release(segment.where.packet - kCertainAfter);
  TcpStream& stream = link_.stream(side);
  if (segment.flags.syn) {
    stream.begin(segment.sequence + 1);
    fact.has_beginning = true;
    // Both have to be seen, or bytes of the other side may be missing.
    conversation.terms().is_complete = link_.stream(0).has_begun() && link_.stream(1).has_begun();
    if (!segment.flags.ack) conversation.terms().is_complete = false;
  } else {
    stream.add(segment.sequence, segment.payload, segment.size, segment.where,
               link_.consumer(side));
  }
  if (segment.flags.ack) {
    link_.stream(1 - side).acknowledge(segment.acknowledged, link_.consumer(1 - side));
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
  conversation.note_lost();
  if (has_fin_[0] && has_fin_[1]) finish();
}

void TcpConnection::finish() {
  if (is_finished_) return;
  is_finished_ = true;
  link_.finish();
  conversation.end(!fact.ended_by.empty());
  release(kAllPackets);
  if (fact.transport != Transport::kUnknown) sink_.on_connection(fact);
}

RoceConnection::RoceConnection(std::uint64_t number, Sink& sink, Shared& shared)
    : Connection(number, Transport::kRoce, sink, shared), link(fact, conversation, sink, *this) {}

void RoceConnection::finish(bool has_ended) {
  conversation.end(has_ended || !fact.ended_by.empty());
  release(kAllPackets);
  sink_.on_connection(fact);
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
  if (at != tcp_.end() && is_new && (at->second->has_data() || at->second->is_finished())) {
    at->second->finish();
    tcp_.erase(at);
    at = tcp_.end();
  }
  if (at == tcp_.end()) {
    if (tcp_.size() >= options_.connections_max) drop_silent();
    // The side that sent the SYN, else the one with the higher port, began.
    const bool is_server =
        segment.flags.syn ? segment.flags.ack : segment.from.port < segment.to.port;
    const Endpoint& client = is_server ? segment.to : segment.from;
    const Endpoint& server = is_server ? segment.from : segment.to;
    at = tcp_.emplace(pair,
                      std::make_unique<TcpConnection>(++numbers_, client, server, sink_, shared_))
             .first;
    at->second->fact.first = segment.where;
    if (segment.flags.syn) at->second->conversation.terms().client = 0;
  }
  last_ = at->second.get();
  last_pair_ = pair;
  return *last_;
}

void Decoder::Connections::add_tcp(const Segment& segment) {
  tcp_of(segment).add(segment);
}

void Decoder::Connections::drop_silent() {
  std::vector<std::uint64_t> times;
  times.reserve(tcp_.size());
  for (const auto& [pair, each] : tcp_) times.push_back(each->fact.last.packet);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  for (auto at = tcp_.begin(); at != tcp_.end();) {
    if (at->second->fact.last.packet <= *middle) {
      at->second->finish();
      at = tcp_.erase(at);
    } else {
      ++at;
    }
  }
  last_ = nullptr;
}

RoceConnection& Decoder::Connections::make_roce(const Where& where) {
  if (roce_.size() >= kRoceMax) {
    for (auto& each : roce_) each->finish(false);
    roce_.clear();
    halves_.clear();
  }
  roce_.push_back(std::make_unique<RoceConnection>(++numbers_, sink_, shared_));
  roce_.back()->fact.first = where;
  return *roce_.back();
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
  half.connection->fact.last = segment.where;
  if (segment.where.packet > kCertainAfter) {
    half.connection->release(segment.where.packet - kCertainAfter);
  }
  half.connection->link.add(half.sender, *packet, segment.where);
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
  // Without a set-up in the capture, both directions have one UDP source port, as far as we know.
  for (auto& each : roce_) {
    ConnectionFact& fact = each->fact;
    if (fact.has_beginning || each->source_port[1] != 0) continue;
    Endpoint other = fact.sides[0].endpoint;
    other.port = 0;
    Endpoint target = segment.to;
    target.port = 0;
    if (each->source_port[0] != segment.from.port || other != target) continue;
    if (fact.sides[1].endpoint.address != segment.from.address) continue;
    each->source_port[1] = segment.from.port;
    fact.sides[0].endpoint = to;
    return halves_.emplace(to, Half{each.get(), 1}).first->second;
  }
  RoceConnection& made = make_roce(segment.where);
  made.source_port[0] = segment.from.port;
  made.fact.sides[0].endpoint = from;
  made.fact.sides[1].endpoint = to;
  return halves_.emplace(to, Half{&made, 0}).first->second;
}

void Decoder::Connections::add_cm(const Segment& segment, const CmMessage& message) {
  Endpoint from = segment.from, to = segment.to;
  from.port = to.port = 0;
  switch (message.kind) {
    case CmMessage::Kind::kRequest: {
      if (pending_.size() >= kPendingMax) pending_.erase(pending_.begin());
      Pending pending{
          message, {message.private_data.begin(), message.private_data.end()}, from, segment.where};
      pending_.insert_or_assign({from, message.local_id}, std::move(pending));
      return;
    }
    case CmMessage::Kind::kReply: {
      const auto at = pending_.find({to, message.remote_id});
      if (at == pending_.end()) return;
      pair_cm(segment, message, at->second);
      pending_.erase(at);
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
                                   const Pending& request) {
  RoceConnection& made = make_roce(request.where);
  ConnectionFact& fact = made.fact;
  fact.has_beginning = true;
  fact.last = segment.where;
  fact.sides[0].endpoint = request.from;
  fact.sides[0].endpoint.port = request.message.queue_pair;
  fact.sides[1].endpoint = segment.from;
  fact.sides[1].endpoint.port = reply.queue_pair;
  CmMessage asked = request.message;
  asked.private_data = request.private_data;
  made.link.note_setup(0, asked);
  made.link.note_setup(1, reply);
  made.link.finish_setup();
  halves_.insert_or_assign(fact.sides[1].endpoint, Half{&made, 0});
  halves_.insert_or_assign(fact.sides[0].endpoint, Half{&made, 1});
}

void Decoder::Connections::finish() {
  std::vector<TcpConnection*> in_order;
  in_order.reserve(tcp_.size());
  for (const auto& [pair, each] : tcp_) in_order.push_back(each.get());
  std::sort(in_order.begin(), in_order.end(), [](const TcpConnection* a, const TcpConnection* b) {
    return a->fact.number < b->fact.number;
  });
  for (TcpConnection* each : in_order) each->finish();
  for (auto& each : roce_) each->finish(false);
  tcp_.clear();
  roce_.clear();
  halves_.clear();
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
