#include "rpc/serve/tcp_session.h"

#include <fmt/core.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "rpc/serve/admission.h"

namespace rpcrdma::rpc {
namespace {

// Calls that a session takes before others have their turn.
constexpr std::size_t kCallsPerRound = 32;

// The session in whose progress() this thread is, if any.
thread_local const TcpSession* current_session = nullptr;

}  // namespace

// --- TcpCall -----------------------------------------------------------------------------------

std::string_view TcpCall::peer_address() const noexcept {
  return session_.peer_address();
}

MutableBytes TcpCall::results_room(std::size_t size) {
  return session_.borrow(*this, size);
}

MutableBytes TcpCall::result_memory(std::uint32_t size) {
  const MutableBytes memory = session_.borrow(*this, size);
  return memory.empty() ? memory : memory.first(size);
}

StepUp TcpCall::step_up() {
  const bool can = !session_.connection_->is_local() && session_.mailbox_.can_step_up();
  steps_up_ = can && !session_.draining_;
  return steps_up_ ? StepUp::kNow : StepUp::kUnable;
}

void TcpCall::handle_answered() {
  if (current_session == &session_) {
    session_.send_answer(*this);
  } else {
    session_.mailbox_.deliver(session_, *this);
  }
}

void TcpCall::handle_step_ended() {
  session_.mailbox_.deliver(session_, *this);
}

// --- TcpSession --------------------------------------------------------------------------------

TcpSession::TcpSession(std::unique_ptr<tcp::Connection> connection,
                       const Surroundings& surroundings, const TcpOptions& options, Instant now)
    : connection_(std::move(connection)),
      pool_(surroundings.pool),
      registry_(surroundings.registry),
      duplicates_(surroundings.cache),
      mailbox_(surroundings.mailbox),
      options_(options),
      answered_(options.calls_max),
      last_call_(now),
      busy_until_(now) {}

// Only the end of the server leaves calls in a session.
TcpSession::~TcpSession() {
  connection_->abort();
  for (const auto& call : calls_) {
    call->end_call();
    for (const MutableBytes loan : call->loans_) pool_.give_back(loan);
  }
}

void TcpSession::progress(Instant now) noexcept {
  const TcpSession* const before = std::exchange(current_session, this);
  const bool was_idle = is_idle();
  const std::uint64_t calls_before = calls_ended_ + in_service_;
  const std::uint64_t bytes_before = connection_->bytes_received();
  settle();
  if (duplicates_.waiting() > 0) retry_duplicates();
  receive();
  connection_->flush();
  settle();
  if (ended() && duplicates_.waiting() > 0) retry_duplicates();  // gives them up
  if (stepping_up_) release_socket();
  if (calls_ended_ + in_service_ != calls_before) last_call_ = now;
  if (!was_idle || !is_idle() || last_call_ == now) busy_until_ = now;
  // The connection may have ended before this turn, when its socket had news.
  if (!ended()) {
    is_at_rest_ = is_idle();
  } else if (connection_->bytes_received() != bytes_before) {
    is_at_rest_ = false;
  }
  if (in_service_ == 0 && (draining_ || connection_->peer_finished())) connection_->finish();
  current_session = before;
}

bool TcpSession::takes_calls() const noexcept {
  return !draining_ && !stepping_up_ && in_service_ < options_.calls_max &&
         connection_->bytes_unsent() <= options_.unsent_max;
}

void TcpSession::receive() {
  for (std::size_t i = 0; i < kCallsPerRound && takes_calls(); ++i) {
    auto message = connection_->receive();
    if (!message) return;
    admit(begin_call(std::move(*message)));
  }
}

TcpCall& TcpSession::begin_call(tcp::Message message) {
  if (free_.empty()) {
    free_.push_back(calls_.emplace_back(std::make_unique<TcpCall>(*this)).get());
  }
  TcpCall& call = *free_.back();
  free_.pop_back();
  ++in_service_;
  call.active_ = true;
  call.steps_up_ = false;
  call.message_ = std::move(message);
  return call;
}

void TcpSession::admit(TcpCall& call) {
  const Bytes stream = call.message_.bytes();
  const Admission admission = call.admit(registry_, stream, refusal_);
  if (admission.verdict == Admission::Verdict::kRefused) {
    return call.take_refusal(refusal_) ? send_answer(call) : send_plain(call, refusal_);
  }
  if (admission.verdict == Admission::Verdict::kLater) {
    ++steps_;
    return;
  }
  if (admission.verdict == Admission::Verdict::kEnds) return end_with(call);
  if (admission.verdict != Admission::Verdict::kAccepted) {
    // There is no answer to it, and whoever sends this waits for none.
    ++dropped_;
    give_up(call);
    return connection_->abort();
  }
  const std::size_t size = admission.header_size;
  std::construct_at(&call.arguments_, stream.subspan(size), size);
  call.service_ = admission.service;
  call.header_size_ = admission.header_size;
  call.traits_ = admission.traits;
  call.is_whole_ = admission.is_whole;
  if (call.message_.is_cut()) [[unlikely]] {
    // The client learns which of its calls was too large, and keeps its connection.
    call.status_ = AcceptStatus::kGarbageArgs;
    return send_answer(call);
  }
  accept(call);
}

// Its header was accepted.
void TcpSession::accept(TcpCall& call) {
  if (call.is_to_be_unwrapped()) [[unlikely]] {
    if (!call.unwrap()) {
      ++steps_;
      return;
    }
    if (!call.why_ending().empty()) return end_with(call);
    if (call.status_ != AcceptStatus::kSuccess) return send_answer(call);
  }
  using Next = DuplicateCalls::Next;
  Next next = Next::kExecute;
  if (duplicates_.concern(call.traits_)) {
    next = duplicates_.begin(call, connection_->peer_address(), {});
  }
  if (next == Next::kExecute) return execute(call);
  if (next == Next::kAnswer) send_answer(call);
}

void TcpSession::answer(TcpCall& call) {
  if (call.auth_.stage != CallAuth::Stage::kNone) return go_on(call);
  send_answer(call);
}

// A step of authentication has ended elsewhere.
void TcpSession::go_on(TcpCall& call) {
  using Stage = CallAuth::Stage;
  --steps_;
  const Stage stage = std::exchange(call.auth_.stage, Stage::kNone);
  if (stage == Stage::kSealing) return send_answer(call);
  if (ended()) return give_up(call);
  if (stage == Stage::kUnwrapping) {
    call.finish_unwrap();
    if (!call.why_ending().empty()) return end_with(call);
    return call.status_ == AcceptStatus::kSuccess ? accept(call) : send_answer(call);
  }
  const AuthStatus status = call.accepted();
  if (!call.why_ending().empty()) return end_with(call);
  if (status != AuthStatus::kOk) {
    call.auth_.end();
    return send_plain(call, {call.header_.xid, oncrpc::AuthError{status}});
  }
  admit(call);
}

// Its authenticator wants no reply to go out, nor anything else to be heard of this peer.
void TcpSession::end_with(TcpCall& call) {
  why_ended_ = call.why_ending();
  give_up(call);
  connection_->abort();
}

// There is nothing, or no way, to answer it.
void TcpSession::give_up(TcpCall& call) {
  call.active_ = false;
  free_call(call);
}

void TcpSession::execute(TcpCall& call) {
  call.status_ = AcceptStatus::kSuccess;
  if (!call.reserve_results(kResultsSizeDefault)) {
    call.status_ = AcceptStatus::kSystemErr;
    return send_answer(call);
  }
  if (call.header_.procedure.number == 0 && !call.is_whole_) {
    send_answer(call);  // NULL, RFC 5531 §12: always answers
  } else {
    has_served_ = true;
    call.service_->call(call);
  }
}

void TcpSession::retry_duplicates() {
  for (const auto& each : calls_) {
    TcpCall& call = *each;
    if (!DuplicateCalls::waits(call)) continue;
    if (ended()) {
      duplicates_.give_up(call);
      give_up(call);
      continue;
    }
    const auto next = duplicates_.retry(call);
    if (next == DuplicateCalls::Next::kExecute) execute(call);
    if (next == DuplicateCalls::Next::kAnswer) send_answer(call);
  }
}

// --- Answers -----------------------------------------------------------------------------------

void TcpSession::send_answer(TcpCall& call) {
  RPCRDMA_REQUIRE(call.active_, "a call is answered twice");
  duplicates_.handle_answer(call);
  if (call.is_to_be_sealed() && !call.seal()) {
    ++steps_;
    return;
  }
  if (!call.why_ending().empty()) return end_with(call);
  const auto wrapped = call.take_wrapped();
  if (call.status_ != AcceptStatus::kSuccess) return send_plain(call, call.plain_header());
  if (call.steps_up_) {
    stepping_up_ = may_step_up();
    talked_on_ = !stepping_up_ && !draining_;
    if (!stepping_up_) connection_->abort();
  }
  const std::size_t start = call.write_header();
  // Bulk items go where their count words announce them; their fill bytes are in the stream.
  BoundedVector<Bytes, tcp::Connection::kRunsMax> runs;
  static_assert(decltype(runs)::capacity() >= 2 + oncrpc::kRunsMax);
  const Bytes stream(call.results_buffer_);
  (void)runs.push_back(stream.subspan(start, kReplyRoom - start));
  if (wrapped.replaced) {
    (void)runs.push_back(*wrapped.replaced);
  } else {
    oncrpc::for_each_run(call.results_, stream.subspan(kReplyRoom),
                         [&](Bytes run) { (void)runs.push_back(run); });
    if (!wrapped.after.empty()) (void)runs.push_back(wrapped.after);
  }
  send(call, runs.view());
}

// Sends a reply without results.
void TcpSession::send_plain(TcpCall& call, const oncrpc::ReplyHeader& header) {
  xdr::Writer writer(call.plain_);
  oncrpc::encode_reply(header, writer);
  RPCRDMA_ASSERT(writer.ok(), "a reply without results is longer than its room");
  const Bytes run = Bytes(call.plain_).first(writer.position());
  send(call, {&run, 1});
}

void TcpSession::send(TcpCall& call, std::span<const Bytes> runs) {
  if (!connection_->send(runs)) {  // results of gigabytes
    call.status_ = AcceptStatus::kSystemErr;
    return send_plain(call, call.plain_header());
  }
  call.active_ = false;
  answered_.push(&call);
}

// Frees the calls whose replies have gone.
void TcpSession::settle() {
  for (; settled_ < connection_->settled(); ++settled_) {
    ++calls_ended_;
    free_call(*answered_.pop());
  }
}

void TcpSession::free_call(TcpCall& call) {
  for (const MutableBytes loan : call.loans_) pool_.give_back(loan);
  call.loans_.clear();
  call.end_call();
  call.message_ = {};
  --in_service_;
  free_.push_back(&call);
}

MutableBytes TcpSession::borrow(TcpCall& call, std::size_t size) {
  if (call.loans_.full()) return {};
  const MutableBytes buffer = pool_.take(size);
  if (!buffer.empty()) (void)call.loans_.push_back(buffer);
  return buffer;
}

// --- Stepping up, and ends ---------------------------------------------------------------------

// What stands behind the Call already was not said by a peer that waits for the answer; it must not
// be taken for the set-up of RDMA. Asked before the answer is on its way: that may be followed at
// once.
bool TcpSession::may_step_up() const noexcept {
  return !draining_ && mailbox_.can_step_up() && in_service_ == answered_.size() + 1 &&
         connection_->is_peer_quiet();
}

void TcpSession::release_socket() {
  if (ended() || in_service_ > 0) return;
  socket_ = connection_->release();
  stepped_up_ = socket_.has_value();
  connection_->abort();
}

void TcpSession::make_room() {
  made_room_ = true;
  connection_->abort();
  settle();
}

std::optional<Instant> TcpSession::idle_since() const noexcept {
  if (!is_idle() || draining_ || stepping_up_) return std::nullopt;
  return busy_until_;
}

// --- What is told of it ------------------------------------------------------------------------

std::optional<Error> TcpSession::failure(bool& was_reset_at_rest) const {
  const auto lost = [this](std::string cause) {
    return Error{Errc::kConnectionLost, "the connection", std::string(peer_address()),
                 std::move(cause)};
  };
  const tcp::End end = connection_->cause();
  was_reset_at_rest = is_at_rest_ && end.kind == tcp::EndKind::kLost && end.code == ECONNRESET;
  switch (end.kind) {
    case tcp::EndKind::kNone:
    case tcp::EndKind::kClosed:
      return std::nullopt;
    case tcp::EndKind::kLost:
      if (end.code == 0) return lost("the peer closed it inside of a record");
      return lost(std::generic_category().message(end.code));
    case tcp::EndKind::kTooLarge:
      return lost(fmt::format(
          "the peer announced a record of more than TcpOptions::record_size_max, {}, that is no "
          "RPC call or has more than 2 GiB",
          options_.record_size_max));
    case tcp::EndKind::kTooManyFragments:
      return lost(
          fmt::format("the peer sent a record of more fragments than TcpOptions::fragments_max, {}",
                      options_.fragments_max));
    case tcp::EndKind::kStalled:
      return lost("the peer neither completed a record nor read its replies in time");
    case tcp::EndKind::kSlow:
      return lost("the peer sent a record too slowly (ServerOptions::pull_timeout, pull_rate_min)");
    case tcp::EndKind::kAborted:
      if (stepped_up_) return std::nullopt;
      if (!why_ended_.empty()) return lost(std::string(why_ended_));
      if (dropped_ > 0) return lost("the peer sent what is no RPC call");
      if (talked_on_) return lost("the peer talked on before it had the answer to its step up");
      if (made_room_) {
        return lost(
            fmt::format("it made room for another one: there were {}, "
                        "TcpOptions::connections_max",
                        options_.connections_max));
      }
      return lost("the server is stopping");
  }
  return std::nullopt;
}

TransferCounters TcpSession::counters() const noexcept {
  TransferCounters counters;
  counters.calls = calls_ended_;
  counters.cached_replies = duplicates_.cached_replies();
  const tcp::EndKind end = connection_->cause().kind;
  const bool is_refused = end == tcp::EndKind::kTooLarge || end == tcp::EndKind::kTooManyFragments;
  counters.messages_dropped = dropped_ + (is_refused ? 1 : 0);
  counters.wire_bytes_sent = connection_->bytes_sent();
  counters.wire_bytes_received = connection_->bytes_received();
  return counters;
}

}  // namespace rpcrdma::rpc
