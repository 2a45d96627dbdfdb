#include "rpc/serve/peer_table.h"

namespace rpcrdma::rpc {

void Peer::end_if_idle(Instant now, std::chrono::nanoseconds timeout) {
  const engine::Connection& engine = connection->engine();
  if (!session->idle() || engine.calls_in_flight() > 0) return idle_deadline.reset();
  const std::uint64_t messages = engine.counters().messages_received;
  if (!idle_deadline || std::exchange(messages_seen_, messages) != messages) {
    messages_seen_ = messages;
    idle_deadline = now + timeout;
  } else if (*idle_deadline <= now) {
    idle_deadline.reset();
    session->disconnect();
  }
}

Peer& PeerTable::add(std::unique_ptr<Session> session,
                     std::unique_ptr<transport::Connection> connection) {
  peers_.push_back(std::make_unique<Peer>(*this, std::move(session), std::move(connection)));
  Peer& peer = *peers_.back();
  peer.index_ = peers_.size() - 1;
  peer.session->tell_news_to(peer);
  peer.tells_news_ = peer.connection->tell_news_to(peer);
  if (!peer.tells_news_) silent_.push_back(&peer);
  want_turn(peer);
  return peer;
}

void PeerTable::end_wait() {
  for (Peer* peer : waiting_) {
    peer->is_waiting_ = false;
    want_turn(*peer);
  }
  waiting_.clear();
}

void PeerTable::erase(Peer& peer) {
  deadlines_.set(peer, std::nullopt);
  if (peer.wants_turn_) std::erase(wanted_, &peer);
  peer.wants_turn_ = true;  // so that the end of its connection is no news any more
  if (peer.is_waiting_) std::erase(waiting_, &peer);
  if (!peer.tells_news_) std::erase(silent_, &peer);
  const std::size_t index = peer.index_;
  std::swap(peers_[index], peers_.back());
  peers_[index]->index_ = index;
  peers_.pop_back();
}

}  // namespace rpcrdma::rpc
