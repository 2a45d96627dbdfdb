// What clients over RDMA share: their calls, whoever makes the connection.
#ifndef RPCRDMA_RPC_CALL_RDMA_CLIENT_H_
#define RPCRDMA_RPC_CALL_RDMA_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "oncrpc/message.h"
#include "rpc/call/call_sender.h"
#include "rpc/call/call_table.h"
#include "rpc/call/client_impl.h"
#include "rpc/call/peer_errors.h"
#include "rpc/connection_memory.h"
#include "rpc/security.h"
#include "rpcrdma/provider.h"
#include "transport/buffer_pool.h"
#include "transport/connection.h"

namespace rpcrdma {

// Its connection is its own (ConnectingClient), or that of a server's session (BackwardClient).
class RdmaClient : public ClientImpl {
 public:
  Expected<Call, Error> prepare(const Procedure& procedure, std::uint32_t arguments_size_max) final;
  Expected<Call, Error> prepare_message(std::uint32_t size_max) final;
  Expected<void, Error> start(Call&& call, ReplyCallback&& callback) final;
  void use_credential(const AuthSys& credential) final { plain_.set(credential); }
  std::uint32_t calls_in_flight() const noexcept final;
  std::string_view peer() const noexcept final { return errors_.peer(); }
  std::optional<ConnectionCharacteristics> characteristics() const noexcept final;
  std::optional<ConnectionTerms> terms() const noexcept final;
  bool connected() const noexcept final {
    return connection_ != nullptr && connection_->connected() && use_ == Use::kNow;
  }
  bool ended() const noexcept final {
    return (connection_ == nullptr || connection_->ended() || use_ == Use::kNoMore) &&
           !(waits_for_next() && ever_connected_) && !is_connecting_again();
  }

 protected:
  using Slot = rpc::CallSlot;
  using State = rpc::CallState;
  // Whether a connection that is up takes calls.
  enum class Use : std::uint8_t {
    kNotYet,  // it is being configured
    kNow,
    kNoMore,  // it lives on without this client
  };

  // `rooms`: of the messages, by slot; null: they are those of the connection.
  RdmaClient(rdma::Provider& provider, const ClientOptions& options, std::size_t calls_max,
             const rpc::CallSender::Limits& limits, bool has_own_call,
             const transport::MessageRooms* rooms);

  // --- What the two kinds do in their own ways.
  // A call was started, outside of progress().
  virtual void handle_started() = 0;
  // A Receive was given back, outside of progress(); `is_waited_for`: by a call, perhaps, and
  // nothing else would wake the caller's loop.
  virtual void handle_released(bool is_waited_for) {
    if (is_waited_for) provider_.wake();
  }
  // Calls wait for the next connection when this one is lost.
  virtual bool waits_for_next() const noexcept = 0;
  // The first connection was lost and another one takes its place, whatever the options say.
  virtual bool is_connecting_again() const noexcept { return false; }
  // Whether a call may be given to the engine now.
  virtual bool may_start() noexcept = 0;
  // The call's message goes out as it is now; what is wrong with it, if something is. Only asked
  // with finishes_messages_.
  virtual std::optional<Error> finish_message(Slot& /*slot*/) { return std::nullopt; }
  // A call begins to wait for a connection.
  virtual void handle_waiting() {}
  // Why there is no connection, for the error of a call that waited in vain.
  virtual std::string absence() const = 0;
  // An event of the engine's other half.
  virtual void handle_other(const engine::Event& event) = 0;

  // --- The way of a call.
  // The library's own call, prepared.
  void init_own_call(const Procedure& procedure);
  // What went wrong, if anything: an Expected would be cleared as a whole for each call.
  std::optional<Error> begin(std::uint32_t index, bool blocking, ReplyCallback&& callback);
  // Seals the message first, which may go on elsewhere.
  std::optional<Error> start_in_engine(Slot& slot);
  // Goes on with calls whose steps of authentication have ended elsewhere.
  void take_steps();
  // When the time of a call is over that is being sealed; nullopt: of none.
  std::optional<Instant> next_hurry() const noexcept {
    return steps_.under_way() > 0 ? next_hurry_ : std::nullopt;
  }
  void handle(const engine::Event& event);
  void fail(std::uint32_t index, Error error);
  void free_slot(std::uint32_t index) final;
  // Makes waiting calls again, the oldest first.
  void start_waiting();
  // Those whose time is over, or all of them.
  void fail_waiting(bool all);
  void wait_for_connection(Slot& slot);

  MutableBytes room_memory(std::uint32_t index) const {
    return rooms_ != nullptr ? rooms_->room(index) : connection_->call_room(index).memory;
  }
  Error lost_error() const {
    return errors_.explain(
        closing_ ? engine::CallError::kCanceled : engine::CallError::kConnectionLost, connection_);
  }
  // Inside of a callback the time of this round is good enough, and asking costs a clock.
  Instant now() const { return in_progress_ ? now_ : provider_.now(); }

  rdma::Provider& provider_;  // a BackwardClient's may have gone with its server
  const ClientOptions options_;
  rpc::PeerErrors errors_;
  transport::BufferPool pool_;
  rpc::CallTable calls_;
  const transport::MessageRooms* rooms_;
  rpc::RegionTable regions_;
  rpc::ConnectionMemory memory_{regions_, rpc::Registering::kAhead};
  transport::Connection* connection_ = nullptr;
  bool keeps_calls_ = false;        // start() lets calls wait where there is no connection
  bool finishes_messages_ = false;  // finish_message() has something to do
  bool ever_connected_ = false;
  bool heard_ = false;            // a reply came since this was cleared
  bool whole_call_lost_ = false;  // with the connection: it may have been its fault
  bool in_progress_ = false;
  bool closing_ = false;
  Use use_ = Use::kNow;
  Instant now_{};  // of the round in progress
  std::uint32_t last_xid_ = 0;
  std::uint32_t whole_calls_ = 0;  // slots whose XIDs are the application's

 private:
  rpc::CallMessage& message(std::uint32_t slot) noexcept final { return calls_[slot]; }
  std::optional<Procedure> goodbye() const noexcept final { return steps_.goodbye(); }
  // On the path of each call.
  [[gnu::always_inline]] inline Xid draw_xid();
  [[gnu::always_inline]] inline void init_slot(Slot& slot, const Procedure& procedure);
  // What a slot holds; of a call that is made again only what came with its reply.
  void give_back(std::uint32_t index, bool keeps_call);
  std::optional<Error> start_or_wait(Slot& slot);
  [[gnu::always_inline]] inline std::optional<Error> send(Slot& slot);  // as complete()
  std::optional<Error> seal(Slot& slot);
  std::optional<Error> send_sealed(Slot& slot);
  // A step has ended: the call is sent, or sealed anew first, or waits, or fails.
  void go_on(Slot& slot, bool is_sealed);
  void handle_opened(std::uint32_t index);
  // On the path of each call.
  [[gnu::always_inline]] inline void complete(std::uint32_t index);
  void handle_reply(std::uint32_t index, const engine::ReplyReady& reply);
  [[gnu::noinline, gnu::cold]] void open_reply(std::uint32_t index, std::optional<Error>&& error);
  void handle_failed(std::uint32_t index, engine::CallError error);

  rpc::PlainAuth plain_;
  const rpc::ClientSecurity security_;
  std::optional<Instant> next_hurry_;  // no call that is being sealed has less time

 protected:
  rpc::CallSteps steps_;

 private:
  rpc::CallSender sender_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_RPC_CALL_RDMA_CLIENT_H_
