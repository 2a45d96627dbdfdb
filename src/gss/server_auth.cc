#include "gss/server_auth.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "base/peer_host.h"
#include "gss/locked_step.h"
#include "gss/message.h"
#include "gss/wrapping.h"
#include "posix/users.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::gss {
namespace {

constexpr std::uint32_t kTokenSizeMax = 64U << 10U;  // bytes; tickets with much about their user

// States of calls that have ended are kept for those that come: a private reply is as long as its
// results, and nobody bounds how many calls there were at a time.
constexpr std::size_t kStatesKept = 256;
constexpr std::size_t kBodyKept = 16U << 10U;  // bytes

constexpr std::size_t kTokensAtATime = 2;

constexpr std::string_view kTooManyTokens =
    "too many tokens of its host wait for their turn; it makes contexts faster than this server "
    "takes them";
constexpr std::string_view kReplayed =
    "it sent a sequence number of RPCSEC_GSS again, or one that is too old";
constexpr std::string_view kNoSeal = "the security mechanism cannot seal a reply";

bool is_control(Control control) noexcept {
  return control == Control::kInit || control == Control::kContinueInit;
}

Protection protection_of(Service service) noexcept {
  switch (service) {
    case Service::kNone:
      return Protection::kKrb5;
    case Service::kIntegrity:
      return Protection::kKrb5i;
    case Service::kPrivacy:
      return Protection::kKrb5p;
  }
  return Protection::kNone;
}

// May wait.
std::optional<LocalUser> find_user(const std::string& name) {
  auto user = posix::find_user(name);
  if (!user) return std::nullopt;
  return LocalUser{name, user->uid, user->gid, std::move(user->gids)};
}

}  // namespace

// Kept with its memory for the next call.
struct ServerGss::State {
  Control control = Control::kData;
  Service service = Service::kNone;
  std::uint32_t sequence = 0;
  ContextTable::Use context;
  HostQueue queue;  // of the steps that use the context
  // The mechanism's result for kInit and kContinueInit.
  Status status;
  std::vector<std::byte> token;

  std::vector<std::byte> checksum;
  WrapRoom body;

  void clear() noexcept {
    context = {};
    status = {};
    token.clear();
    checksum.clear();
    if (body.bytes.capacity() > kBodyKept) std::vector<std::byte>().swap(body.bytes);
  }
};

ServerGss::ServerGss(Mechanism& mechanism, Executor& executor, const ContextTable::Limits& limits,
                     std::function<std::uint64_t()> draw_handle, std::function<Instant()> now,
                     Report report, const Pace& pace)
    : mechanism_(mechanism),
      report_(std::move(report)),
      window_(limits.window),
      contexts_(limits, std::move(draw_handle), std::move(now)),
      tokens_(executor, kTokensAtATime, pace.tokens_per_host),
      bodies_(executor, pace.bodies) {}

ServerGss::ServerGss(Mechanism& mechanism, Executor& executor, const ContextTable::Limits& limits,
                     std::function<std::uint64_t()> draw_handle, std::function<Instant()> now,
                     Report report)
    : ServerGss(mechanism, executor, limits, std::move(draw_handle), std::move(now),
                std::move(report), Pace{}) {}

ServerGss::~ServerGss() = default;

ServerGss::State& ServerGss::state_of(CallAcceptance& call) noexcept {
  return *static_cast<State*>(call.state);
}

std::unique_ptr<ServerGss::State> ServerGss::take_state() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      auto state = std::move(free_.back());
      free_.pop_back();
      return state;
    }
  }
  return std::make_unique<State>();
}

void ServerGss::forget(CallAcceptance& call) noexcept {
  std::unique_ptr<State> state(&state_of(call));
  state->clear();
  const std::lock_guard lock(mutex_);
  if (free_.size() < kStatesKept) free_.push_back(std::move(state));
}

std::size_t ServerGss::bytes_kept() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& each : free_) bytes += each->body.bytes.capacity();
  return bytes;
}

StepEnd ServerGss::with_context(CallAcceptance& call, AuthStep& step, std::size_t bytes, Step run) {
  State& state = state_of(call);
  return run_locked(state.queue, *state.context, bytes, step,
                    [this, &call, &state, run] { (this->*run)(call, state); });
}

// --- The header --------------------------------------------------------------------------------

StepEnd ServerGss::accept(CallAcceptance& call, AuthStep& step) {
  call.state = take_state().release();
  State& state = state_of(call);
  state.queue.set(bodies_, call.peer);
  const auto deny = [&call](AuthStatus why) {
    call.status = why;
    return StepEnd::kDone;
  };
  const auto credential = decode_credential(call.credential.body);
  if (!credential || credential->version != kVersion) return deny(AuthStatus::kBadCredential);
  if (credential->control > static_cast<std::uint32_t>(Control::kDestroy)) {
    return deny(AuthStatus::kBadCredential);
  }
  state.control = Control{credential->control};
  // Control messages are calls of NULL (RFC 2203 §5.2).
  if (state.control != Control::kData && call.procedure.number != 0) {
    return deny(AuthStatus::kBadCredential);
  }
  if (is_control(state.control)) return deny(judge_control(call, state, credential->handle));
  if (credential->service < static_cast<std::uint32_t>(Service::kNone) ||
      credential->service > static_cast<std::uint32_t>(Service::kPrivacy)) {
    return deny(AuthStatus::kBadCredential);
  }
  state.service = Service{credential->service};
  state.sequence = credential->sequence;
  state.context = contexts_.find(credential->handle);
  if (!state.context) return deny(AuthStatus::kGssCredentialProblem);
  if (state.sequence > kSequenceMax) return deny(AuthStatus::kGssContextProblem);
  if (call.verifier.flavor != AuthFlavor::kRpcsecGss || call.verifier.body.empty()) {
    return deny(AuthStatus::kBadVerifier);
  }
  return with_context(call, step, call.header.size(), &ServerGss::judge_header);
}

// Sequence number and service of these mean nothing.
AuthStatus ServerGss::judge_control(CallAcceptance& call, State& state, Bytes handle) {
  if (call.verifier.flavor != AuthFlavor::kNone || !call.verifier.body.empty()) {
    return AuthStatus::kBadVerifier;
  }
  if (state.control == Control::kInit) {
    if (!handle.empty()) return AuthStatus::kBadCredential;
  } else {
    state.context = contexts_.find_begun(handle, call.peer);
    if (!state.context) return AuthStatus::kGssCredentialProblem;
  }
  // Its token is in the place of wrapped arguments, and its answer in that of wrapped results.
  call.is_wrapped = true;
  return AuthStatus::kOk;
}

void ServerGss::judge_header(CallAcceptance& call, State& state) {
  ServerContext& context = *state.context;
  if (!context.context->is_checksum_of({&call.header, 1}, call.verifier.body)) {
    call.status = AuthStatus::kGssCredentialProblem;
    return;
  }
  // Comes after the checksum: a forged number would move the window.
  if (!context.window.take(state.sequence)) {
    call.ends_connection = kReplayed;
    return;
  }
  call.is_wrapped = state.control == Control::kData && state.service != Service::kNone;
  call.identity = std::as_bytes(std::span(context.context->principal()));
  call.caller = Caller{.protection = protection_of(state.service),
                       .principal = context.context->principal(),
                       .user = context.user ? &*context.user : nullptr};
}

// --- Arguments ---------------------------------------------------------------------------------

StepEnd ServerGss::unwrap(CallAcceptance& call, AuthStep& step) {
  State& state = state_of(call);
  if (!is_control(state.control)) {
    return with_context(call, step, call.arguments->size(), &ServerGss::unwrap_arguments);
  }
  const bool is_taken = tokens_.submit(host_of_peer(call.peer), [this, &call, &state, &step] {
    take_token(call, state);
    tokens_.end();
    step.finish();
  });
  if (is_taken) return StepEnd::kPending;
  call.arguments = MutableBytes{};
  // Without this token the context stays incomplete.
  if (state.context) contexts_.remove_begun(state.context);
  state.status = {Status::kFailure, 0, std::string(kTooManyTokens)};
  if (report_) report_(state.status.text);
  return StepEnd::kDone;
}

void ServerGss::take_token(CallAcceptance& call, State& state) {
  xdr::Reader reader(*call.arguments);
  const Bytes token = reader.opaque(kTokenSizeMax, "gss_token");
  const auto decoded = reader.finish_all(token.size());
  call.arguments.reset();
  if (!decoded) return;
  call.arguments = MutableBytes{};
  if (state.control == Control::kInit) {
    auto made = mechanism_.accept();
    if (!made) {
      state.status = made.error();
      if (report_) report_(state.status.text);
      return;
    }
    state.context = contexts_.add(std::move(*made), call.peer);
  }
  const std::lock_guard lock(state.context->mutex);
  if (state.context->is_complete) {
    // Another token has completed it since its handle was looked up. This one neither goes on with
    // it nor ends it.
    state.status = {Status::kNoContext, 0, "the context is complete, and takes no more tokens"};
    return;
  }
  state.status = state.context->context->step(token, state.token);
  if (state.status.major == Status::kComplete) state.status = prove(state);
  if (state.status.is_error()) {
    if (report_) report_(state.status.text);
    contexts_.remove(state.context);
    state.token.clear();
    state.checksum.clear();
  } else if (state.status.major == Status::kComplete) {
    state.context->is_complete = true;
    state.context->user = find_user(state.context->context->local_user());
    contexts_.set_complete(state.context);
  }
}

// The checksum of the window, by which the client knows the server (RFC 2203 §5.2.3.1).
Status ServerGss::prove(State& state) {
  std::array<std::byte, xdr::kWordSize> window{};
  xdr::store_word(window.data(), window_);
  const Bytes piece(window);
  return state.context->context->checksum({&piece, 1}, state.checksum);
}

void ServerGss::unwrap_arguments(CallAcceptance& call, State& state) {
  call.arguments =
      gss::unwrap(*state.context->context, state.service, state.sequence, *call.arguments);
}

// --- The reply ---------------------------------------------------------------------------------

StepEnd ServerGss::seal(CallAcceptance& call, AuthStep& step) {
  State& state = state_of(call);
  if (is_control(state.control)) {
    seal_control(call, state);
    return StepEnd::kDone;
  }
  const std::size_t bytes = call.is_wrapped ? size_of(call.results) : 0;
  return with_context(call, step, bytes, &ServerGss::seal_reply);
}

// Does not wait for the context, whose next token the executor may be taking: what there is to say
// of this one was made with it.
void ServerGss::seal_control(CallAcceptance& call, State& state) {
  std::array<std::byte, ContextTable::kHandleSize> handle{};
  InitResults results;
  results.major = state.status.major;
  results.minor = state.status.minor;
  const bool is_proved = !state.checksum.empty();
  if (results.major == Status::kContinueNeeded || is_proved) {
    ContextTable::encode(state.context->handle, handle);
    results.handle = handle;
    results.window = window_;
    results.token = state.token;
  }
  std::vector<std::byte>& body = state.body.bytes;
  body.resize(init_results_size(results));
  xdr::Writer writer(body);
  encode_init_results(results, writer);
  call.wrapped = body;
  if (is_proved) call.reply_verifier = {AuthFlavor::kRpcsecGss, state.checksum};
}

void ServerGss::seal_reply(CallAcceptance& call, State& state) {
  Context& context = *state.context->context;
  std::array<std::byte, xdr::kWordSize> sequence{};
  xdr::store_word(sequence.data(), state.sequence);
  const Bytes piece(sequence);
  if (context.checksum({&piece, 1}, state.checksum).is_error()) {
    call.ends_connection = kNoSeal;
    return;
  }
  call.reply_verifier = {AuthFlavor::kRpcsecGss, state.checksum};
  if (state.control == Control::kDestroy) contexts_.remove(state.context);
  if (!call.is_wrapped) return;
  if (!gss::wrap(context, state.service, state.sequence, call.results, state.body, call.wrapped,
                 call.enclosure)) {
    call.ends_connection = kNoSeal;
  }
}

}  // namespace rpcrdma::gss
