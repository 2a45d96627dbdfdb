#include "explain/live.h"

#include <list>
#include <string>
#include <utility>

#include "explain/connections.h"

namespace rpcrdma::explain {
namespace {

constexpr int kPeer = 0, kServer = 1;
constexpr std::size_t kLinksMax = 16384;  // whose end may have been lost
constexpr std::uint64_t kAllPackets = ~std::uint64_t{0};
constexpr std::uint64_t kTcp = 2;  // TapRecord::size of an introduction

bool is_record(TapRecord::Kind kind) noexcept {
  return kind == TapRecord::Kind::kRecordReceived || kind == TapRecord::Kind::kRecordSent;
}

}  // namespace

// The state that the connections share.
class Live::Parts {
 public:
  Shared shared;
};

class Live::Link : public Connection {
 public:
  Link(std::uint64_t number, Transport transport, Sink& sink, Shared& shared)
      : Connection(number, transport, sink, shared), conversation(fact, sink, *this, shared) {}

  void begin(const TapRecord& record, const Where& where, const Endpoint& peer,
             const Endpoint& server);
  void add(const TapRecord& record, Bytes bytes, const Where& where);
  void note_missing(const Where& where);
  void finish(Sink& sink, bool has_ended);

  std::list<std::uint64_t>::iterator place;  // in Live::silent_

 private:
  void add_send(int side, const TapRecord& record, Bytes bytes, const Where& where);
  void add_read(const TapRecord& record, const Where& where);
  void end_read(const TapRecord& record, Bytes bytes, const Where& where);

  Conversation conversation;
  std::uint32_t reads_begun_ = 0, reads_ended_ = 0;
};

void Live::Link::begin(const TapRecord& record, const Where& where, const Endpoint& peer,
                       const Endpoint& server) {
  fact.first = fact.last = where;
  fact.sides[kPeer].endpoint = peer;
  fact.sides[kServer].endpoint = server;
  fact.has_beginning = (record.flags & TapRecord::kSeenFromTheStart) != 0;
  Terms& terms = conversation.terms();
  terms.client = kPeer;
  terms.is_complete = fact.has_beginning;
  terms.limits[kServer] = record.tag;
  terms.limits[kPeer] = static_cast<std::uint32_t>(record.address);
}

void Live::Link::add(const TapRecord& record, Bytes bytes, const Where& where) {
  fact.last = where;
  release(where.packet - 1);
  using Kind = TapRecord::Kind;
  switch (record.kind) {
    case Kind::kSend:
      return add_send(kServer, record, bytes, where);
    case Kind::kReceived:
      return add_send(kPeer, record, bytes, where);
    case Kind::kRecordReceived:
      ++fact.sides[kPeer].messages;
      return conversation.on_record({kPeer, where, where, bytes, record.size, true, {}});
    case Kind::kRecordSent:
      ++fact.sides[kServer].messages;
      return conversation.on_record({kServer, where, where, bytes, record.size, true, {}});
    case Kind::kRead:
      return add_read(record, where);
    case Kind::kReadDone:
      return end_read(record, bytes, where);
    case Kind::kWrite:
      conversation.on_write({kServer, where, record.tag, record.address,
                             static_cast<std::uint32_t>(record.size), true});
      if (conversation.wants_bytes()) conversation.on_placed_bytes(bytes, 0);
      return;
    case Kind::kEnd:
    case Kind::kConnection:
    case Kind::kLost:
      return;
  }
}

void Live::Link::add_send(int side, const TapRecord& record, Bytes bytes, const Where& where) {
  SendFact send{side, where, where, bytes, record.size, true, {}};
  if ((record.flags & TapRecord::kInvalidates) != 0) send.invalidated = record.tag;
  ++fact.sides[side].messages;
  fact.sides[side].bytes += record.size;
  conversation.on_send(send);
}

// Reads have no sink on the wire here: they are numbered instead, in the order in which they end.
void Live::Link::add_read(const TapRecord& record, const Where& where) {
  conversation.on_read({kServer, where, ++reads_begun_, 0, static_cast<std::uint32_t>(record.size),
                        record.tag, record.address});
}

void Live::Link::end_read(const TapRecord& record, Bytes bytes, const Where& where) {
  if (reads_ended_ == reads_begun_) return;  // it began before the reader looked
  ++reads_ended_;
  if ((record.flags & TapRecord::kFailed) != 0) return;
  conversation.on_response(
      {kPeer, where, reads_ended_, 0, static_cast<std::uint32_t>(record.size), true});
  if (conversation.wants_bytes()) conversation.on_placed_bytes(bytes, 0);
}

void Live::Link::note_missing(const Where& where) {
  forget_uncertain();
  conversation.on_missing();
  fact.last = where;
  ++fact.sides[kPeer].gaps;
  // Reads of before may have ended unseen.
  reads_ended_ = reads_begun_;
}

void Live::Link::finish(Sink& sink, bool has_ended) {
  if (has_ended) conversation.note_lost();
  conversation.end(has_ended);
  release(kAllPackets);
  sink.on_connection(fact);
}

Live::Live(Sink& sink, const Servers& servers, bool keeps_bodies)
    : sink_(sink), servers_(servers), parts_(std::make_unique<Parts>()) {
  parts_->shared.keeps_bodies = keeps_bodies;
}

Live::~Live() = default;

void Live::add(const TapRecord& record, Bytes bytes, const Endpoint& peer) {
  const Where where{++records_, record.time};
  if (record.kind == TapRecord::Kind::kLost) return note_loss(record);
  auto& link = links_[record.connection];
  const bool is_introduction = record.kind == TapRecord::Kind::kConnection;
  const auto place =
      link == nullptr ? silent_.insert(silent_.end(), record.connection) : link->place;
  silent_.splice(silent_.end(), silent_, place);
  if (is_introduction || link == nullptr) {  // null: the introduction was lost
    const bool is_tcp = is_introduction ? record.size == kTcp : is_record(record.kind);
    link = std::make_unique<Link>(++numbers_, is_tcp ? Transport::kTcp : Transport::kRdma, sink_,
                                  parts_->shared);
    link->place = place;
    link->begin(is_introduction ? record : TapRecord(), where, peer,
                is_tcp ? servers_.tcp : servers_.rdma);
    if (links_.size() > kLinksMax) drop_silent();
    if (is_introduction) return;
  }
  if (record.kind != TapRecord::Kind::kEnd) return link->add(record, bytes, where);
  std::string why(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  link->fact.last = where;
  link->fact.ended_by = why.empty() ? "its end in order" : std::move(why);
  link->finish(sink_, true);
  silent_.erase(link->place);
  links_.erase(record.connection);
}

// Gives up the connection that was silent longest: where the server leaves records out, ends are
// among them.
void Live::drop_silent() {
  const auto at = links_.find(silent_.front());
  silent_.pop_front();
  at->second->finish(sink_, false);
  links_.erase(at);
}

void Live::note_loss(const TapRecord& record) {
  lost_ += record.size;
  for (const auto& [number, link] : links_) link->note_missing({records_, record.time});
}

void Live::finish() {
  for (const auto& [number, link] : links_) link->finish(sink_, false);
  links_.clear();
  silent_.clear();
}

}  // namespace rpcrdma::explain
