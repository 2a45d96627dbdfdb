// The connections of a server, over any transport, and which of them are to have a turn. The cost
// of a round grows with those, not with the connections.
#ifndef RPCRDMA_RPC_SERVE_PEER_TABLE_H_
#define RPCRDMA_RPC_SERVE_PEER_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/deadline_heap.h"
#include "rpc/serve/connection_log.h"
#include "rpc/serve/round_time.h"
#include "rpc/serve/serving.h"
#include "rpcrdma/provider.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

class PeerTable;

// One connection; each transport derives its own class from it. A peer has news when something has
// come over its connection, and when others have done something to its session.
class Peer : public rdma::NewsListener, public DeadlineHeap<Peer>::Entry {
 public:
  using Transport = ConnectionLog::Transport;
  enum class State : std::uint8_t {
    kOpen,
    kClosing,   // the server may end without loss to this peer
    kEnded,     // and has calls in service still
    kFinished,  // and is to be destroyed
  };

  Peer(PeerTable& table, Transport transport, const Serving& of_peer) noexcept
      : serving_(of_peer), table_(table), transport_(transport) {}
  virtual ~Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Serves what there is to serve. Returns false if there is more than one turn is for.
  // `time` is that behind what ran.
  virtual bool take_turn(RoundTime& time) = 0;
  // Called behind each turn: ends the connection if it is time to, and reports its end.
  virtual State settle(const RoundTime& time) = 0;
  // Returns when the peer needs a turn although it has no news.
  virtual Deadline next_deadline() const = 0;

  void handle_news() noexcept override;
  const Serving& serving() const noexcept { return serving_; }

 protected:
  bool reports_news_ = true;  // else it has a turn in each round

 private:
  friend PeerTable;
  const Serving& serving_;
  PeerTable& table_;
  const Transport transport_;
  State state_ = State::kOpen;  // behind its last turn
  bool wants_turn_ = false;     // it has one, or is in PeerTable::wanted_
  bool is_waiting_ = false;     // for a call's end
  std::size_t index_ = 0;       // among the peers of its transport
};

class PeerTable {
 public:
  // Takes a peer in; its first turn is in the next round.
  void add(std::unique_ptr<Peer> peer);
  // P is the class of the peers of P::kTransport.
  template <class P>
  std::size_t count() const noexcept {
    return peers_of(P::kTransport).size();
  }
  template <class P, class Act>
  void for_each(Act&& act) const {
    for (const auto& peer : peers_of(P::kTransport)) act(static_cast<P&>(*peer));
  }
  // Return whether all peers are in this state.
  bool are_all_closing() const noexcept { return count(Peer::State::kClosing) == size(); }
  bool have_all_ended() const noexcept { return count(Peer::State::kEnded) == size(); }
  // Returns whether steps of authentication go on elsewhere. Looks at all peers.
  bool awaits_steps() const noexcept;

  // Gives it a turn in the next round, or in this one if that has not begun.
  void want_turn(Peer& peer) {
    if (peer.wants_turn_) return;
    peer.wants_turn_ = true;
    wanted_.push_back(&peer);
  }
  // Returns how many turns were given since the start.
  std::uint64_t turns() const noexcept { return turns_given_; }
  bool anybody_wants_turn() const noexcept { return !wanted_.empty(); }
  // Returns whether it is the turn of this connection.
  bool is_turn_of(const ReplyCarrier& carrier) const noexcept { return in_turn_ == &carrier; }

  // A round: gives one turn to each peer that wants one or whose deadline has come, in the order in
  // which they came to want it, and settles it. News that a peer has during its turn belong to that
  // turn; all later ones are for the next round.
  void serve(RoundTime& time);
  // Serves unless this has done it in this round: before one is ended to make room, since some may
  // have ended, or moved, while this side was away.
  void serve_before_judging(RoundTime& time) {
    if (std::exchange(served_at_, time.begun()) != time.begun()) serve(time);
  }
  // Settles a peer outside of its turn, which destroys it if it is finished.
  void settle(Peer& peer, const RoundTime& time);
  Deadline next_deadline() const noexcept { return deadlines_.first(); }

  // A call has ended: gives a turn to each peer that has made a duplicate of it, in the order in
  // which they began to wait.
  bool anybody_waits_for_a_call() const noexcept { return !waiting_.empty(); }
  void handle_call_end();

 private:
  using Peers = std::vector<std::unique_ptr<Peer>>;

  void erase(Peer& peer);
  const Peers& peers_of(Peer::Transport transport) const noexcept {
    return peers_[static_cast<std::size_t>(transport)];
  }
  std::size_t size() const noexcept { return peers_[0].size() + peers_[1].size(); }
  std::size_t& count(Peer::State state) noexcept {
    return counts_[static_cast<std::size_t>(state)];
  }
  std::size_t count(Peer::State state) const noexcept {
    return counts_[static_cast<std::size_t>(state)];
  }

  DeadlineHeap<Peer> deadlines_;
  std::vector<Peer*> wanted_, turns_;
  std::vector<Peer*> waiting_;  // for the end of a call of which they have made a duplicate
  std::vector<Peer*> silent_;   // do not report news
  std::array<std::size_t, 4> counts_{};  // of peers in each state
  const ReplyCarrier* in_turn_ = nullptr;
  std::uint64_t turns_given_ = 0;
  Instant served_at_{};         // the beginning of the round of serve_before_judging()
  std::array<Peers, 2> peers_;  // of each transport; goes first: the end of a connection is news
};

inline void Peer::handle_news() noexcept {
  table_.want_turn(*this);
}

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_PEER_TABLE_H_
