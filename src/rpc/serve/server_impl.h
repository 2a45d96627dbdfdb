// One shard of a server: it has connections, takes the answers that come from other threads, and,
// if it is the first shard, listens.
#ifndef RPCRDMA_RPC_SERVE_SERVER_IMPL_H_
#define RPCRDMA_RPC_SERVE_SERVER_IMPL_H_

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/answer_queue.h"
#include "rpc/serve/board.h"
#include "rpc/serve/call_meter.h"
#include "rpc/serve/heap_return.h"
#include "rpc/serve/peer_table.h"
#include "rpc/serve/rdma_peer.h"
#include "rpc/serve/rdma_places.h"
#include "rpc/serve/server_loop.h"
#include "rpc/serve/server_state.h"
#include "rpc/serve/session.h"
#include "rpc/serve/shard_inbox.h"
#include "rpc/serve/tcp_server.h"
#include "rpcrdma/message_service.h"
#include "rpcrdma/provider.h"
#include "rpcrdma/server.h"

namespace rpcrdma {

class ServerImpl final : public rpc::Mailbox, private rpc::RdmaPeer::Owner {
 public:
  // Drives `provider`, which outlives it; `owned` may hold it. It is null if there is none until
  // set_provider(). The state outlives it, too.
  ServerImpl(rpc::ServerState& state, std::unique_ptr<rdma::Provider> owned,
             rdma::Provider* provider);
  ~ServerImpl();
  ServerImpl(const ServerImpl&) = delete;
  ServerImpl& operator=(const ServerImpl&) = delete;

  // Listen at a numeric address, and return it with the real port. The first one is address().
  Expected<std::string, Error> listen(std::string_view address);
  Expected<std::string, Error> listen_tcp(std::string_view address);
  Expected<std::string, Error> listen_tcp(posix::Fd socket);
  // Precondition: there is no provider.
  Expected<void, Error> set_provider(std::unique_ptr<rdma::Provider> provider);
  // Precondition: set_provider() was called, and no listen() has succeeded since.
  void drop_provider() noexcept;
  // Lets a shard that does not listen take TCP connections of others. Fails as
  // ServerLoop::reactor() does.
  Expected<void, Error> prepare_tcp();
  // Makes a server on a provider of the caller's, for tests and embedders of other providers.
  static Expected<Server, Error> listen_on(rdma::Provider& provider, std::string_view address,
                                           const ServerOptions& options);

  Expected<void, Error> register_read_only(Bytes memory);
  Expected<void, Error> adopt(int descriptor);
  void progress();
  rpc::ServerLoop& loop() noexcept { return loop_; }
  const rpc::ServerLoop& loop() const noexcept { return loop_; }
  void stop() noexcept;
  bool drained() const noexcept;
  bool stopping() const noexcept { return stop_requested_.load(std::memory_order_acquire); }
  // Called when it has drained, or when its thread ends: refuses connections that were dealt to it,
  // and lets none in any more.
  void close_inbox();
  // Returns the shard whose progress() this thread is in; null: none.
  static ServerImpl* current() noexcept;
  const std::optional<Error>& failure() const noexcept { return failure_; }

  void deliver(rpc::IncomingCall& call) override;
  bool in_turn_of(const rpc::ReplyCarrier& carrier) const noexcept override {
    return current() == this && peers_.is_turn_of(carrier);
  }
  Expected<Client, Error> client_of(rpc::Session& session, const BackwardOptions& options) override;
  void set_disconnected(rpc::BackwardCaller& caller, bool disconnected) override {
    disconnected_.set(caller, disconnected);
  }

  std::string_view address() const noexcept { return address_; }
  // For its own thread; others ask the board. `with_connections`: one entry for each, too.
  ServerStatistics statistics(bool with_connections) const;
  // There are two, so that figures without a list of connections cost what those without it do.
  rpc::Board& board(bool with_connections) noexcept { return boards_[with_connections ? 1 : 0]; }
  std::uint64_t turns() const noexcept { return peers_.turns(); }  // of all connections

 private:
  void await_steps();

  // Returns the share of each connection in ServerOptions::receives_max.
  std::uint32_t share_of(std::size_t connections) const noexcept;
  void share_receives();

  bool listens() const noexcept { return !listeners_.empty() || tcp_.listens(); }
  void serve_sessions();
  void retry_waiting();
  void take_inbox(Instant now);
  void accept_connections();
  void accept(std::unique_ptr<rdma::Incoming> incoming);
  rpc::Peer::State settle(rpc::RdmaPeer& peer, const rpc::RoundTime& time) override;
  void report_end(rpc::RdmaPeer& peer);
  void notice_failure();
  void drain();
  void arm_timer();

  std::unique_ptr<rdma::Provider> owned_provider_;
  rpc::ServerLoop loop_;
  rpc::RoundTime time_{rpc::clock_of(loop_)};
  rpc::ServerState& state_;
  rpc::ShardInbox inbox_{loop_};
  std::array<rpc::Board, 2> boards_;
  const ServerOptions& options_;
  const engine::Options& engine_options_;
  std::string address_;  // of the first listener
  transport::BufferPool pool_;
  rpc::MemoryQueue memory_queue_;
  rpc::HostMemory host_memory_{options_.memory_max};
  rpc::RegionTable regions_;
  rpc::ReplyCache& cache_;
  rpc::ConnectionLog& log_;
  rpc::RdmaPlaces places_;
  rpc::HeapReturn heap_;
  std::vector<std::unique_ptr<rdma::Listener>> listeners_;
  std::optional<Error> failure_;  // of the first of them that failed
  std::uint32_t share_ = 0;       // of each connection, as it was last given out
  std::uint64_t ends_ = 0;        // ReplyCache::ends() before the first began to wait for one
  TransferCounters ended_;        // of sessions that are gone
  // Null: calls are not measured.
  const std::unique_ptr<rpc::CallMeter> meter_;

  rpc::DisconnectedCallers disconnected_;

  rpc::AnswerQueue answers_;
  rpc::TcpServer tcp_;
  rpc::PeerTable peers_;  // goes before what its connections use

  std::atomic<bool> stop_requested_ = false;
  bool draining_ = false;
  bool drain_is_over_ =
      false;  // drain_timeout has passed: calls that were not answered are left behind
  Instant drain_deadline_{};
};

}  // namespace rpcrdma

#endif  // RPCRDMA_RPC_SERVE_SERVER_IMPL_H_
