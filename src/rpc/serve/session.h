// One RDMA connection of a server, and the Calls that it is answering.
#ifndef RPCRDMA_RPC_SERVE_SESSION_H_
#define RPCRDMA_RPC_SERVE_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/newest.h"
#include "engine/recent_writes.h"
#include "engine/types.h"
#include "oncrpc/message.h"
#include "oncrpc/registry.h"
#include "rpc/region_table.h"
#include "rpc/serve/backward_caller.h"
#include "rpc/serve/call_memory.h"
#include "rpc/serve/incoming_call.h"
#include "rpc/serve/memory_queue.h"
#include "rpc/serve/read_chunk_memory.h"
#include "rpc/serve/reply_cache.h"
#include "rpc/serve/reply_carrier.h"
#include "rpc/serve/round_time.h"
#include "rpc/serve/serving.h"
#include "rpcrdma/client.h"
#include "rpcrdma/service.h"
#include "transport/buffer_pool.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

class Session;

// A Call in service, from the first event of the engine to CallDone. One per slot of the engine,
// used again and again.
class Context final : public IncomingCall {
 public:
  explicit Context(Session& session) noexcept;

  StepUp step_up() override { return StepUp::kAlready; }
  void want_turn() noexcept;  // for its session

 private:
  friend class Session;
  friend class ReadChunkMemory;
  Session* session() const noexcept override { return &session_; }
  transport::Connection::Room room() const;

  Session& session_;
  engine::CallId call_{};
  bool active_ = false;
  CallMemory::Held held_;
  bool has_long_part_ = false;  // its first loan is the Long Call's stream
  bool is_judged_ = false;      // its header and the sizes of its Read chunks were accepted
  bool has_had_turn_ = false;   // the engine has given it its turn to ask for memory
  std::uint16_t lent_ = 0;      // how many of its loans were given to the engine, for Read chunks
  MemoryQueue::Ticket ticket_;  // if any, it waits for memory, and holds none
  Instant waits_since_{};       // for it; only where calls are measured
  engine::MemoryWanted wanted_{};
  // An event that is handled again when a step of authentication has ended.
  std::optional<engine::Event> again_;
  std::uint64_t name_ = 0;  // of a Call with chunks, for RefusedCalls
};

class Session final : public ReplyCarrier {
 public:
  // Sessions share these, which outlive them.
  struct Surroundings {
    transport::BufferPool& pool;
    MemoryQueue& memory_queue;  // of the pool
    const oncrpc::ServiceRegistry& registry;
    RegionTable& regions;
    ReplyCache& cache;
    Mailbox& mailbox;
    CallMeter* meter = nullptr;         // null: calls are not measured
    HostMemory* host_memory = nullptr;  // null: hosts have no bound
  };
  // Answers the Calls that come over the connection, which goes before the session. `contexts`: the
  // number of slots that the engine has for them.
  Session(transport::Connection& connection, const Surroundings& surroundings,
          std::size_t contexts);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Drives the connection, serves what there is to serve, and tries again for calls that wait for
  // memory. Returns false if there is more than one turn is for. An exception of a service ends the
  // program.
  bool progress(RoundTime& time) noexcept;
  // For owners that drive the connection themselves: tries again for calls that wait for memory,
  // as long as they are the first that do. Returns whether any went on.
  bool retry_waiting() { return chunk_memory_.retry(); }
  // Called with the time of their round, for such owners as well.
  void handle_time(Instant now) noexcept override;
  // Handles an event of a Call that is answered here; for such owners as well.
  void handle(const engine::Event& event);
  void disconnect() noexcept { connection_->disconnect(); }

  CallerSeat& caller() noexcept { return caller_; }
  // Notified when progress() has something to do that no peer caused. Must outlive the session.
  void set_ready_listener(rdma::NewsListener& listener) noexcept { listener_ = &listener; }
  void want_turn() noexcept override {
    if (listener_ != nullptr) listener_->handle_news();
  }
  transport::Connection& connection() noexcept { return *connection_; }
  Mailbox& mailbox() const noexcept { return serving_.mailbox(); }
  Serving& serving() noexcept { return serving_; }
  const Serving& serving() const noexcept { return serving_; }

  bool idle() const noexcept { return connection_->engine().responder().calls_in_service() == 0; }
  bool finished() const noexcept {
    return connection_->ended() && idle() &&
           connection_->engine().requester().calls_in_flight() == 0 && !caller_.holds_replies();
  }
  const transport::Connection& connection() const noexcept { return *connection_; }

 private:
  friend class Context;
  friend class ReadChunkMemory;

  Context& context(engine::CallId call);
  std::uint64_t name_of(engine::CallId call);
  void handle_received(const engine::CallReceived& received);
  void handle_done(const engine::CallDone& done);
  // Judges the Call by its RPC header, unless it was judged when less of it was there. Returns
  // false if it goes no further; after a step of authentication `event` is handled again.
  template <class Event>
  bool admit(Context& context, Bytes stream, Xid expected, const Event& event) {
    if (!names(context, stream, expected)) [[unlikely]] {
      connection_->engine().responder().reject(context.call_);
      return false;
    }
    if (context.is_admitted() || serving_.admit(context, stream)) return true;
    if (context.waits_for_step()) context.again_ = event;
    return false;
  }
  static bool names(const Context& context, Bytes stream, Xid expected) noexcept;
  bool was_refused(Context& context, Xid xid, Bytes inline_part);
  void note_chunks(Context& context, const engine::CallReceived& received) const noexcept;

  std::string_view peer_address() const noexcept override;
  bool ended() const noexcept override { return connection_->ended(); }
  MutableBytes room(IncomingCall& call, std::size_t size) override;
  MutableBytes borrow(IncomingCall& call, std::size_t size) override;
  bool send(IncomingCall& call, std::size_t start, const WrappedResults& wrapped) override;
  bool send_runs(Context& context, std::size_t start, const WrappedResults& wrapped);
  void send_plain(IncomingCall& call, const oncrpc::ReplyHeader& header) override;
  void give_up(IncomingCall& call, NoReply why) override;
  void handle_admitted(IncomingCall& call) override;
  bool let_be_read(const Context& context);

  transport::Connection* const connection_;
  rdma::NewsListener* listener_ = nullptr;
  CallerSeat caller_;
  ReadChunkMemory chunk_memory_;
  HostMemory::Share of_host_;
  CallMemory memory_;
  ReplyCache& cache_;
  Serving serving_;
  std::vector<std::unique_ptr<Context>> contexts_;  // by the engine's slot; null: was never used
  // The newest Calls with chunks that were answered: the peer may refuse an RDMA Write when its
  // Call is done, see engine::RecentWrites.
  struct Named {
    engine::CallId call;
    std::uint64_t name;
  };
  Newest<Named> named_{engine::RecentWrites::kMax};
  std::uint64_t host_ = 0;  // a checksum of the peer's address without its port; 0: not known yet
  Instant now_{};           // of the newest round
  RoundTime* time_ = nullptr;  // of the owner's rounds; null: they have none
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_SESSION_H_
