#include "rpc/serve/peer_table.h"

#include <algorithm>
#include <utility>

namespace rpcrdma::rpc {

void PeerTable::add(std::unique_ptr<Peer> peer) {
  Peer& added = *peer;
  Peers& peers = peers_[static_cast<std::size_t>(added.transport_)];
  added.index_ = peers.size();
  peers.push_back(std::move(peer));
  ++count(added.state_);
  if (!added.reports_news_) silent_.push_back(&added);
  want_turn(added);
}

void PeerTable::erase(Peer& peer) {
  deadlines_.set(peer, std::nullopt);
  if (peer.wants_turn_) std::erase(wanted_, &peer);
  peer.wants_turn_ = true;  // so that the end of its connection is no news any more
  if (peer.is_waiting_) std::erase(waiting_, &peer);
  if (!peer.reports_news_) std::erase(silent_, &peer);
  --count(peer.state_);
  Peers& peers = peers_[static_cast<std::size_t>(peer.transport_)];
  const std::size_t index = peer.index_;
  std::swap(peers[index], peers.back());
  peers[index]->index_ = index;
  peers.pop_back();
}

// --- Turns -------------------------------------------------------------------------------------

void PeerTable::serve(RoundTime& time) {
  while (Peer* due = deadlines_.take_due(time.begun())) want_turn(*due);
  for (Peer* silent : silent_) want_turn(*silent);
  turns_.swap(wanted_);
  for (Peer* peer : turns_) {
    in_turn_ = &peer->serving_.carrier();
    const bool is_done = peer->take_turn(time);
    ++turns_given_;
    in_turn_ = nullptr;
    peer->wants_turn_ = false;
    if (!is_done) want_turn(*peer);
    settle(*peer, time);
  }
  turns_.clear();
}

void PeerTable::settle(Peer& peer, const RoundTime& time) {
  const Peer::State state = peer.settle(time);
  if (state == Peer::State::kFinished) return erase(peer);
  --count(peer.state_);
  ++count(state);
  peer.state_ = state;
  if (peer.serving_.waits_for_a_duplicate() && !std::exchange(peer.is_waiting_, true)) {
    waiting_.push_back(&peer);
  }
  deadlines_.set(peer, peer.next_deadline());
}

// --- Waiting -----------------------------------------------------------------------------------

void PeerTable::handle_call_end() {
  std::erase_if(waiting_, [&](Peer* peer) {
    // A turn costs more than a look.
    if (peer->serving_.waits_for_other_duplicates()) return false;
    peer->is_waiting_ = false;
    want_turn(*peer);
    return true;
  });
}

bool PeerTable::awaits_steps() const noexcept {
  const auto awaits = [](const auto& peer) { return peer->serving_.steps() > 0; };
  return std::ranges::any_of(
      peers_, [&](const Peers& peers) { return std::ranges::any_of(peers, awaits); });
}

}  // namespace rpcrdma::rpc
