// One connection of a server, and the Calls that it is answering.
#ifndef RPCRDMA_RPC_SERVE_SESSION_H_
#define RPCRDMA_RPC_SERVE_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/types.h"
#include "oncrpc/message.h"
#include "oncrpc/registry.h"
#include "rpc/region_table.h"
#include "rpc/serve/backward_caller.h"
#include "rpc/serve/call_memory.h"
#include "rpc/serve/duplicate_calls.h"
#include "rpc/serve/incoming_call.h"
#include "rpc/serve/memory_queue.h"
#include "rpc/serve/read_chunk_memory.h"
#include "rpc/serve/recent_calls.h"
#include "rpc/serve/reply_cache.h"
#include "rpcrdma/client.h"
#include "rpcrdma/service.h"
#include "transport/buffer_pool.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

class Session;

// Where answers go that come from other threads, or from outside of their session's turn.
class Mailbox {
 public:
  virtual void deliver(Session& session, engine::CallId call) = 0;  // from any thread
  // Whether this thread is in the turn of `session` in the server's progress(), so that an answer
  // may go out directly. In the turn of another one it takes the mailbox: its session
  // may not be visited again before something else happens.
  virtual bool in_turn_of(const Session& session) const noexcept = 0;
  // A client over the session's connection, for Calls in the reverse direction.
  virtual Expected<Client, Error> client_of(Session& session, const BackwardOptions& options) = 0;
  // A caller whose connection is lost, and whose Calls wait for the next one, is told of the time.
  virtual void set_adrift(BackwardCaller& caller, bool adrift) = 0;

 protected:
  ~Mailbox() = default;
};

// A Call in service, from the first event of the engine to CallDone. One per slot of the engine,
// used again and again.
class Context final : public IncomingCall {
 public:
  explicit Context(Session& session) noexcept : session_(session) {}

  std::string_view peer_address() const noexcept override;
  MutableBytes result_memory(std::uint32_t size) override;
  StepUp step_up() override { return StepUp::kAlready; }
  void want_turn() noexcept;  // of its session

 private:
  friend class Session;
  friend class ReadChunkMemory;
  Session* session() const noexcept override { return &session_; }
  MutableBytes results_room(std::size_t size) override;
  void handle_answered() override;
  void handle_step_ended() override;
  transport::Connection::Room room() const;
  // Its authenticator wants no reply to go out, nor anything else to be heard of this peer.
  void end_connection();

  Session& session_;
  engine::CallId call_{};
  bool active_ = false;
  bool may_answer_by_read_ = false;
  CallMemory::Held held_;
  bool has_long_part_ = false;  // its first loan is the Long Call's stream
  bool is_judged_ = false;      // its header and the sizes of its Read chunks were accepted
  bool has_had_turn_ = false;   // the engine has given it its turn to ask for memory
  std::uint16_t lent_ = 0;      // how many of its loans were given to the engine, for Read chunks
  MemoryQueue::Ticket ticket_;  // if any, it waits for memory, and holds none
  engine::MemoryWanted wanted_{};
  // What is to be handled again when a step of authentication has ended.
  std::optional<engine::Event> again_;
  std::uint64_t name_ = 0;  // of a Call with chunks, for RefusedCalls
};

class Session {
 public:
  // What sessions share; outlives them.
  struct Surroundings {
    transport::BufferPool& pool;
    MemoryQueue& memory_queue;  // of the pool
    const oncrpc::ServiceRegistry& registry;
    RegionTable& regions;
    ReplyCache& cache;
    Mailbox& mailbox;
  };
  // Answers the Calls that come over the connection, which is another's and goes first. `contexts`:
  // as many as the engine has slots for them.
  Session(transport::Connection& connection, const Surroundings& surroundings,
          std::size_t contexts);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A turn: drives the connection, serves what there is to serve, and tries again for calls that
  // wait for memory. False: there is more than one turn is for. An exception of a service ends the
  // program.
  bool progress(Instant now) noexcept;
  // For owners that drive the connection themselves: tries again for calls that wait for memory,
  // as long as they are the first that do. Whether any went on.
  bool retry_waiting() { return chunk_memory_.retry(); }
  // The same: an event of a Call that is answered here.
  void handle(const engine::Event& event);
  // An answer that came through the mailbox.
  void answer(engine::CallId call);
  // The server goes: what came through the mailbox is the end of a step, if it is one.
  void drop_step(engine::CallId call);
  void disconnect() noexcept { connection_->disconnect(); }

  CallerSeat& caller() noexcept { return caller_; }
  // Who is told that progress() has something to do that no peer has caused; outlives it.
  void tell_news_to(rdma::NewsListener& listener) noexcept { listener_ = &listener; }
  void want_turn() noexcept {
    if (listener_ != nullptr) listener_->handle_news();
  }
  transport::Connection& connection() noexcept { return *connection_; }
  Mailbox& mailbox() const noexcept { return mailbox_; }

  // Steps of authentication that go on elsewhere.
  std::uint32_t steps() const noexcept { return steps_; }
  bool idle() const noexcept { return connection_->engine().calls_in_service() == 0; }
  bool waits_for_a_duplicate() const noexcept { return duplicates_.waiting() > 0; }
  std::uint64_t cached_replies() const noexcept { return duplicates_.cached_replies(); }
  // What of the peer's has made an authenticator end the connection; empty: nothing has.
  std::string_view why_ended() const noexcept { return why_ended_; }
  bool finished() const noexcept {
    return connection_->ended() && idle() && connection_->engine().calls_in_flight() == 0 &&
           !caller_.holds_replies();
  }
  const transport::Connection& connection() const noexcept { return *connection_; }

 private:
  friend class Context;
  friend class ReadChunkMemory;

  Context& context(engine::CallId call);
  void handle_received(const engine::CallReceived& received);
  void handle_done(const engine::CallDone& done);
  bool accept_header(Context& context, Bytes stream, Xid expected,
                     std::span<const MessageReader::Placed> placed);
  void serve(Context& context, std::span<const MessageReader::Placed> placed);
  void go_on(Context& context);
  void execute(Context& context);
  bool retry_duplicates();
  bool was_refused(Context& context, Xid xid, Bytes inline_part);
  void send_answer(Context& context);
  void send_long_answer(Context& context, const transport::Connection::Room& place);
  void send_plain(Context& context, const oncrpc::ReplyHeader& header);

  transport::Connection* const connection_;
  rdma::NewsListener* listener_ = nullptr;
  CallerSeat caller_;
  ReadChunkMemory chunk_memory_;
  CallMemory memory_;
  const oncrpc::ServiceRegistry& registry_;
  ReplyCache& cache_;
  DuplicateCalls duplicates_;
  Mailbox& mailbox_;
  std::vector<std::unique_ptr<Context>> contexts_;  // by the engine's slot; null: was never used
  RecentCalls recent_calls_;
  std::uint32_t steps_ = 0;  // contexts that wait for a step
  std::uint64_t host_ = 0;   // a checksum of the peer's address without its port; 0: not known yet
  Instant now_{};            // of the round in progress
  std::string_view why_ended_;
  oncrpc::ReplyHeader refusal_{};  // scratch: of the Call that is being judged
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_SESSION_H_
