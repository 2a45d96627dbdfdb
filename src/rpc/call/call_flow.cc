#include "rpc/call/call_flow.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "base/probes.h"
#include "posix/reactor.h"
#include "rpc/call/call_causes.h"
#include "rpc/call/client_impl.h"
#include "rpc/call/sealing.h"
#include "rpc/errors.h"
#include "rpc/time_limit.h"

namespace rpcrdma::rpc {

CallFlow::CallFlow(ClientImpl& client, ConnectionPolicy& policy, const ClientOptions& options,
                   const Settings& settings, const std::function<Instant()>& clock,
                   std::function<void()> wake)
    : client_(client),
      policy_(policy),
      options_(options),
      pool_(options.memory_max),
      calls_(settings.calls_max, settings.has_own_call),
      security_(options.auth, clock),
      steps_(security_.auth(), plain_, std::move(wake)),
      // Two clients behind one address should not use the same XIDs: servers may remember them.
      prepared_(*this, static_cast<std::uint32_t>(clock().time_since_epoch().count() >> 10)),
      keeps_calls_(settings.keeps_calls),
      finishes_messages_(settings.finishes_messages) {
  if (const auto* sys = std::get_if<AuthSys>(&options.auth)) plain_.set(*sys);
  calls_.set_ended_steps(steps_.ended());
}

std::uint32_t CallFlow::calls_in_flight() const noexcept {
  const std::uint32_t calls = calls_.waiting() + steps_.under_way() + carrier_->calls_in_flight();
  return calls - std::min(calls, calls_.own_is_under_way() ? 1U : 0U);
}

// --- Making a call -----------------------------------------------------------------------------

std::optional<Error> CallFlow::begin(std::uint32_t index, bool blocking, ReplyCallback&& callback) {
  CallSlot& slot = calls_[index];
  RPCRDMA_REQUIRE(slot.state == State::kPrepared, "a Call is started twice");
  // A round is known to be recent to some milliseconds only, which a short time has not to give.
  const bool is_short = slot.timeout < std::chrono::seconds(1);
  if (round_.has_clock() && (is_short || !posix::Reactor::is_about_now(round_.time())))
    round_.begin(carrier_->clock());
  if (slot.results_refused || !slot.writer.ok() || slot.is_whole || finishes_messages_)
      [[unlikely]] {
    auto error = prepared_.check(slot);
    if (!error && finishes_messages_) error = policy_.finish_message(slot);
    if (error) {
      free(index);
      return error;
    }
  }
  auto error = keeps_calls_ ? send_or_wait(slot) : send(slot);
  if (error) [[unlikely]] {
    free(index);
    return error;
  }
  slot.blocking = blocking;
  slot.callback = std::move(callback);
  return std::nullopt;
}

std::optional<Error> CallFlow::send_or_wait(CallSlot& slot) {
  slot.deadline = now() + slot.timeout;
  slot.lost_alone = 0;
  slot.link = 0;
  if (policy_.may_send()) return send(slot);
  if (ended()) return lost_error();
  waiting_.add(slot);
  return std::nullopt;
}

// Seals the message first, which may go on elsewhere.
std::optional<Error> CallFlow::send(CallSlot& slot) {
  if (steps_.has_steps() && !slot.is_whole) [[unlikely]]
    return seal(slot);
  steps_.seal_plain(slot.step);
  probes::client_call_sent(this, static_cast<std::uint32_t>(slot.xid));
  return carrier_->send(slot);
}

std::optional<Error> CallFlow::seal(CallSlot& slot) {
  if (carrier_->has_ended()) return lost_error();
  if (const auto xid = std::exchange(slot.step.call_xid, std::nullopt)) {
    calls_.set_xid(slot, prepared_.free_xid(*xid));
  }
  const StepEnd end = steps_.seal(slot.step, slot.procedure, slot.xid, slot.writer,
                                  slot.arguments(), carrier_->peer());
  slot.link = history_.number();
  if (!keeps_calls_ || calls_.is_own(calls_.index_of(slot))) slot.deadline = now() + slot.timeout;
  if (end == StepEnd::kDone) return send_sealed(slot);
  slot.state = State::kSealing;
  next_cancel_ = earlier(next_cancel_, slot.deadline);
  return std::nullopt;
}

// Returns what went wrong while it was sealed, if anything did, or with its sending.
std::optional<Error> CallFlow::send_sealed(CallSlot& slot) {
  if (slot.step.seal.failure) return std::exchange(slot.step.seal.failure, std::nullopt);
  if (slot.step.seal.is_control) {
    slot.step.call_xid = slot.xid;
    calls_.set_xid(slot, prepared_.draw_xid());
  }
  probes::client_call_sent(this, static_cast<std::uint32_t>(slot.xid));
  return carrier_->send(slot);
}

bool CallFlow::send_own(std::chrono::nanoseconds timeout, ReplyCallback&& callback) {
  CallSlot& slot = calls_[calls_.own()];
  slot.timeout = limited(timeout);
  if (send(slot)) {
    free(calls_.own());
    return false;
  }
  slot.blocking = false;
  slot.callback = std::move(callback);
  return true;
}

// --- Its end -----------------------------------------------------------------------------------

inline void CallFlow::complete(std::uint32_t index) {
  CallSlot& slot = calls_[index];
  slot.state = State::kEnded;
  probes::client_call_ended(this, static_cast<std::uint32_t>(slot.xid), 1);
  if (slot.blocking) return;
  ReplyCallback callback = std::move(slot.callback);
  callback(client_.make_reply(index));
}

void CallFlow::handle_reply(std::uint32_t index, std::optional<Error>&& error) {
  probes::client_call_reply(this, static_cast<std::uint32_t>(calls_[index].xid));
  if (steps_.has_steps() && !calls_[index].is_whole) [[unlikely]]
    return open_reply(index, std::move(error));
  if (error) return fail(index, std::move(*error));
  // The connection's own first call says nothing about the application's calls.
  if (!calls_.is_own(index)) history_.note_answer();
  complete(index);
}

// The call's authenticator sees the reply first, also if the server denies the call.
void CallFlow::open_reply(std::uint32_t index, std::optional<Error>&& error) {
  CallSlot& slot = calls_[index];
  if (!calls_.is_own(index) && !error) history_.note_answer();
  slot.state = State::kOpening;
  slot.step.seal.failure = std::move(error);
  const StepEnd end =
      slot.step.seal.failure ? steps_.refuse(slot.step) : steps_.open(slot.step, slot.reader);
  if (end == StepEnd::kDone) handle_opened(index);
}

void CallFlow::handle_opened(std::uint32_t index) {
  CallSlot& slot = calls_[index];
  if (CallSteps::is_again(slot.step)) {
    carrier_->free(slot, true);
    return go_on(slot, false);
  }
  if (slot.step.seal.failure) {
    return fail(index, *std::exchange(slot.step.seal.failure, std::nullopt));
  }
  steps_.finish_open(slot.step, slot.reader, slot.places());
  complete(index);
}

void CallFlow::fail(std::uint32_t index, Error error, bool is_answer) {
  CallSlot& slot = calls_[index];
  if (is_answer && !calls_.is_own(index)) history_.note_answer();
  carrier_->take_back(slot);
  probes::client_call_ended(this, static_cast<std::uint32_t>(slot.xid), 0);
  if (slot.blocking) {
    slot.error = std::move(error);
    slot.state = State::kFailed;
    return;
  }
  ReplyCallback callback = std::move(slot.callback);
  free(index);
  callback(Unexpected<Error>(std::move(error)));
}

void CallFlow::lose(std::uint32_t index) {
  CallSlot& slot = calls_[index];
  const bool is_own = calls_.is_own(index);
  if (!is_own && !slot.is_whole && keeps_calls_ && policy_.waits_for_next()) {
    slot.link = history_.number();
    return waiting_.add(slot);
  }
  if (!is_own && slot.is_whole) history_.note_lost_message();
  fail(index, lost_error());
}

std::optional<Error> CallFlow::refusal() const {
  if (carrier_->is_up() || (keeps_calls_ && history_.goes_on() && !ended())) return std::nullopt;
  Error error = lost_error();
  if (const auto failure = policy_.last_failure(); !failure.empty()) error.cause = failure;
  return error;
}

void CallFlow::free(std::uint32_t index) {
  CallSlot& slot = calls_[index];
  carrier_->free(slot, false);
  steps_.forget(slot.step);
  prepared_.note_free(slot);
  if (slot.callback) slot.callback = {};
  slot.error.reset();
  calls_.free(index);
}

// --- Steps of authentication that end elsewhere ------------------------------------------------

void CallFlow::take_steps() {
  if (steps_.under_way() == 0) [[likely]]
    return;
  if (closing_) {
    cancel_sealing();
  } else if (next_cancel_ && *next_cancel_ <= round_.time()) {
    next_cancel_ = calls_.cancel_sealing(round_.time(),
                                         [this](CallSlot& slot) { steps_.cancel_soon(slot.step); });
  }
  steps_.take_all([this](std::uint32_t index) {
    CallSlot& slot = calls_[index];
    // A connection's first call means nothing to the next connection.
    if (calls_.is_own(index) && slot.link != history_.number()) return free(index);
    if (slot.state == State::kOpening) return handle_opened(index);
    // The connection of a seal that was cancelled was lost, or its time is over. The next
    // connection may be there already, and takes nothing half sealed.
    const bool has_time = slot.deadline > round_.time();
    if (slot.step.is_cancelled() && has_time && !closing_ && !slot.step.seal.failure) {
      return fail(index, lost_error());
    }
    go_on(slot, true);
  });
}

void CallFlow::cancel_sealing() {
  if (steps_.under_way() == 0) return;
  (void)calls_.cancel_sealing(Instant::max(),
                              [this](CallSlot& slot) { steps_.cancel_soon(slot.step); });
  next_cancel_.reset();
}

Deadline CallFlow::next_deadline() const noexcept {
  const auto cancel = steps_.under_way() > 0 ? next_cancel_ : std::nullopt;
  return earlier(cancel, calls_.deadline());
}

// Time has passed, and the connection may be another one or none: what was sealed is good for one
// transmission, but for any connection.
void CallFlow::go_on(CallSlot& slot, bool is_sealed) {
  const bool is_own = calls_.is_own(calls_.index_of(slot));
  const bool has_failed = slot.step.seal.failure.has_value();
  slot.timeout = std::max(slot.deadline - round_.time(), std::chrono::nanoseconds{0});
  std::optional<Error> error;
  if (!has_failed && closing_) {
    error = lost_error();  // nothing goes out, of a step that was cancelled least of all
  } else if (!has_failed && slot.timeout.count() == 0) {
    error = carrier_->explain(engine::CallError::kTimedOut);
  } else if (!has_failed && keeps_calls_ && !is_own && !policy_.may_send() &&
             policy_.waits_for_next()) {
    return waiting_.add(slot);
  } else if (!has_failed && carrier_->has_ended()) {
    error = lost_error();
  } else {
    error = is_sealed ? send_sealed(slot) : seal(slot);
  }
  if (error) fail(calls_.index_of(slot), std::move(*error));
}

}  // namespace rpcrdma::rpc
