// The inside of Client: call slots between the application and the engine.
#ifndef RPCRDMA_RPC_CALL_CLIENT_IMPL_H_
#define RPCRDMA_RPC_CALL_CLIENT_IMPL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bounded_vector.h"
#include "base/ring.h"
#include "oncrpc/message.h"
#include "rdma/provider.h"
#include "rpc/answer_queue.h"
#include "rpc/call/backoff.h"
#include "rpc/region_table.h"
#include "rpc/serve/session.h"
#include "rpcrdma/client.h"
#include "transport/buffer_pool.h"
#include "transport/connection.h"

namespace rpcrdma {

// In one of two lives: with a connection of its own, or making backward Calls (RFC 8167) over that
// of a server's session, which then drives it (client_backward.cc).
class ClientImpl final : public MemoryRegistrar, public rpc::Mailbox, public rpc::BackwardCaller {
 public:
  // Drives `provider`, which outlives it; `owned` may hold it.
  ClientImpl(std::unique_ptr<rdma::Provider> owned, rdma::Provider& provider,
             const ClientOptions& options);
  ~ClientImpl();
  ClientImpl(const ClientImpl&) = delete;
  ClientImpl& operator=(const ClientImpl&) = delete;

  // Starts to connect to a numeric address; progress() goes on with it.
  Expected<void, Error> begin_connect(std::string_view address);
  // The same on an established TCP connection, which it takes over.
  Expected<void, Error> begin_adopt(int descriptor);
  // Blocks until the connection is up or refused.
  Expected<void, Error> connect(std::string_view address);
  Expected<void, Error> adopt(int descriptor);
  // A client on a provider of the caller's, which is only starting to connect.
  static Expected<Client, Error> connect_on(rdma::Provider& provider, std::string_view address,
                                            const ClientOptions& options);
  // One that makes backward Calls over the session's connection.
  static Client over(rpc::Session& session, rdma::Provider& provider, const ClientOptions& options,
                     bool outlives_connection);
  // The end of the Client that had it.
  static void dispose(std::unique_ptr<ClientImpl> impl);

  Expected<Call, Error> prepare(const Procedure& procedure, std::uint32_t arguments_size_max);
  Expected<Reply, Error> call(Call call);
  Expected<void, Error> start(Call&& call, ReplyCallback&& callback);
  void progress();
  void wait();
  void drain();
  void close() noexcept;
  void use_credential(const AuthSys& credential);
  Expected<void, Error> serve(std::uint32_t program, std::uint32_t version, Service& service);
  // `writable` is null for memory that is only read.
  Expected<RegisteredMemory, Error> register_memory(Bytes memory, std::byte* writable);
  void unregister(std::uint32_t id) noexcept override;

  // Of backward Calls that it answers.
  void deliver(rpc::Session& session, engine::CallId call) override;
  bool in_turn_of(const rpc::Session& session) const noexcept override;
  Expected<Client, Error> client_of(rpc::Session& session, const BackwardOptions& options) override;
  void set_adrift(rpc::BackwardCaller& caller, bool adrift) override;
  // Of backward Calls that it makes.
  void handle_event(Instant now, const engine::Event& event) override;
  void end_calls() override { close(); }
  void handle_end() override;
  bool holds_replies() const noexcept override;
  std::optional<Instant> next_deadline() const override;
  void handle_time(Instant now) override;
  void handle_server_end() override;
  Expected<void, Error> resume(rpc::Session& session);

  int wait_fd() const noexcept { return was_backward_ ? -1 : provider_.wait_fd(); }
  std::string_view provider_name() const noexcept {
    return was_backward_ ? std::string_view() : provider_.name();
  }
  bool connected() const noexcept {
    return connection_ != nullptr && connection_->connected() && !configuring_ && !left();
  }
  bool ended() const noexcept {
    return (connection_ == nullptr || connection_->ended() || left()) &&
           !(waits_for_next() && ever_connected_);
  }
  std::uint32_t calls_in_flight() const noexcept;
  std::string_view peer() const noexcept { return peer_; }
  TransferCounters counters() const noexcept;

 private:
  friend class Call;
  friend class Reply;

  enum class State : std::uint8_t {
    kFree,      // prepare() takes it
    kPrepared,  // for start(); or for its Call to be destroyed
    kWaiting,   // for a connection, or for its turn on it; its time-out
    kStarted,   // for the engine's last event
    kEnded,     // the reply is here: for its Reply to be destroyed
    kFailed,    // for the blocking caller to take its error
  };
  struct Slot {
    State state = State::kFree;
    bool blocking = false;
    bool holds_receive = false;  // the engine's slot is to be released
    Procedure procedure{};
    Xid xid{};
    MutableBytes stream;  // a message room of the connection, or of the pool
    bool stream_is_room = false;
    MutableBytes reply_room;  // of the pool
    MessageWriter writer;
    std::array<MutableBytes, kBulkItemsMax> results;
    std::size_t result_count = 0;
    bool results_refused = false;  // place_result() was asked for what it cannot do
    std::uint32_t results_size_max = 0;
    std::chrono::nanoseconds timeout{};
    Instant deadline{};            // with reconnection: of the call as a whole
    std::uint32_t lost_alone = 0;  // connections that were lost with only this call under way
    transport::Connection* connection = nullptr;  // of its id, leases and Receive
    engine::CallId id{};
    BoundedVector<engine::Lease, 2 * kBulkItemsMax + 2> leases;  // of this call only
    BoundedVector<std::uint32_t, 2 * kBulkItemsMax> regions;     // in use, of regions_
    ReplyCallback callback;
    MessageReader reader;
    std::optional<Error> error;
  };

  Expected<void, Error> take_queue_pair(
      Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> queue_pair,
      const engine::Options& options);
  Expected<void, Error> await_connection();
  std::optional<Error> begin(std::uint32_t index, bool blocking, ReplyCallback&& callback);
  transport::Connection::Room room(const Slot& slot) const;
  bool build(Slot& slot, BoundedVector<engine::Fragment, engine::kFragmentsMax>& stream,
             BoundedVector<engine::ResultRoom, kBulkItemsMax>& rooms);
  // A connection and who answers the backward Calls that come over it, if anybody does.
  struct Link {
    std::unique_ptr<rpc::Session> session;
    std::unique_ptr<transport::Connection> connection;  // goes first
  };
  // While it lives, answers on this thread need no mailbox. Costs nothing without backward Calls.
  class InTurn {
   public:
    explicit InTurn(const ClientImpl& client) noexcept
        : answers_(client.options_.backward_calls > 0),
          before_(answers_ ? enter(&client) : nullptr) {}
    ~InTurn() {
      if (answers_) enter(before_);
    }
    InTurn(const InTurn&) = delete;
    InTurn& operator=(const InTurn&) = delete;

   private:
    static const ClientImpl* enter(const ClientImpl* client) noexcept;
    const bool answers_;
    const ClientImpl* before_;
  };
  bool is_backward() const noexcept { return session_ != nullptr || disposed_ || was_backward_; }
  // The connection lives on without it.
  bool left() const noexcept { return closing_ && is_backward(); }
  MutableBytes room_memory(std::uint32_t index) const;
  void move_streams();
  void leave_adrift();
  bool leave_lost_session();
  bool flatten(Slot& slot);
  void cancel_backward();
  // The Connection Configuration Protocol (client_configuration.cc).
  bool has_configuration_slot() const noexcept {
    return options_.connection.profile == Profile::kRfc5666;
  }
  void configure();
  void handle_configured(Expected<Reply, Error> reply);
  bool answers_are_read() const noexcept {
    return options_.connection.profile == Profile::kRfc5666 &&
           options_.connection.rfc5666.results_by_read;
  }

  // On the path of each call. Its stream is there.
  [[gnu::always_inline]] inline void init_slot(std::uint32_t index, const Procedure& procedure);
  bool has_started_calls() const noexcept;
  void take_answers();
  static void handle_answered(Link& link);

  struct Lent {
    engine::Lease lease;
    std::uint64_t offset;  // of the memory in the lease, bytes
  };
  std::optional<Lent> lend(Slot& slot, MutableBytes memory);
  std::optional<Lent> lend_read_only(Slot& slot, Bytes memory);
  std::optional<Lent> lend_registered(Slot& slot, Bytes memory, bool to_write);
  std::optional<Error> start_in_engine(Slot& slot);
  std::optional<Error> start_or_wait(Slot& slot);

  // Reconnection (client_reconnect.cc).
  bool reconnects() const noexcept { return options_.reconnect.enabled && !closing_; }
  // Whether its calls go on over another connection when this one is lost.
  bool waits_for_next() const noexcept { return reconnects() || (keeper_ != nullptr && !closing_); }
  bool may_start() const noexcept;
  void wait_for_connection(Slot& slot);
  void after_loss();
  void retire_connection();
  void try_to_connect();
  void handle_connected();
  void blame_single_call();
  void start_waiting();
  void fail_waiting(bool all);
  void maintain_connection();
  Error timed_out_waiting() const;

  Error no_resources(std::string cause) const;
  std::optional<rdma::Error> attach_region(std::uint32_t id);
  void pump_connection();
  void pump() noexcept;  // an exception of a callback ends the program
  void handle(const engine::Event& event);
  void handle_reply(std::uint32_t index, const engine::ReplyReady& reply);
  std::uint32_t index_of(engine::CallId call) const;
  std::optional<Error> decode(Slot& slot, const engine::ReplyReady& reply);
  std::optional<Error> decode_any(Slot& slot, Bytes stream, const engine::ReplyReady& reply);
  void fail(std::uint32_t index, Error error);
  void take_memory_back(Slot& slot);
  void free_slot(std::uint32_t index);
  // With what the user can do about it.
  Error explain(const rdma::Error& error, std::string_view operation) const;
  Error explain(engine::CallError error) const;  // of a call over the connection
  Error lost_error() const;
  std::uint32_t next_xid() noexcept { return ++last_xid_; }

  static constexpr std::uint32_t kResultsSizeDefault = 512;

  std::unique_ptr<rdma::Provider> owned_provider_;
  rdma::Provider& provider_;  // it may have gone when was_backward_
  const ClientOptions options_;
  const engine::Options engine_options_;
  std::string peer_;
  transport::BufferPool pool_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> slot_of_call_;  // by the engine's slot: who used it last
  Ring<std::uint32_t> free_;
  const std::uint32_t configuration_slot_;  // the last one; else the number of no slot
  transport::MessageRooms rooms_;           // of the Calls that are made, by slot
  oncrpc::ServiceRegistry registry_;        // of backward Calls
  rpc::ReplyCache cache_{0, 0};             // remembers nothing
  Link link_;  // its connection dies before the memory that it was lent
  transport::Connection* connection_ = nullptr;  // that of link_, or the session's
  // Lost ones whose Receives hold replies that the application still looks at, or whose backward
  // Calls are not answered yet.
  std::vector<Link> retired_;
  rpc::Session* session_ = nullptr;  // whose connection it is, when it makes backward Calls
  bool was_backward_ = false;        // the session has gone
  // For a backward client whose Calls wait for the next connection: the mailbox of the server, and
  // whether the server keeps this client, which has no connection now.
  rpc::Mailbox* keeper_ = nullptr;
  bool adrift_ = false;
  bool disposed_ = false;     // its Client has gone; it goes when its last Call ends
  rpc::AnswerQueue answers_;  // of backward Calls
  rpc::RegionTable regions_;  // what the application registered for long
  std::vector<std::optional<engine::Lease>> region_leases_;  // by their ids, on connection_
  std::array<std::byte, kAuthBodySizeMax> credential_body_{};
  Credential credential_;
  std::uint32_t last_xid_ = 0;
  bool configuring_ = false;  // connection_ is up or not yet, and not to be used
  bool configuration_started_ = false;
  bool in_progress_ = false;
  Instant now_{};  // of the round in progress
  bool closing_ = false;

  rpc::Backoff backoff_;
  TransferCounters past_;  // of connections that were lost
  bool ever_connected_ = false;
  bool connection_was_up_ = false;       // connection_
  bool loss_handled_ = false;            // of connection_
  std::optional<Instant> next_attempt_;  // set: there is no connection, and none is being made
  std::uint32_t waiting_ = 0;            // slots in kWaiting
  std::uint32_t losses_in_a_row_ = 0;    // without a reply in between
  std::optional<Error> last_failure_;    // why there is no connection
};

inline void ClientImpl::init_slot(std::uint32_t index, const Procedure& procedure) {
  Slot& slot = slots_[index];
  slot.state = State::kPrepared;
  slot.blocking = slot.holds_receive = false;
  slot.connection = nullptr;
  slot.procedure = procedure;
  slot.xid = Xid{next_xid()};
  slot.result_count = 0;
  slot.results_refused = false;
  slot.results_size_max = kResultsSizeDefault;
  slot.timeout = options_.call_timeout;
  slot.leases.clear();
  slot.regions.clear();
  slot.error.reset();
  std::construct_at(&slot.writer, slot.stream);
  oncrpc::encode_call({slot.xid, procedure, credential_, {}}, slot.writer.xdr());
}

}  // namespace rpcrdma

#endif  // RPCRDMA_RPC_CALL_CLIENT_IMPL_H_
