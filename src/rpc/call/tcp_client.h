// A client over TCP or a Unix socket (RFC 5531 §11): the same calls, whose bulk items stay in the
// stream.
#ifndef RPCRDMA_RPC_CALL_TCP_CLIENT_H_
#define RPCRDMA_RPC_CALL_TCP_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ring.h"
#include "engine/xid_index.h"
#include "posix/reactor.h"
#include "rpc/call/client_impl.h"
#include "rpc/call/sealing.h"
#include "rpc/pool_memory.h"
#include "rpc/security.h"
#include "tcp/connection.h"
#include "transport/buffer_pool.h"

namespace rpcrdma {

class TcpClient final : public ClientImpl {
 public:
  // Starts to connect to a numeric address or to a path; progress() goes on with it. kUnsupported:
  // the options ask for what only RDMA has.
  static Expected<std::unique_ptr<TcpClient>, Error> begin_connect(std::string_view address,
                                                                   const ClientOptions& options);
  ~TcpClient() override;
  // Blocks until the connection is up or refused.
  Expected<void, Error> await_connection();
  static Client client_of(std::unique_ptr<TcpClient> impl) { return make_client(std::move(impl)); }

  Expected<Call, Error> prepare(const Procedure& procedure,
                                std::uint32_t arguments_size_max) override;
  Expected<Call, Error> prepare_message(std::uint32_t size_max) override;
  Expected<Reply, Error> call(Call call) override;
  Expected<void, Error> start(Call&& call, ReplyCallback&& callback) override;
  void use_credential(const AuthSys& credential) override { plain_.set(credential); }
  void progress() override;
  void wait() override { reactor_->block(); }
  void drain() override;
  void close() noexcept override;
  Expected<void, Error> serve(std::uint32_t program, std::uint32_t version,
                              Service& service) override;
  Expected<RegisteredMemory, Error> register_memory(Bytes memory, std::byte* writable) override;
  Expected<void, Error> resume(rpc::Session& session) override;
  Expected<int, Error> give_up_socket() override;
  int wait_fd() const noexcept override { return reactor_->fd(); }
  std::string_view provider_name() const noexcept override { return "tcp"; }
  TransferCounters counters() const noexcept override;
  std::uint32_t calls_in_flight() const noexcept override { return under_way_; }
  std::string_view peer() const noexcept override { return peer_; }
  bool connected() const noexcept override {
    return connection_->connected() && !connection_->ended();
  }
  bool ended() const noexcept override { return connection_->ended(); }

 private:
  enum class State : std::uint8_t {
    kFree,      // prepare() takes it
    kPrepared,  // for start(); or for its Call to be destroyed
    kSealing,   // for its step of authentication to end
    kSent,      // for its reply, its time-out, or the end of the connection
    kOpening,   // the reply is here: for its step of authentication to end
    kEnded,     // the reply is here: for its Reply to be destroyed
    kFailed,    // for the blocking caller to take its error
  };
  struct Slot : rpc::CallMessage {
    State state = State::kFree;
    bool blocking = false;
    bool is_early = false;  // `reply` came before all of the call had gone
    Procedure procedure{};
    Xid xid{};
    MutableBytes stream;       // kHeaderRoom, and the arguments; of the pool
    std::uint64_t number = 0;  // among the messages of the connection
    tcp::Message reply;
    Instant deadline{};
    ReplyCallback callback;
    std::optional<Error> error;
  };

  TcpClient(std::unique_ptr<posix::Reactor> reactor, std::string_view peer,
            const ClientOptions& options);
  bool stays_behind() override { return false; }
  std::optional<Procedure> goodbye() const noexcept override { return steps_.goodbye(); }
  rpc::CallMessage& message(std::uint32_t slot) noexcept override { return slots_[slot]; }
  void free_slot(std::uint32_t index) override;

  std::optional<Error> begin(std::uint32_t index, bool blocking, ReplyCallback&& callback);
  std::optional<Error> seal(Slot& slot);
  std::optional<Error> send_sealed(Slot& slot);
  // A step has ended: the call goes on with `next`, or fails.
  void go_on(std::uint32_t index, std::optional<Error> (TcpClient::*next)(Slot&));
  std::optional<Error> send(Slot& slot);
  static bool is_under_way(State state) noexcept {
    return state >= State::kSealing && state <= State::kOpening;
  }
  Xid draw_xid();
  void set_xid(Slot& slot, Xid xid);
  bool is_in_use(Xid xid);
  void take_steps();
  void handle_opened(std::uint32_t index);
  bool is_settled(const Slot& slot) const noexcept { return connection_->settled() > slot.number; }
  void pump() noexcept;  // an exception of a callback ends the program
  void receive();
  void take_reply(tcp::Message message);
  void complete_early();
  void complete(std::uint32_t index);
  std::optional<Error> read(Slot& slot);
  void time_out();
  void fail(std::uint32_t index, Error error);
  void fail_all();
  Error lost_error() const;
  Instant now() const { return in_progress_ ? now_ : posix::Reactor::now(); }

  const ClientOptions options_;
  const std::string peer_;
  std::unique_ptr<posix::Reactor> reactor_;
  transport::BufferPool pool_;
  rpc::PoolMemory memory_;
  std::vector<Slot> slots_;
  Ring<std::uint32_t> free_;
  engine::XidIndex xids_;                        // of slots_
  std::unique_ptr<tcp::Connection> connection_;  // goes before the memory that it was lent
  rpc::PlainAuth plain_;
  const rpc::ClientSecurity security_;
  rpc::CallSteps steps_;
  std::uint32_t last_xid_;
  std::uint32_t whole_calls_ = 0;         // slots whose XIDs are the application's
  std::uint64_t sent_ = 0;                // messages
  std::uint32_t under_way_ = 0;           // slots from kSealing to kOpening
  std::uint32_t early_ = 0;               // of those, with a reply that has to wait
  std::optional<Instant> next_deadline_;  // no call's is earlier
  std::uint64_t ended_calls_ = 0, dropped_ = 0;
  bool in_progress_ = false;
  bool closing_ = false;
  bool stepped_up_ = false;
  bool gave_up_ = false;  // a call timed out whose message the server had not taken
  Instant now_{};         // of the round in progress
};

}  // namespace rpcrdma

#endif  // RPCRDMA_RPC_CALL_TCP_CLIENT_H_
