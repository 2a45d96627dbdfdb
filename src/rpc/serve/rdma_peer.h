// An RDMA connection in the table of a server's peers.
#ifndef RPCRDMA_RPC_SERVE_RDMA_PEER_H_
#define RPCRDMA_RPC_SERVE_RDMA_PEER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "rpc/serve/peer_table.h"
#include "rpc/serve/session.h"
#include "transport/connection.h"

namespace rpcrdma {
class ServerImpl;
}  // namespace rpcrdma

namespace rpcrdma::rpc {

class RdmaPeer final : public Peer {
 public:
  static constexpr auto kTransport = Transport::kRdma;

  // `server` settles it, and outlives it.
  RdmaPeer(PeerTable& table, ServerImpl& server, std::unique_ptr<Session> of_peer,
           std::unique_ptr<transport::Connection> to_peer)
      : Peer(table, kTransport, of_peer->serving()),
        session(std::move(of_peer)),
        connection(std::move(to_peer)),
        server_(server) {
    session->tell_news_to(*this);
    reports_news_ = connection->tell_news_to(*this);
  }
  bool take_turn(Instant now) override;
  State settle(Instant now) override;
  std::optional<Instant> next_deadline() const override {
    return engine::earlier(connection->engine().poll_timeout(), idle_deadline_);
  }
  // Ends the connection if it has been idle for so long. Called behind each turn.
  void end_if_idle(Instant now, std::chrono::nanoseconds timeout);
  bool is_idle() const noexcept {
    return session->idle() && connection->engine().calls_in_flight() == 0;
  }

  // The connection goes before the session: nothing may move in the memory that calls still hold.
  const std::unique_ptr<Session> session;
  const std::unique_ptr<transport::Connection> connection;
  bool is_ready = false;           // its set-up is complete, and was reported
  bool has_ended_at_rest = false;  // no call was under way

 private:
  ServerImpl& server_;
  // The time when it will have been idle for too long; nullopt if it is not idle.
  std::optional<Instant> idle_deadline_;
  std::uint64_t messages_seen_ = 0;  // that had come when its idle time began
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_RDMA_PEER_H_
