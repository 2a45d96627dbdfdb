#include "rpc/serve/rdma_peer.h"

#include "rpc/serve/server_impl.h"

namespace rpcrdma::rpc {

bool RdmaPeer::take_turn(Instant now) {
  const engine::Connection& engine = connection->engine();
  const bool was_at_rest = !connection->ended() && session->idle();
  const std::uint64_t calls_before = engine.counters().calls_ended;
  const bool is_done = session->progress(now);
  if (was_at_rest && connection->ended()) {
    has_ended_at_rest = session->idle() && engine.counters().calls_ended == calls_before;
  }
  return is_done;
}

Peer::State RdmaPeer::settle(Instant now) {
  return server_.settle(*this, now);
}

void RdmaPeer::end_if_idle(Instant now, std::chrono::nanoseconds timeout) {
  if (!is_idle()) return idle_deadline_.reset();
  const std::uint64_t messages = connection->engine().counters().messages_received;
  if (!idle_deadline_ || std::exchange(messages_seen_, messages) != messages) {
    messages_seen_ = messages;
    idle_deadline_ = now + timeout;
  } else if (*idle_deadline_ <= now) {
    idle_deadline_.reset();
    session->disconnect();
  }
}

}  // namespace rpcrdma::rpc
