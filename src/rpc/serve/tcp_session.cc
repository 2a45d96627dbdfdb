#include "rpc/serve/tcp_session.h"

#include <fmt/core.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "base/assert.h"

namespace rpcrdma::rpc {
namespace {

// The most Calls that a session takes in a turn.
constexpr std::size_t kCallsPerTurn = 32;

}  // namespace

// --- TcpCall -----------------------------------------------------------------------------------

TcpCall::TcpCall(TcpSession& session) noexcept
    : IncomingCall(session.serving_), session_(session) {}

StepUp TcpCall::step_up() {
  const bool can = !session_.connection_->is_local() && session_.takes_step_ups_;
  steps_up_ = can && !session_.draining_;
  return steps_up_ ? StepUp::kNow : StepUp::kUnable;
}

void TcpCall::return_loans() {
  for (const MutableBytes loan : loans_) {
    session_.memory_->of_host().gave_back(loan.size());
    session_.pool_.give_back(loan);
  }
  loans_.clear();
}

// --- TcpSession --------------------------------------------------------------------------------

TcpSession::TcpSession(std::unique_ptr<RecordMemory::Share> memory,
                       std::unique_ptr<tcp::Connection> connection,
                       const Surroundings& surroundings, const TcpOptions& options, Instant now)
    : memory_(std::move(memory)),
      connection_(std::move(connection)),
      pool_(surroundings.pool),
      serving_(*this, surroundings.registry, surroundings.cache, surroundings.mailbox,
               surroundings.meter),
      tap_(surroundings.tap, ConnectionTap::Carrier::kTcp),
      takes_step_ups_(surroundings.takes_step_ups),
      options_(options),
      answered_(options.calls_max),
      moves_(now),
      busy_until_(now) {
  if (tap_.is_on()) tap_.begin(connection_->peer_address());
}

// A session has calls in it only when its server ends.
TcpSession::~TcpSession() {
  connection_->abort();
  for (const auto& call : calls_) {
    call->end_call();
    call->return_loans();
  }
}

bool TcpSession::progress(RoundTime& time) noexcept {
  const bool was_idle = is_idle();
  const std::uint64_t bytes_before = connection_->bytes_received();
  settle();
  serving_.retry_duplicates();
  const bool has_asked = takes_calls();
  receive();
  connection_->flush();
  settle();
  if (ended()) serving_.retry_duplicates();  // gives them up
  if (stepping_up_) release_socket();
  const bool has_come = moves_.note(time, calls_ended_ + in_service_, settled_ + answered_.size(),
                                    settled_, connection_->bytes_sent());
  const Instant now = time.now();
  if (!was_idle || !is_idle() || has_come) busy_until_ = now;
  // A record for which there is no memory is not the peer's to complete.
  const bool awaits_rest = in_service_ == 0 && !draining_ && !stepping_up_ &&
                           !connection_->closing() && !connection_->is_between_records() &&
                           !connection_->starved();
  rest_.note(now, awaits_rest, has_come, connection_->bytes_received());
  // The connection may have ended before this turn, when its socket had news.
  if (!ended()) {
    is_at_rest_ = is_idle();
  } else if (connection_->bytes_received() != bytes_before) {
    is_at_rest_ = false;
  }
  if (in_service_ == 0 && (draining_ || connection_->peer_finished())) connection_->finish();
  // A session that had too much to send when it had its turn asks for memory again.
  const bool is_to_ask = connection_->starved() && !(has_asked && memory_->waits());
  return !takes_calls() || !(connection_->has_more() || is_to_ask);
}

bool TcpSession::takes_calls() const noexcept {
  return !draining_ && !stepping_up_ && in_service_ < options_.calls_max &&
         connection_->bytes_unsent() <= options_.unsent_max;
}

void TcpSession::receive() {
  for (std::size_t i = 0; i < kCallsPerTurn && takes_calls(); ++i) {
    auto message = connection_->receive();
    if (!message) return;
    const Bytes bytes = message->bytes();
    memory_->handle_complete(bytes.data());
    if (tap_.is_on()) [[unlikely]]
      show(TapRecord::Kind::kRecordReceived, {&bytes, 1});
    TcpCall& call = begin_call(std::move(*message));
    if (serving_.admit(call, call.message_.bytes())) handle_admitted(call);
  }
}

TcpCall& TcpSession::begin_call(tcp::Message message) {
  if (free_.empty()) {
    free_.push_back(calls_.emplace_back(std::make_unique<TcpCall>(*this)).get());
  }
  TcpCall& call = *free_.back();
  free_.pop_back();
  ++in_service_;
  call.steps_up_ = false;
  call.message_ = std::move(message);
  serving_.note_arrival(call);
  if (serving_.meter() != nullptr) [[unlikely]]
    call.metered_.arguments_size = call.message_.bytes().size();
  return call;
}

void TcpSession::handle_admitted(IncomingCall& of) {
  auto& call = static_cast<TcpCall&>(of);
  // The client learns which of its calls was too large, and keeps its connection.
  if (call.message_.is_cut()) [[unlikely]]
    return serving_.refuse(call, AcceptStatus::kGarbageArgs);
  call.set_arguments(call.message_.bytes());
  serving_.serve(call);
}

void TcpSession::give_up(IncomingCall& call, NoReply why) {
  free_call(static_cast<TcpCall&>(call));
  if (why == NoReply::kLost) return;
  // A peer that sends something else than Calls waits for no answer.
  if (why != NoReply::kUnheard) ++dropped_;
  connection_->abort();
}

// --- Answers -----------------------------------------------------------------------------------

bool TcpSession::send(IncomingCall& of, std::size_t start, const WrappedResults& wrapped) {
  auto& call = static_cast<TcpCall&>(of);
  if (call.steps_up_) {
    const tcp::PeerState peer = connection_->look_at_peer();
    stepping_up_ = may_step_up() && peer == tcp::PeerState::kQuiet;
    talked_on_ = !stepping_up_ && !draining_ && peer != tcp::PeerState::kHasEnded;
    // A peer that has ended its side gets the answer, and nothing more.
    if (!stepping_up_ && peer != tcp::PeerState::kHasEnded) connection_->abort();
  }
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
  if (!pass(runs.view())) return false;  // results of gigabytes
  answered_.push(&call);
  return true;
}

void TcpSession::send_plain(IncomingCall& of, const oncrpc::ReplyHeader& header) {
  auto& call = static_cast<TcpCall&>(of);
  xdr::Writer writer(call.plain_);
  oncrpc::encode_reply(header, writer);
  RPCRDMA_ASSERT(writer.ok(), "a reply without results is longer than its room");
  const Bytes run = Bytes(call.plain_).first(writer.position());
  const bool is_sent = pass({&run, 1});
  RPCRDMA_ASSERT(is_sent, "a reply without results is too large for a record");
  answered_.push(&call);
}

bool TcpSession::pass(std::span<const Bytes> runs) {
  if (!connection_->send(runs)) return false;
  if (tap_.is_on()) [[unlikely]]
    show(TapRecord::Kind::kRecordSent, runs);
  return true;
}

void TcpSession::show(TapRecord::Kind kind, std::span<const Bytes> runs) {
  TapRecord record;
  record.kind = kind;
  for (const Bytes run : runs) record.size += run.size();
  tap_.add(connection_->peer_address(), record, runs);
}

// Frees the calls whose replies have gone.
void TcpSession::settle() {
  for (; settled_ < connection_->settled(); ++settled_) {
    ++calls_ended_;
    free_call(*answered_.pop());
  }
}

void TcpSession::free_call(TcpCall& call) {
  call.return_loans();
  call.end_call();
  call.message_ = {};
  --in_service_;
  free_.push_back(&call);
}

MutableBytes TcpSession::borrow(IncomingCall& of, std::size_t size) {
  auto& call = static_cast<TcpCall&>(of);
  if (call.loans_.full() || !memory_->of_host().may_take(size)) return {};
  const MutableBytes buffer = pool_.take(size);
  if (buffer.empty()) return buffer;
  (void)call.loans_.push_back(buffer);
  memory_->of_host().took(buffer.size());
  return buffer;
}

// --- Stepping up, and ends ---------------------------------------------------------------------

// Returns whether no other Call is under way. The peer must wait for the answer, too: bytes behind
// the Call must not be taken for the set-up of RDMA. Both are looked at before the answer goes out,
// since the set-up may follow it at once.
bool TcpSession::may_step_up() const noexcept {
  return !draining_ && takes_step_ups_ && in_service_ == answered_.size() + 1;
}

void TcpSession::release_socket() {
  if (ended() || in_service_ > 0) return;
  socket_ = connection_->release();
  stepped_up_ = socket_.has_value();
  connection_->abort();
}

void TcpSession::make_room() {
  const bool has_gone = connection_->closing() ||
                        (connection_->look_at_peer() == tcp::PeerState::kHasEnded && is_idle());
  made_room_ = !has_gone;
  if (has_gone) {
    connection_->close();
  } else {
    connection_->abort();
  }
  settle();
}

std::optional<Instant> TcpSession::idle_since() const noexcept {
  if (!is_idle() || draining_ || stepping_up_) return std::nullopt;
  return busy_until_;
}

// --- Reports -----------------------------------------------------------------------------------

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
      if (end.code == ENOMEM) {
        return lost(
            "there was no memory for its record in time (ServerOptions::memory_max): other calls "
            "had it");
      }
      return lost("the peer neither completed a record nor read its replies in time");
    case tcp::EndKind::kSlow:
      return lost("the peer sent a record too slowly (ServerOptions::pull_timeout, pull_rate_min)");
    case tcp::EndKind::kAborted:
      if (stepped_up_) return std::nullopt;
      if (!serving_.why_ended().empty()) return lost(std::string(serving_.why_ended()));
      if (dropped_ > 0) return lost("the peer sent what is no RPC call");
      if (talked_on_) return lost("the peer talked on before it had the answer to its step up");
      if (made_room_) {
        return lost(
            fmt::format("it made room for another one: its thread had {} connections over TCP, "
                        "as many as it may have (TcpOptions::connections_max)",
                        options_.connections_max));
      }
      return lost("the server is stopping");
  }
  return std::nullopt;
}

TransferCounters TcpSession::counters() const noexcept {
  TransferCounters counters;
  counters.calls = calls_ended_;
  counters.cached_replies = serving_.cached_replies();
  const tcp::EndKind end = connection_->cause().kind;
  const bool is_refused = end == tcp::EndKind::kTooLarge || end == tcp::EndKind::kTooManyFragments;
  counters.messages_dropped = dropped_ + (is_refused ? 1 : 0);
  counters.wire_bytes_sent = connection_->bytes_sent();
  counters.wire_bytes_received = connection_->bytes_received();
  return counters;
}

}  // namespace rpcrdma::rpc
