// One TCP connection of a server, or one over a Unix socket, and the Calls that it is answering.
#ifndef RPCRDMA_RPC_SERVE_TCP_SESSION_H_
#define RPCRDMA_RPC_SERVE_TCP_SESSION_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounded_vector.h"
#include "base/connection_tap.h"
#include "base/ring.h"
#include "oncrpc/registry.h"
#include "rpc/serve/incoming_call.h"
#include "rpc/serve/last_moves.h"
#include "rpc/serve/record_memory.h"
#include "rpc/serve/reply_carrier.h"
#include "rpc/serve/rest_of_record.h"
#include "rpc/serve/round_time.h"
#include "rpc/serve/serving.h"
#include "rpcrdma/counters.h"
#include "rpcrdma/error.h"
#include "rpcrdma/options.h"
#include "tcp/connection.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {

class TcpSession;

// A Call in service, until its reply has gone. Sessions use each of them again and again.
class TcpCall final : public IncomingCall {
 public:
  explicit TcpCall(TcpSession& session) noexcept;

  StepUp step_up() override;

 private:
  friend class TcpSession;
  void return_loans();

  TcpSession& session_;
  bool steps_up_ = false;  // kNow was said
  tcp::Message message_;
  BoundedVector<MutableBytes, 24> loans_;    // of the pool
  std::array<std::byte, kReplyRoom> plain_;  // a reply without results
};

class TcpSession final : public ReplyCarrier {
 public:
  // Sessions share these, which outlive them.
  struct Surroundings {
    transport::BufferPool& pool;
    const oncrpc::ServiceRegistry& registry;
    ReplyCache& cache;
    Mailbox& mailbox;
    // True while a released socket can go on as RDMA.
    const std::atomic<bool>& takes_step_ups;
    CallMeter* meter = nullptr;  // null: calls are not measured
    Tap* tap = nullptr;          // null: nobody will ever look
  };
  // `memory` is the connection's.
  TcpSession(std::unique_ptr<RecordMemory::Share> memory,
             std::unique_ptr<tcp::Connection> connection, const Surroundings& surroundings,
             const TcpOptions& options, Instant now);
  ~TcpSession();
  TcpSession(const TcpSession&) = delete;
  TcpSession& operator=(const TcpSession&) = delete;

  // Notified when progress() has something to do. Must outlive the session.
  void set_listener(tcp::NewsListener& listener) noexcept {
    listener_ = &listener;
    memory_->set_listener(listener);
    connection_->set_listener(listener);
  }
  // Takes and serves what has come, as far as the limits let it, and sends replies. Returns false
  // if there are Calls that could be taken at once: a turn takes so many. An exception of a service
  // ends the program.
  bool progress(RoundTime& time) noexcept;
  // Takes no more Calls, and closes when those in service are answered.
  void drain() noexcept { draining_ = true; }
  void abort() { connection_->abort(); }
  // Ends the connection in order. Precondition: idle_since().
  void end_idle() { connection_->finish(); }
  // Returns whether another connection may have its place: all Calls are answered, and the client
  // has made none but NULL, or leaves their replies where they are for a while. `rate_min`: bytes
  // per second that a peer takes that does not leave them.
  bool may_make_room(Instant now, std::uint32_t rate_min) const noexcept {
    const bool is_executing = in_service_ > answered_.size();
    const bool is_left =
        connection_->bytes_unsent() > 0 && moves_.is_left(now, connection_->bytes_sent(), rate_min);
    return !is_executing && (!serving_.has_served() || is_left);
  }
  // Returns whether the peer has left a record incomplete (rest_of_record.h). It repeats the Call,
  // which nobody has seen, over another connection.
  bool is_left_in_record(Instant now, std::uint32_t rate_min) const noexcept {
    return !ended() && rest_.is_left(now, rate_min);
  }
  // Ends the connection at once, so that another one has room. Precondition: may_make_room(),
  // is_left_in_record(), or nothing is under way: idle_since(), and the peer does not talk.
  void make_room();
  tcp::PeerState look_at_peer() { return connection_->look_at_peer(); }
  // Returns the socket once the connection has stepped up; the session has ended then.
  std::optional<posix::Fd> take_socket() noexcept { return std::exchange(socket_, std::nullopt); }

  // Returns since when nothing is under way; nullopt if something is.
  std::optional<Instant> idle_since() const noexcept;
  Instant last_call() const noexcept { return moves_.last_call(); }  // or when it came
  // Leaves the line for memory unless progress() is going to ask for it again.
  void settle_waiting() {
    if (ended() || !takes_calls() || !connection_->starved()) memory_->stop_waiting();
  }
  Serving& serving() noexcept { return serving_; }
  const Serving& serving() const noexcept { return serving_; }
  bool ended() const noexcept override { return connection_->ended(); }
  bool finished() const noexcept { return ended() && in_service_ == 0; }
  // Returns whether it may be destroyed without loss.
  bool closing() const noexcept { return connection_->closing() && in_service_ == 0; }
  // Returns why it ended; nullopt if in order. Sets `was_reset_at_rest` if the peer reset it while
  // nothing was under way.
  std::optional<Error> failure(bool& was_reset_at_rest) const;
  std::string_view peer_address() const noexcept override { return connection_->peer_address(); }
  TransferCounters counters() const noexcept;
  std::uint32_t calls_in_service() const noexcept { return in_service_; }
  ConnectionTap& tap() noexcept { return tap_; }

 private:
  friend class TcpCall;

  bool takes_calls() const noexcept;
  bool is_idle() const noexcept { return in_service_ == 0 && connection_->is_between_records(); }
  bool may_step_up() const noexcept;
  void receive();
  bool pass(std::span<const Bytes> runs);
  void show(TapRecord::Kind kind, std::span<const Bytes> runs);
  void release_socket();
  TcpCall& begin_call(tcp::Message message);
  void settle();
  void free_call(TcpCall& call);

  MutableBytes room(IncomingCall& call, std::size_t size) override { return borrow(call, size); }
  MutableBytes borrow(IncomingCall& call, std::size_t size) override;
  bool send(IncomingCall& call, std::size_t start, const WrappedResults& wrapped) override;
  void send_plain(IncomingCall& call, const oncrpc::ReplyHeader& header) override;
  void give_up(IncomingCall& call, NoReply why) override;
  void handle_admitted(IncomingCall& call) override;
  void want_turn() noexcept override {
    if (listener_ != nullptr) listener_->handle_news();
  }

  const std::unique_ptr<RecordMemory::Share> memory_;
  const std::unique_ptr<tcp::Connection> connection_;
  tcp::NewsListener* listener_ = nullptr;
  transport::BufferPool& pool_;
  Serving serving_;
  ConnectionTap tap_;
  const std::atomic<bool>& takes_step_ups_;
  const TcpOptions options_;
  std::vector<std::unique_ptr<TcpCall>> calls_;  // as many as ever were in service at a time
  std::vector<TcpCall*> free_;
  Ring<TcpCall*> answered_;       // whose replies are on their way, in their order
  std::uint64_t settled_ = 0;     // replies that have gone
  std::uint32_t in_service_ = 0;  // calls that are not free
  std::uint64_t calls_ended_ = 0;
  std::uint64_t dropped_ = 0;  // messages that are no Calls
  bool draining_ = false;
  bool stepping_up_ = false;  // the answer that says so is on its way; nothing more is read
  bool talked_on_ = false;    // the peer did, before it had that answer
  bool made_room_ = false;
  bool stepped_up_ = false;
  bool is_at_rest_ = true;  // nothing was under way when the last turn before its end was over
  std::optional<posix::Fd> socket_;  // released, for take_socket()
  LastMoves moves_;
  Instant busy_until_;  // when something was seen to be under way last
  RestOfRecord rest_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_TCP_SESSION_H_
