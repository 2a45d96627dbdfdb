// The life of a client's calls over any carrier: prepare, seal, send, open, end; and between two
// connections waiting and sending once more.
#ifndef RPCRDMA_RPC_CALL_CALL_FLOW_H_
#define RPCRDMA_RPC_CALL_CALL_FLOW_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/deadline.h"
#include "rpc/call/call_round.h"
#include "rpc/call/call_steps.h"
#include "rpc/call/call_table.h"
#include "rpc/call/carrier.h"
#include "rpc/call/connection_history.h"
#include "rpc/call/prepared_calls.h"
#include "rpc/call/waiting_calls.h"
#include "rpc/security.h"
#include "rpcrdma/error.h"
#include "rpcrdma/options.h"
#include "transport/buffer_pool.h"

namespace rpcrdma {

class ClientImpl;

namespace rpc {

// Decides for a flow when its calls may go out, and whether they wait for the next connection.
class ConnectionPolicy {
 public:
  // Another connection takes the place of one that is lost. With Settings::keeps_calls, calls that
  // were under way wait for it.
  virtual bool waits_for_next() const noexcept { return false; }
  // The first connection was lost and another one takes its place, whatever waits_for_next() says.
  virtual bool is_connecting_again() const noexcept { return false; }
  // Asked only with Settings::keeps_calls: a call may be sent now.
  virtual bool may_send() noexcept { return true; }
  // A call begins to wait for a connection.
  virtual void handle_waiting() {}
  // Says why there is no connection, for the error of a call that waited in vain.
  virtual std::string absence() const { return {}; }
  // Says why the last attempt to connect has failed; empty: none has since there was a connection.
  virtual std::string_view last_failure() const { return {}; }
  // Asked only with Settings::finishes_messages, before a call is first sent: what is wrong with
  // its message, if anything is.
  virtual std::optional<Error> finish_message(CallSlot& /*slot*/) { return std::nullopt; }

 protected:
  ~ConnectionPolicy() = default;
};

class CallFlow {
 public:
  struct Settings {
    std::size_t calls_max;
    bool has_own_call;       // the last slot is for a call that the library makes
    bool keeps_calls;        // calls wait where there is no connection
    bool finishes_messages;  // the policy has something to do to each message
  };
  // `clock` is called on the client's thread, `wake` on any: it makes the client call progress().
  // The Reply of each call is one of `client`.
  CallFlow(ClientImpl& client, ConnectionPolicy& policy, const ClientOptions& options,
           const Settings& settings, const std::function<Instant()>& clock,
           std::function<void()> wake);
  CallFlow(const CallFlow&) = delete;
  CallFlow& operator=(const CallFlow&) = delete;
  // Once, before any call. The carrier may be destroyed before the flow when no call is left.
  void set_carrier(Carrier& carrier) noexcept { carrier_ = &carrier; }

  // --- For the application, by slots.
  PreparedCalls& prepared() noexcept { return prepared_; }
  // Returns what went wrong, if anything did: the slot is free then.
  std::optional<Error> begin(std::uint32_t index, bool blocking, ReplyCallback&& callback);
  void free(std::uint32_t index);
  void use_credential(const AuthSys& credential) { plain_.set(credential); }
  std::optional<Procedure> logout_procedure() const noexcept { return steps_.logout_procedure(); }
  // All that were begun and have not ended, without the library's own.
  std::uint32_t calls_in_flight() const noexcept;
  bool ended() const noexcept {
    return carrier_->has_ended() && !(policy_.waits_for_next() && history_.goes_on()) &&
           !policy_.is_connecting_again();
  }

  // Seals and sends the library's own call. Returns false if that failed; the slot is free then.
  bool send_own(std::chrono::nanoseconds timeout, ReplyCallback&& callback);

  // --- For the owner, which makes rounds.
  CallRound& round() noexcept { return round_; }
  bool in_round() const noexcept { return round_.is_open(); }
  // Inside of a callback the time of its round is good enough.
  Instant now() const { return round_.is_open() ? round_.time() : carrier_->clock(); }
  // Continues calls whose steps of authentication have ended elsewhere, and cancels those that have
  // no time left.
  void take_steps();
  // Cancels all that are being sealed: there is no connection for them any more.
  void cancel_sealing();
  // When a step has to be cancelled, or a call that waits has no time left.
  Deadline next_deadline() const noexcept;
  WaitingCalls& waiting() noexcept { return waiting_; }
  ConnectionHistory& history() noexcept { return history_; }
  // The client is closed: nothing is sent any more, and what ends is cancelled.
  void close() noexcept { closing_ = true; }
  bool is_closing() const noexcept { return closing_; }

  // --- For the carrier.
  // The reply has come, and slot.reader stands at its results, or it is an error.
  void handle_reply(std::uint32_t index, std::optional<Error>&& error);
  // In front of reading the reply.
  void begin_reply(CallSlot& slot) const noexcept {
    if (steps_.has_steps()) [[unlikely]]
      CallSteps::begin_reply(slot.step);
  }
  // The connection was lost with the call.
  void lose(std::uint32_t index);
  // `is_answer`: the server has answered, if not with a reply.
  void fail(std::uint32_t index, Error error, bool is_answer = false);
  Error lost_error() const {
    return carrier_->explain(closing_ ? engine::CallError::kCanceled
                                      : engine::CallError::kConnectionLost);
  }
  // Returns why no call can be prepared now; nullopt: one can be.
  std::optional<Error> refusal() const;
  std::optional<std::uint32_t> growth() const noexcept { return steps_.growth(); }

  CallTable& calls() noexcept { return calls_; }
  const CallTable& calls() const noexcept { return calls_; }
  transport::BufferPool& pool() noexcept { return pool_; }
  const ClientOptions& options() const noexcept { return options_; }
  // Changes whether calls wait without a connection.
  void set_keeps_calls(bool keeps) noexcept { keeps_calls_ = keeps; }

 private:
  friend PreparedCalls;
  friend WaitingCalls;
  using State = CallState;

  // On the path of each call.
  [[gnu::always_inline]] inline void complete(std::uint32_t index);
  std::optional<Error> send(CallSlot& slot);
  std::optional<Error> send_or_wait(CallSlot& slot);
  std::optional<Error> seal(CallSlot& slot);
  std::optional<Error> send_sealed(CallSlot& slot);
  [[gnu::noinline, gnu::cold]] void open_reply(std::uint32_t index, std::optional<Error>&& error);
  void handle_opened(std::uint32_t index);
  // A step has ended: the call is sent, or sealed anew first, or waits, or fails.
  void go_on(CallSlot& slot, bool is_sealed);

  ClientImpl& client_;
  ConnectionPolicy& policy_;
  const ClientOptions options_;
  Carrier* carrier_ = nullptr;
  transport::BufferPool pool_;
  CallTable calls_;
  PlainAuth plain_;
  const ClientSecurity security_;
  CallSteps steps_;
  CallRound round_;
  ConnectionHistory history_;
  PreparedCalls prepared_;
  WaitingCalls waiting_{*this};
  Deadline next_cancel_;  // no call that is being sealed has less time
  bool keeps_calls_;
  const bool finishes_messages_;
  bool closing_ = false;
};

}  // namespace rpc
}  // namespace rpcrdma

#endif  // RPCRDMA_RPC_CALL_CALL_FLOW_H_
