#include "gss/client_auth.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.h"
#include "gss/client_state.h"
#include "gss/locked_step.h"
#include "gss/message.h"
#include "gss/wrapping.h"
#include "oncrpc/message.h"
#include "rpcrdma/error.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::gss {
namespace {

// A denial has no verifier: whoever forges them makes a call go this often and no further.
constexpr std::uint32_t kRenewalsMax = 2;
// The bytes that integrity and privacy add to results: lengths, the number, and 100 for the
// mechanism's own additions (krb5: at most 72).
constexpr std::uint32_t kGrowthMax = 128;

Error insecure(const CallSeal& call, std::string operation, std::string cause) {
  return {Errc::kSecurity, std::move(operation), std::string(call.peer), std::move(cause)};
}

// The checksum of a number, which is the verifier of a reply (RFC 2203 §5.3.3.2).
bool is_verifier_of(Context& context, std::uint32_t number, const Credential& verifier) {
  std::array<std::byte, xdr::kWordSize> word{};
  xdr::store_word(word.data(), number);
  const Bytes piece(word);
  return verifier.flavor == AuthFlavor::kRpcsecGss &&
         context.is_checksum_of({&piece, 1}, verifier.body);
}

// Linux 6.1 writes the accept_stat of calls with integrity and privacy behind SUCCESS and a word of
// zero (docs/interop.md). It is worth no less than one that stands where it should: no verifier
// covers that either.
std::optional<Errc> misplaced_error(Bytes results) noexcept {
  if (results.size() < 2 * xdr::kWordSize || xdr::load_word(results.data()) != 0) {
    return std::nullopt;
  }
  switch (AcceptStatus{xdr::load_word(results.data() + xdr::kWordSize)}) {
    case AcceptStatus::kProgUnavail:
    case AcceptStatus::kProgMismatch:
    case AcceptStatus::kProcUnavail:
      return Errc::kNotAvailable;
    case AcceptStatus::kGarbageArgs:
      return Errc::kBadArguments;
    case AcceptStatus::kSystemErr:
      return Errc::kServerFault;
    case AcceptStatus::kSuccess:
      break;
  }
  return std::nullopt;
}

// Returns whether another context may help against this denial.
bool is_of_context(AuthStatus denied) noexcept {
  return denied == AuthStatus::kGssCredentialProblem || denied == AuthStatus::kGssContextProblem ||
         denied == AuthStatus::kRejectedCredential || denied == AuthStatus::kRejectedVerifier;
}

std::string_view advice(AuthStatus denied) noexcept {
  if (denied == AuthStatus::kTooWeak) {
    return "; the server wants more protection than this flavor of Kerberos gives";
  }
  return is_of_context(denied) ? "; also with security contexts that were made anew" : "";
}

}  // namespace

ClientGss::ClientGss(Mechanism& mechanism, Executor& executor, Settings settings,
                     std::function<Instant()> now)
    : mechanism_(mechanism),
      executor_(executor),
      settings_(std::move(settings)),
      now_(std::move(now)) {}

ClientGss::~ClientGss() {
  drop_in_advance();
  if (!in_advance_) return;
  std::unique_lock lock(in_advance_->mutex);
  in_advance_->changed.wait(lock, [this] { return in_advance_->is_done; });
}

ClientGss::State& ClientGss::state_of(CallSeal& call) noexcept {
  return *static_cast<State*>(call.state);
}

std::optional<std::uint32_t> ClientGss::wrap_growth() const noexcept {
  if (settings_.service == Service::kNone) return std::nullopt;
  return kGrowthMax;
}

// --- A call ------------------------------------------------------------------------------------

StepEnd ClientGss::seal(CallSeal& call, AuthStep& step) {
  if (call.state == nullptr) call.state = std::make_unique<State>().release();
  State& state = state_of(call);
  state.call = &call;
  state.step = &step;
  end_number(state);
  if (call.is_last && used_ == nullptr) {
    call.failure = insecure(call, "ending the security context", "there is none any more");
    return StepEnd::kDone;
  }
  const StepEnd end =
      making_ && making_->carrier == &state ? go_on_making(state) : seal_or_wait(state);
  serve_waiting();
  return end;
}

StepEnd ClientGss::seal_or_wait(State& state) {
  drop_used_if_over();
  if (used_ == nullptr) {
    if (!making_) return begin_making(state);
  } else {
    if (!making_ && is_renewal_due()) return begin_making(state);
    if (waiting_.empty() && used_->numbers.may_take()) return seal_call(state);
  }
  waiting_.push_back(&state);
  return StepEnd::kPending;
}

// Serves the calls that seal() made wait, the oldest first.
void ClientGss::serve_waiting() {
  while (!waiting_.empty()) {
    drop_used_if_over();
    if (used_ == nullptr ? making_ != nullptr : !used_->numbers.may_take()) return;
    State& state = *waiting_.front();
    waiting_.pop_front();
    const StepEnd end = used_ == nullptr ? begin_making(state) : seal_call(state);
    if (end == StepEnd::kDone) state.step->finish();
  }
}

// Precondition: the context in use has a number left.
StepEnd ClientGss::seal_call(State& state) {
  CallSeal& call = *state.call;
  Used& context = *used_;
  release(std::exchange(state.context, &context));
  ++context.calls;
  constexpr std::size_t kShort = 1024;  // bytes: an inline threshold is no less
  state.number = context.numbers.take(call.arguments_size >= kShort / 2);
  state.is_counted = true;
  const CredentialBody body{
      .control = static_cast<std::uint32_t>(call.is_last ? Control::kDestroy : Control::kData),
      .sequence = state.number,
      .service = static_cast<std::uint32_t>(settings_.service),
      .handle = context.handle};
  state.credential.resize(kAuthBodySizeMax);
  state.credential.resize(encode_credential(body, state.credential));
  if (call.is_last) used_ = nullptr;
  return run_locked(queue_, context, size_of(call.arguments), *state.step,
                    [this, &state] { protect(state); });
}

// The header, and the arguments where that was asked for. On any thread.
void ClientGss::protect(State& state) {
  CallSeal& call = *state.call;
  Context& context = *state.context->context;
  call.credential = {AuthFlavor::kRpcsecGss, state.credential};
  // The checksum covers the bytes from the XID to the end of the credential (RFC 2203 §5.3.1).
  std::array<std::byte, oncrpc::kCallHeaderSizeMin + kAuthBodySizeMax> header{};
  const oncrpc::CallHeader said{Xid{call.xid}, call.procedure, call.credential, {}};
  xdr::Writer writer(header);
  oncrpc::encode_call(said, writer);
  constexpr std::size_t kNoVerifier = 2 * xdr::kWordSize;
  const Bytes covered = Bytes(header).first(oncrpc::call_header_size(said) - kNoVerifier);
  const Status status = context.checksum({&covered, 1}, state.checksum);
  if (status.is_error()) {
    call.failure = insecure(call, "sealing the call", status.text);
    return;
  }
  call.verifier = {AuthFlavor::kRpcsecGss, state.checksum};
  if (settings_.service == Service::kNone || call.is_last) return;
  if (!gss::wrap(context, settings_.service, state.number, call.arguments, state.body, call.wrapped,
                 call.enclosure)) {
    call.failure = insecure(call, "sealing the call", "the security mechanism has failed");
  }
}

// A call waits for a context, or for a number, until other calls have ended, which may have more
// time than it has.
void ClientGss::cancel_soon(CallSeal& call) noexcept {
  State& state = state_of(call);
  if (std::erase(waiting_, &state) > 0) state.step->finish();
}

StepEnd ClientGss::open(CallSeal& call, AuthStep& step) {
  State& state = state_of(call);
  if (call.is_control) {
    executor_.submit([this, &state, &step] {
      take_answer(state);
      step.finish();
    });
    return StepEnd::kPending;
  }
  end_number(state);
  serve_waiting();
  const std::size_t bytes = settings_.service == Service::kNone ? 0 : call.results.size();
  return run_locked(queue_, *state.context, bytes, step, [this, &state] { check_reply(state); });
}

// Runs on any thread.
void ClientGss::check_reply(State& state) {
  CallSeal& call = *state.call;
  Context& context = *state.context->context;
  if (!is_verifier_of(context, state.number, call.reply_verifier)) {
    call.failure =
        insecure(call, "checking the reply",
                 "its verifier is not that of the server; somebody else may have made it");
    return;
  }
  if (settings_.service == Service::kNone || call.is_last) return;
  // A misplaced error is looked for first, since deciphering changes the results.
  const auto misplaced = misplaced_error(call.results);
  const auto results = gss::unwrap(context, settings_.service, state.number, call.results);
  if (!results) {
    if (misplaced) {
      call.failure = Error{*misplaced, "the call", std::string(call.peer),
                           "the server reports an error in place of protected results"};
      return;
    }
    call.failure = insecure(call, "checking the reply",
                            "its results were changed on their way, or the server did not "
                            "protect them");
    return;
  }
  call.results = *results;
}

StepEnd ClientGss::refused(CallSeal& call, AuthStep& step) {
  State& state = state_of(call);
  if (call.denied && call.failure) call.failure->cause += advice(*call.denied);
  if (call.is_control) {
    // A server that was started again, or that this client has reached by another connection, does
    // not know what was begun.
    const bool is_lost =
        call.denied == AuthStatus::kGssCredentialProblem && !making_->handle.empty();
    if (making_->is_renewal || (is_lost && state.renewals < kRenewalsMax)) {
      ++state.renewals;
      end_making();
      call.again = true;
    } else if (call.denied && !is_lost) {
      making_->failure = call.failure;  // of all that wait; else one of them makes the next one
    }
    return StepEnd::kDone;
  }
  end_number(state);
  if (call.is_last) return StepEnd::kDone;
  if (!call.denied) {
    return run_locked(queue_, *state.context, 0, step, [this, &state] { check_refusal(state); });
  }
  if (is_of_context(*call.denied)) {
    if (used_ == state.context) drop_used();
    call.again = state.renewals++ < kRenewalsMax;
  } else if (*call.denied == AuthStatus::kBadCredential ||
             *call.denied == AuthStatus::kBadVerifier) {
    call.again = !std::exchange(state.was_repeated, true);
  }
  serve_waiting();
  return StepEnd::kDone;
}

// An error that the server has accepted the call with. One of the arguments may be of what happened
// to them on their way, and the call was not executed. On any thread.
void ClientGss::check_refusal(State& state) {
  CallSeal& call = *state.call;
  if (!is_verifier_of(*state.context->context, state.number, call.reply_verifier)) {
    call.failure = insecure(call, "checking the reply",
                            "it reports an error, and its verifier is not that of the server");
    return;
  }
  if (call.failure->code == Errc::kBadArguments && settings_.service != Service::kNone) {
    call.again = !std::exchange(state.was_repeated, true);
  }
}

void ClientGss::forget(CallSeal& call) noexcept {
  const std::unique_ptr<State> state(&state_of(call));
  end_number(*state);
  if (making_ && making_->carrier == state.get()) end_making();
  release(state->context);
  serve_waiting();
}

void ClientGss::end_number(State& state) noexcept {
  if (std::exchange(state.is_counted, false)) state.context->numbers.ended(state.number);
}

std::optional<Procedure> ClientGss::logout_procedure() const noexcept {
  if (used_ == nullptr || used_->numbers.used_up()) return std::nullopt;
  return used_->made_for;
}

// --- The context in use ------------------------------------------------------------------------

void ClientGss::drop_used_if_over() {
  if (used_ == nullptr) return;
  const bool is_over = used_->expires_at && now_() >= *used_->expires_at;
  if (is_over || used_->numbers.used_up()) drop_used();
}

void ClientGss::drop_used() {
  Used* const used = std::exchange(used_, nullptr);
  if (used->calls == 0)
    std::erase_if(contexts_, [used](const Used& each) { return &each == used; });
}

void ClientGss::release(Used* used) noexcept {
  if (used == nullptr || --used->calls > 0 || used == used_) return;
  std::erase_if(contexts_, [used](const Used& each) { return &each == used; });
}

}  // namespace rpcrdma::gss
