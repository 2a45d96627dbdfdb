// The RDMA connections of a server, and which of them are to have a turn. What a round costs grows
// with those, not with the connections.
#ifndef RPCRDMA_RPC_SERVE_PEER_TABLE_H_
#define RPCRDMA_RPC_SERVE_PEER_TABLE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/deadline_heap.h"
#include "rpc/serve/session.h"
#include "rpcrdma/provider.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

class PeerTable;

// One of them. Its news are those of its queue pair, and what others have done to its session.
struct Peer final : rdma::NewsListener, DeadlineHeap<Peer>::Entry {
  Peer(PeerTable& table, std::unique_ptr<Session> of_peer,
       std::unique_ptr<transport::Connection> to_peer)
      : session(std::move(of_peer)), connection(std::move(to_peer)), table_(table) {}
  void handle_news() noexcept override;
  // Ends the connection if it has been idle for so long. It is called behind a turn.
  void end_if_idle(Instant now, std::chrono::nanoseconds timeout);

  // The connection goes before the session: nothing may move in the memory that calls still hold.
  const std::unique_ptr<Session> session;
  const std::unique_ptr<transport::Connection> connection;
  bool is_ready = false;           // its set-up is complete, and was reported
  bool has_ended_at_rest = false;  // no call was under way
  // It will have been idle for too long then; nullopt: it is not idle.
  std::optional<Instant> idle_deadline;

 private:
  friend PeerTable;
  PeerTable& table_;
  std::uint64_t messages_seen_ = 0;  // that had come when its idle time began
  std::size_t index_ = 0;            // in PeerTable::peers_
  bool wants_turn_ = false;          // it has one, or is in PeerTable::wanted_
  bool is_waiting_ = false;          // is in PeerTable::waiting_
  bool tells_news_ = true;           // its queue pair does
};

class PeerTable {
 public:
  using Peers = std::vector<std::unique_ptr<Peer>>;

  // Its first turn is in the next round.
  Peer& add(std::unique_ptr<Session> session, std::unique_ptr<transport::Connection> connection);
  const Peers& all() const noexcept { return peers_; }
  std::size_t size() const noexcept { return peers_.size(); }
  bool empty() const noexcept { return peers_.empty(); }

  // Gives it a turn in the next round, or in this one if that has not begun.
  void want_turn(Peer& peer) {
    if (peer.wants_turn_) return;
    peer.wants_turn_ = true;
    wanted_.push_back(&peer);
  }
  // The same for all.
  void want_turns() {
    for (const auto& peer : peers_) want_turn(*peer);
  }
  bool anybody_wants_turn() const noexcept { return !wanted_.empty(); }

  // A round: calls `give_turn(peer)` once for each that wants one or whose deadline has come, in
  // the order in which they came to want it, and then `settle(peer)`. News that a peer has during
  // its turn belong to that turn; all later ones are for the next round. `give_turn` returns false
  // where there is more than one turn is for, `settle` true where the peer is to go.
  template <class GiveTurn, class Settle>
  void serve(Instant now, GiveTurn&& give_turn, Settle&& settle) {
    while (Peer* due = deadlines_.take_due(now)) want_turn(*due);
    for (Peer* silent : silent_) want_turn(*silent);
    in_turn_.swap(wanted_);
    for (Peer* peer : in_turn_) {
      const bool is_done = give_turn(*peer);
      peer->wants_turn_ = false;
      if (!is_done) want_turn(*peer);
      if (settle(*peer)) {
        erase(*peer);
      } else {
        deadlines_.set(
            *peer, engine::earlier(peer->connection->engine().poll_timeout(), peer->idle_deadline));
      }
    }
    in_turn_.clear();
  }
  std::optional<Instant> next_deadline() const noexcept { return deadlines_.first(); }

  // Those that wait for the end of the same call elsewhere, in the order in which they came.
  void wait(Peer& peer) {
    if (peer.is_waiting_) return;
    peer.is_waiting_ = true;
    waiting_.push_back(&peer);
  }
  bool anybody_waits() const noexcept { return !waiting_.empty(); }
  // A call has ended: each has a turn, and waits again if it was another one.
  void end_wait();

 private:
  void erase(Peer& peer);

  DeadlineHeap<Peer> deadlines_;
  std::vector<Peer*> wanted_, in_turn_;
  std::vector<Peer*> waiting_;
  std::vector<Peer*> silent_;  // whose queue pairs do not tell news
  Peers peers_;                // goes first: the end of a connection is news
};

inline void Peer::handle_news() noexcept {
  table_.want_turn(*this);
}

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_PEER_TABLE_H_
