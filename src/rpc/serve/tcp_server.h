// Listens at tcp:// and unix:// addresses for a server, and keeps its connections there.
#ifndef RPCRDMA_RPC_SERVE_TCP_SERVER_H_
#define RPCRDMA_RPC_SERVE_TCP_SERVER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "posix/reactor.h"
#include "rpc/serve/host_shares.h"
#include "rpc/serve/peer_table.h"
#include "rpc/serve/record_memory.h"
#include "rpc/serve/reply_carrier.h"
#include "rpc/serve/server_loop.h"
#include "rpc/serve/server_state.h"
#include "rpc/serve/shard_inbox.h"
#include "rpc/serve/tcp_session.h"
#include "rpcrdma/error.h"
#include "rpcrdma/options.h"
#include "tcp/listener.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {

class TcpServer {
 public:
  // Shared with the rest of the server, and outlives this part.
  struct Surroundings {
    ServerState& state;
    ShardInbox& inbox;  // of this shard
    transport::BufferPool& pool;
    ServerLoop& loop;
    Mailbox& mailbox;
    PeerTable& peers;
    RoundTime& time;
    CallMeter* meter = nullptr;         // null: calls are not measured
    HostMemory* host_memory = nullptr;  // null: hosts have no bound
  };
  explicit TcpServer(const Surroundings& surroundings);
  ~TcpServer() = default;
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  // Listens at a numeric "ADDR:PORT" or at a path, and returns it with the real port.
  Expected<std::string, Error> listen(std::string_view address);
  // Does the same on a socket that listens already.
  Expected<std::string, Error> listen(posix::Fd socket);
  bool listens() const noexcept { return !listeners_.empty(); }

  // Takes a connection that the first shard has accepted for this one, and that was admitted.
  void accept(tcp::Accepted accepted, Instant now);
  // Refuses a connection that was admitted before the server began to stop.
  void drop(const tcp::Accepted& accepted);
  // Returns whether there was no descriptor for one that waits.
  bool accept_connections(Instant now);
  const HostShares& shares() const noexcept { return shares_; }
  // Ends a connection that makes room for that of `peer`; returns false if there is none.
  bool end_spare(std::string_view peer, Instant now);
  // Gives turns to connections that wait for memory, if there may be some now.
  void retry_starved() { memory_.retry(); }
  // Takes no more connections and no more Calls; connections close when theirs are answered.
  void drain();
  // Closes what is left.
  void abort();
  TransferCounters counters() const;
  void add_to(ServerStatistics& sum, bool with_connections) const;

 private:
  class Link;  // one of the peers

  void open(tcp::Accepted accepted);
  std::optional<Error> make_room(std::string_view peer, Instant now);
  template <class Is>
  Link* oldest_of(Is&& is) const;
  Link* spare_for(std::string_view peer, Instant now);
  void deal(tcp::Accepted accepted, Instant now);
  Deadline idle_deadline(const TcpSession& session) const noexcept;
  Peer::State settle(Link& link, const RoundTime& time);
  void report_end(TcpSession& session);

  const Surroundings shared_;
  ConnectionLog& log_;
  const TcpOptions options_;
  RecordMemory memory_;
  std::vector<std::unique_ptr<tcp::Listener>> listeners_;
  HostShares shares_;  // of its connections
  SparePace spare_pace_;
  TransferCounters ended_;  // of sessions that are gone
  bool draining_ = false;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_TCP_SERVER_H_
