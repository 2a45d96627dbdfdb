#include "rpc/serve/rdma_peer.h"

#include <utility>

#include "rpc/serve/duplicate_calls.h"
#include "rpc/terms.h"

namespace rpcrdma::rpc {

RdmaPeer::RdmaPeer(PeerTable& peers, Owner& owner, std::unique_ptr<Session> of_peer,
                   std::unique_ptr<transport::Connection> to_peer)
    : Peer(peers, kTransport, of_peer->serving()),
      session(std::move(of_peer)),
      connection(std::move(to_peer)),
      owner_(owner) {
  session->set_ready_listener(*this);
  reports_news_ = connection->set_ready_listener(*this);
}

bool RdmaPeer::take_turn(RoundTime& time) {
  const engine::Connection& engine = connection->engine();
  const bool was_at_rest = !connection->ended() && session->idle();
  const std::uint64_t calls_before = engine.counters().calls_ended;
  const bool is_done = session->progress(time);
  if (was_at_rest && connection->ended()) {
    has_ended_at_rest = session->idle() && engine.counters().calls_ended == calls_before;
  }
  return is_done;
}

void RdmaPeer::end_if_idle(const RoundTime& time, std::chrono::nanoseconds timeout) {
  if (!is_idle()) return idle_deadline_.reset();
  const std::uint64_t messages = connection->engine().counters().messages_received;
  if (!idle_deadline_ || std::exchange(messages_seen_, messages) != messages) {
    messages_seen_ = messages;
    idle_deadline_ = time.now() + timeout;
  } else if (*idle_deadline_ <= time.begun()) {
    idle_deadline_.reset();
    session->disconnect();
  }
}

// Returns whether it is idle, which it is as well while the peer does not confirm it, or the peer
// has left its Calls: they wait for it alone, and none has moved for a second.
bool RdmaPeer::is_spare(Instant now) const noexcept {
  if (connection->ended()) return false;
  if (connection->engine().requester().calls_in_flight() > 0) return false;
  const auto left = connection->engine().responder().waits_for_peer_since();
  return session->idle() || (left && now - *left >= std::chrono::seconds(1));
}

bool RdmaPeer::end_spare_of(const std::string& host, const PeerTable& peers, Instant now) {
  const auto messages = [](const RdmaPeer& of) {
    return of.connection->engine().counters().messages_received;
  };
  const RdmaPeer* spare = nullptr;
  peers.for_each<RdmaPeer>([&](const RdmaPeer& each) {
    if (!each.is_spare(now) || host_of(each.connection->peer_address()) != host) return;
    if (spare == nullptr || messages(each) < messages(*spare)) spare = &each;
  });
  if (spare == nullptr) return false;
  spare->session->disconnect();
  return true;
}

void RdmaPeer::report_ready(ConnectionLog& log, std::string_view provider) {
  is_ready = true;
  constexpr std::uint32_t kVersionUnknown = 0;  // no message has shown it yet
  log.note_ready(
      connection->peer_address(), session->serving().number(),
      terms_of(*connection, provider, kVersionUnknown, connection->engine().credits_granted()));
}

}  // namespace rpcrdma::rpc
