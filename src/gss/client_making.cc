// Makes a client's security contexts (RFC 2203 §5.2).
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "gss/client_auth.h"
#include "gss/client_state.h"
#include "gss/message.h"
#include "rpcrdma/error.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::gss {
namespace {

using std::chrono::seconds;

// The time before its end at which a context is replaced; a tenth of its lifetime if that is less.
constexpr seconds kRenewBefore{60};
constexpr seconds kRetryAfter{10};  // of a renewal that has failed
// A server refuses a token that is five minutes behind its clock, and clocks differ.
constexpr seconds kTokenAgeMax{60};

void encode_token(Bytes token, std::vector<std::byte>& into) {
  into.resize(xdr::kWordSize + xdr::padded_memory(token.size()));
  xdr::Writer writer(into);
  writer.opaque(token);
}

std::string refusal(std::uint32_t major, std::uint32_t minor) {
  return fmt::format(
      "the server refuses it (GSS status {:#x}, minor {:#x}): its log says why. It may have no key "
      "for this name in its keytab, its clock may differ by more than five minutes, or too many of "
      "this host's requests for a context wait there",
      major, minor);
}

}  // namespace

// Precondition: no context is in use, or the one in use expires soon.
StepEnd ClientGss::begin_making(State& state) {
  making_ = std::make_unique<Making>(Making{.carrier = &state, .is_renewal = used_ != nullptr});
  if (making_->is_renewal) {
    making_->context = std::move(in_advance_->context);
    making_->token = std::move(in_advance_->token);
    making_->is_established = in_advance_->is_established;
    in_advance_.reset();
    return send_token(state);
  }
  executor_.submit([this, &state] {
    CallSeal& call = *state.call;
    Making& making = *making_;
    auto context = mechanism_.initiate(settings_.target);
    Status status = context ? Status{} : std::move(context.error());
    if (context) {
      making.context = std::move(*context);
      status = making.context->step({}, making.token);
      making.is_established = status.major == Status::kComplete;
    }
    if (status.is_error()) {
      making.failure = Error{Errc::kSecurity, "making a security context for " + settings_.target,
                             std::string(call.peer), std::move(status.text)};
      call.failure = making.failure;
    } else {
      (void)send_token(state);
    }
    state.step->finish();
  });
  return StepEnd::kPending;
}

// The call is sealed again, because the server has answered or the connection was lost.
StepEnd ClientGss::go_on_making(State& state) {
  if (making_->is_complete) {
    install();
  } else if (!making_->awaits_reply && !making_->failure) {
    return send_token(state);
  } else {
    making_->failure.reset();  // of a renewal: the other calls have a context
    end_making();
  }
  return seal_or_wait(state);
}

// Runs on any thread.
StepEnd ClientGss::send_token(State& state) {
  CallSeal& call = *state.call;
  Making& making = *making_;
  const bool is_first = making.handle.empty();
  state.credential.resize(kAuthBodySizeMax);
  state.credential.resize(encode_credential(
      {.control = static_cast<std::uint32_t>(is_first ? Control::kInit : Control::kContinueInit),
       .sequence = 0,
       .service = static_cast<std::uint32_t>(settings_.service),
       .handle = making.handle},
      state.credential));
  encode_token(making.token, state.body.bytes);
  call.credential = {AuthFlavor::kRpcsecGss, state.credential};
  call.verifier = {};
  call.is_control = true;
  call.wrapped = state.body.bytes;
  making.awaits_reply = true;
  return StepEnd::kDone;
}

// Runs on the executor, when the server has answered a token.
void ClientGss::take_answer(State& state) {
  CallSeal& call = *state.call;
  Making& making = *making_;
  making.awaits_reply = false;
  const auto fail = [&](std::string cause) {
    making.failure = Error{Errc::kSecurity, "making a security context for " + settings_.target,
                           std::string(call.peer), std::move(cause)};
    // The call goes on with the context in use: seal() ends the making.
    making.is_renewal ? void(call.again = true) : void(call.failure = making.failure);
  };
  const auto answer = decode_init_results(call.results);
  if (!answer) return fail("the server's answer is none of RPCSEC_GSS (RFC 2203 section 5.2.3.1)");
  if (answer->major != Status::kComplete && answer->major != Status::kContinueNeeded) {
    return fail(refusal(answer->major, answer->minor));
  }
  if (answer->handle.empty()) return fail("the server gave no handle of the context");
  making.handle.assign(answer->handle.begin(), answer->handle.end());
  making.window = answer->window;
  making.token.clear();
  const bool is_complete = answer->major == Status::kComplete;
  if (!answer->token.empty() || !is_complete) {
    const Status status = making.context->step(answer->token, making.token);
    if (status.is_error()) return fail(status.text);
    making.is_established = status.major == Status::kComplete;
  }
  call.again = true;
  if (!is_complete) return;
  std::array<std::byte, xdr::kWordSize> window{};
  xdr::store_word(window.data(), making.window);
  const Bytes piece(window);
  if (!making.is_established || call.reply_verifier.flavor != AuthFlavor::kRpcsecGss ||
      !making.context->is_checksum_of({&piece, 1}, call.reply_verifier.body)) {
    call.again = false;
    return fail("the server's answer does not prove who it is; somebody else may have made it");
  }
  making.lifetime = making.context->lifetime();
  making.is_complete = true;
}

void ClientGss::install() {
  if (used_ != nullptr) drop_used();
  Used& made = contexts_.emplace_back(std::move(making_->context), making_->window,
                                      settings_.first_sequence);
  made.handle = std::move(making_->handle);
  const Procedure& procedure = making_->carrier->call->procedure;
  made.made_for = {procedure.program, procedure.version, 0};
  if (making_->lifetime) {
    const Instant now = now_();
    made.expires_at = now + *making_->lifetime;
    made.renew_at = *made.expires_at - std::min(std::chrono::nanoseconds(kRenewBefore),
                                                std::chrono::nanoseconds(*making_->lifetime) / 10);
  }
  used_ = &made;
  making_.reset();
}

// Ends the making without a context. A fault of the mechanism or of the server fails all calls that
// wait; other faults concern the carrier alone.
void ClientGss::end_making() {
  const std::unique_ptr<Making> making = std::move(making_);
  if (used_ != nullptr) {
    used_->renew_at = now_() + kRetryAfter;
    return;
  }
  if (!making->failure) return;
  for (State* const each : std::exchange(waiting_, {})) {
    each->call->failure = making->failure;
    each->step->finish();
  }
}

// --- The next one, while calls go on -----------------------------------------------------------

// Returns whether a renewal is due and its first token is ready. Begins to get that token, which
// may take long.
bool ClientGss::is_renewal_due() {
  if (!used_->renew_at || now_() < *used_->renew_at) return false;
  if (in_advance_ && in_advance_->born.elsewhere()) drop_in_advance();
  if (!in_advance_) {
    prepare_renewal();
    return false;
  }
  if (!is_done(*in_advance_)) return false;
  if (in_advance_->context && now_() - in_advance_->begun > kTokenAgeMax) {
    in_advance_.reset();
    prepare_renewal();
    return false;
  }
  if (in_advance_->context) return true;
  in_advance_.reset();
  used_->renew_at = now_() + kRetryAfter;
  return false;
}

bool ClientGss::is_done(InAdvance& advance) {
  const std::lock_guard lock(advance.mutex);
  return advance.is_done;
}

// Without effect while it is being made. A token that a thread of the parent was making when this
// process was forked is never done, and that thread may have held its mutex: it is left where leak
// checkers find it.
void ClientGss::drop_in_advance() {
  static std::atomic<InAdvance*> abandoned{nullptr};
  if (!in_advance_) return;
  if (!in_advance_->born.elsewhere()) {
    if (is_done(*in_advance_)) in_advance_.reset();
    return;
  }
  InAdvance* const left = in_advance_.release();
  left->before = abandoned.load();
  while (!abandoned.compare_exchange_weak(left->before, left)) {
  }
}

void ClientGss::prepare_renewal() {
  in_advance_ = std::make_unique<InAdvance>();
  in_advance_->begun = now_();
  executor_.submit([this, &advance = *in_advance_] {
    auto context = mechanism_.initiate(settings_.target);
    std::vector<std::byte> token;
    const Status status = context ? (*context)->step({}, token) : context.error();
    const std::lock_guard lock(advance.mutex);
    if (context && !status.is_error()) advance.context = std::move(*context);
    advance.is_established = status.major == Status::kComplete;
    advance.token = std::move(token);
    advance.is_done = true;
    advance.changed.notify_all();
  });
}

}  // namespace rpcrdma::gss
