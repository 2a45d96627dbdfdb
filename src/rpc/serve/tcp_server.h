// The part of a server for tcp:// and unix://: its listeners, its sessions, and their answers from
// other threads.
#ifndef RPCRDMA_RPC_SERVE_TCP_SERVER_H_
#define RPCRDMA_RPC_SERVE_TCP_SERVER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "posix/reactor.h"
#include "rpc/pool_memory.h"
#include "rpc/serve/host_shares.h"
#include "rpc/serve/mailbox.h"
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
  // What it shares with the rest of the server; outlives it.
  struct Surroundings {
    ServerState& state;
    ShardInbox& inbox;  // of this shard
    transport::BufferPool& pool;
    ServerLoop& loop;
    Mailbox& mailbox;
  };
  explicit TcpServer(const Surroundings& surroundings);
  ~TcpServer() = default;
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  // At a numeric "ADDR:PORT" or at a path; returns it, with the real port.
  Expected<std::string, Error> listen(std::string_view address);
  bool listens() const noexcept { return !listeners_.empty(); }

  // A connection that the first shard has accepted for this one, and that was admitted.
  void accept(posix::Fd socket, Instant now);
  // It was admitted, and the server is stopping.
  void drop(const posix::Fd& socket);
  // Accepts connections, and gives each session its turn, during which it is `in_turn`.
  void progress(Instant now, const ReplyCarrier*& in_turn);
  // When progress() has something to do although nothing has happened. Of the last one.
  std::optional<Instant> next_deadline() const noexcept { return next_deadline_; }
  // Takes no more connections and no more Calls; connections close when theirs are answered.
  void drain();
  // Closes what is left.
  void abort();

  // Of the last progress().
  bool waits_for_a_duplicate() const noexcept { return waits_for_a_duplicate_; }
  // Bytes of the pool in use when a session found that the rest was not enough; 0: none did.
  std::size_t memory_wanted_at() const noexcept { return memory_wanted_at_; }
  bool all_ended() const noexcept;
  // No session would lose anything if the server ended now.
  bool all_closing() const noexcept;
  TransferCounters counters() const noexcept;
  // Steps of authentication that go on elsewhere.
  std::uint32_t steps() const noexcept;

 private:
  void accept_connections(Instant now);
  void open(posix::Fd socket, Instant now);
  std::optional<Error> make_room(std::string_view peer, Instant now);
  TcpSession* spare_for(std::string_view peer, Instant now);
  void end_if_idle(TcpSession& session, Instant now);
  void deal(posix::Fd socket, Instant now);
  void step_up();
  void remove_finished();

  const Surroundings shared_;
  ConnectionLog& log_;
  const TcpOptions options_;
  PoolMemory memory_;
  std::vector<std::unique_ptr<tcp::Listener>> listeners_;
  std::vector<std::unique_ptr<TcpSession>> sessions_;
  std::vector<posix::Fd> stepping_up_;  // of sessions that have ended
  HostShares shares_;                   // of sessions_
  SparePace spare_pace_;
  TransferCounters ended_;  // of sessions that are gone
  bool waits_for_a_duplicate_ = false;
  std::size_t memory_wanted_at_ = 0;
  std::optional<Instant> next_deadline_;
  bool draining_ = false;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_TCP_SERVER_H_
