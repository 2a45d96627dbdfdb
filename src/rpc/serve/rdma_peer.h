// One RDMA connection of a server.
#ifndef RPCRDMA_RPC_SERVE_RDMA_PEER_H_
#define RPCRDMA_RPC_SERVE_RDMA_PEER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "rpc/serve/connection_log.h"
#include "rpc/serve/peer_table.h"
#include "rpc/serve/session.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

class RdmaPeer final : public Peer {
 public:
  static constexpr auto kTransport = Transport::kRdma;

  // Ends it when it is time to, and reports its end: see Peer::settle(). Outlives it.
  class Owner {
   public:
    virtual State settle(RdmaPeer& peer, const RoundTime& time) = 0;

   protected:
    ~Owner() = default;
  };

  RdmaPeer(PeerTable& peers, Owner& owner, std::unique_ptr<Session> of_peer,
           std::unique_ptr<transport::Connection> to_peer);
  bool take_turn(RoundTime& time) override;
  State settle(const RoundTime& time) override { return owner_.settle(*this, time); }
  Deadline next_deadline() const override {
    return earlier(connection->engine().poll_timeout(), idle_deadline_);
  }
  // Ends the connection if it has been idle for so long. Called behind each turn.
  void end_if_idle(const RoundTime& time, std::chrono::nanoseconds timeout);
  // Ends the spare connection of a host over which fewest messages came. Returns false if the host
  // has none.
  static bool end_spare_of(const std::string& host, const PeerTable& peers, Instant now);
  // Reports that the set-up is complete.
  void report_ready(ConnectionLog& log, std::string_view provider);

  // The connection goes before the session: nothing may move in the memory that calls still hold.
  const std::unique_ptr<Session> session;
  const std::unique_ptr<transport::Connection> connection;
  bool is_ready = false;           // its set-up is complete, and was reported
  bool has_ended_at_rest = false;  // no call was under way
  bool has_long_receives = false;

 private:
  bool is_idle() const noexcept {
    return session->idle() && connection->engine().requester().calls_in_flight() == 0;
  }
  bool is_spare(Instant now) const noexcept;

  Owner& owner_;
  // The time when it will have been idle for too long; nullopt if it is not idle.
  Deadline idle_deadline_;
  std::uint64_t messages_seen_ = 0;  // that had come when its idle time began
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_RDMA_PEER_H_
