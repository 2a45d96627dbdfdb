#include "rpc/call/tcp_carrier.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/bounded_vector.h"
#include "oncrpc/message.h"
#include "oncrpc/runs.h"
#include "rpc/call/reply_reading.h"
#include "rpc/call/sealing.h"
#include "rpc/call/tcp_errors.h"
#include "rpc/errors.h"
#include "rpc/record_limits.h"
#include "rpc/time_limit.h"

namespace rpcrdma::rpc {
namespace {

constexpr std::uint32_t kRepliesPerRound = 64;

tcp::ConnectionOptions connection_options(const ClientOptions& options) {
  tcp::ConnectionOptions made;
  made.record = record_limits(options.tcp, options.memory_max);
  made.record.excess = tcp::Excess::kCutReplies;
  made.messages_unsent_max = std::max(options.calls_max, 1U);
  // A call ends its connection itself if the server has not taken it within its own time.
  made.send_timeout = limited(std::chrono::nanoseconds::max());
  made.connect_timeout = limited(options.provider.setup_timeout_client);
  return made;
}

}  // namespace

TcpCarrier::TcpCarrier(posix::Reactor& reactor, CallFlow& flow)
    : reactor_(reactor), flow_(flow), memory_(flow.pool()), sent_(flow.calls().size()) {}

Expected<void, posix::SystemError> TcpCarrier::connect(const posix::Address& address,
                                                       std::string_view peer) {
  peer_ = peer;
  messages_ = 0;
  gave_up_ = false;
  auto connection =
      tcp::Connection::connect(reactor_, address, memory_, connection_options(flow_.options()));
  if (!connection) return Unexpected<posix::SystemError>(connection.error());
  connection_ = std::move(*connection);
  return {};
}

void TcpCarrier::retire() {
  past_ = counters();
  connection_.reset();
  flow_.history().note_gone();
}

std::optional<tcp::End> TcpCarrier::cause() const noexcept {
  if (connection_ == nullptr) return std::nullopt;
  return connection_->cause();
}

std::optional<posix::Fd> TcpCarrier::release() {
  auto socket = connection_->release();
  stepped_up_ = socket.has_value();
  return socket;
}

TransferCounters TcpCarrier::counters() const noexcept {
  TransferCounters counters = past_;
  if (connection_ == nullptr) return counters;
  counters.wire_bytes_sent += connection_->bytes_sent();
  counters.wire_bytes_received += connection_->bytes_received();
  return counters;
}

// --- Sending -----------------------------------------------------------------------------------

bool TcpCarrier::lend_stream(CallSlot& slot, std::size_t arguments_size) {
  slot.stream = flow_.pool().take(kHeaderRoom + arguments_size);
  return !slot.stream.empty();
}

// Bulk items go where their count words announce them; their fill bytes are in the stream.
std::optional<Error> TcpCarrier::send(CallSlot& slot) {
  if (has_ended()) return flow_.lost_error();
  const CallSeal& seal = slot.step.seal;
  const std::size_t start =
      slot.is_whole ? kHeaderRoom : seal_call(slot.stream, slot.xid, slot.procedure, seal);
  if (seal.is_control) name_control(slot.stream, start);
  BoundedVector<Bytes, tcp::Connection::kRunsMax> runs;
  static_assert(decltype(runs)::capacity() >= 2 + oncrpc::kRunsMax);
  (void)runs.push_back(Bytes(slot.stream).subspan(start, kHeaderRoom - start));
  const bool is_wrapping = flow_.growth() && !slot.is_whole;
  if (seal.is_control || (is_wrapping && seal.wrapped)) {
    (void)runs.push_back(seal.wrapped.value_or(Bytes{}));
  } else {
    oncrpc::for_each_run(slot.writer, slot.arguments(),
                         [&](Bytes run) { (void)runs.push_back(run); });
    if (is_wrapping && seal.enclosure) (void)runs.push_back(seal.enclosure->after);
  }
  if (!connection_->send(runs.view())) {
    return Error{Errc::kTooLarge, "the call", peer_, "it is longer than a record can be, 2 GiB"};
  }
  Sent& sent = sent_of(slot);
  sent.number = messages_++;
  sent.is_early = false;
  slot.deadline = flow_.now() + slot.timeout;
  flow_.calls().started(slot);
  ++in_flight_;
  next_deadline_ = earlier(next_deadline_, slot.deadline);
  return std::nullopt;
}

void TcpCarrier::free(CallSlot& slot, bool keeps_call) {
  sent_of(slot).reply = {};
  if (!keeps_call && !slot.stream.empty()) {
    flow_.pool().give_back(slot.stream);
    slot.stream = {};
  }
  // A reply may have waited for this memory, and nothing else would wake the caller's loop.
  if (connection_ != nullptr && connection_->starved()) reactor_.wake();
}

// --- Replies -----------------------------------------------------------------------------------

void TcpCarrier::pump(Instant looked) {
  if (connection_ == nullptr) return;
  receive(kRepliesPerRound);
  if (early_ > 0) complete_early();
  // No further reply can come.
  if (connection_->peer_finished() && !connection_->has_more() && early_ == 0) connection_->abort();
  if (next_deadline_ && *next_deadline_ <= looked) {
    // Replies that are here have come in time, however late this side takes them. Others may be of
    // calls that were given up.
    if (connection_->has_more()) receive(in_flight_ + static_cast<std::uint32_t>(sent_.size()));
    time_out(looked);
  }
  connection_->flush();  // what callbacks have started
  if (!connection_->ended()) return;
  if (early_ > 0) complete_early();
  lose_all(looked);
}

void TcpCarrier::receive(std::uint32_t messages_max) {
  for (std::uint32_t left = messages_max; left > 0; --left) {
    auto message = connection_->receive();
    if (!message) break;
    take_reply(std::move(*message));
  }
  if (connection_->has_more()) reactor_.wake();  // also of a reply that is read in turns
}

void TcpCarrier::take_reply(tcp::Message message) {
  const Bytes bytes = message.bytes();
  const bool is_reply = bytes.size() >= xdr::kWordSize && !oncrpc::is_call(bytes);
  const auto found =
      is_reply ? flow_.calls().find(Xid{xdr::load_word(bytes.data())}) : std::nullopt;
  if (!found || sent_[*found].is_early) {
    ++past_.messages_dropped;  // of a call that timed out, of none, or a second one
    return;
  }
  Sent& sent = sent_[*found];
  sent.reply = std::move(message);
  // The caller's memory is still being sent from: a server may answer before it has read all.
  if (!is_settled(sent)) {
    sent.is_early = true;
    ++early_;
    return;
  }
  complete(*found);
}

void TcpCarrier::complete_early() {
  for (std::uint32_t i = 0; i < sent_.size() && early_ > 0; ++i) {
    if (sent_[i].is_early && is_settled(sent_[i])) complete(i);
  }
}

void TcpCarrier::complete(std::uint32_t index) {
  CallSlot& slot = flow_.calls()[index];
  note_end(sent_[index]);
  flow_.begin_reply(slot);
  auto error = read(slot);
  flow_.handle_reply(index, std::move(error));
}

void TcpCarrier::note_end(Sent& sent) noexcept {
  if (std::exchange(sent.is_early, false)) --early_;
  --in_flight_;
  ++past_.calls;
  ++past_.short_calls;
}

// Reads the RPC header; on success slot.reader stands at the results.
std::optional<Error> TcpCarrier::read(CallSlot& slot) {
  const Bytes stream = sent_of(slot).reply.bytes();
  const bool is_cut = sent_of(slot).reply.is_cut();
  std::size_t size = oncrpc::kReplyHeaderSizeMin;
  if (slot.is_whole) {
    if (!oncrpc::is_reply(stream, slot.xid)) return to_error(nullptr, slot.procedure, peer_);
    size = 0;
  } else if (!oncrpc::is_plain_success(stream, slot.xid)) {
    xdr::Reader reader(stream);
    const auto header = oncrpc::decode_reply(reader);
    if (header) show(*header, slot.step.seal);
    if (auto error = to_error(header ? &*header : nullptr, slot.procedure, peer_)) return error;
    size = reader.position();
  }
  if (is_cut) return Error{Errc::kBadReply, "the call", peer_, longest_reply(flow_.options())};
  std::construct_at(&slot.reader, stream.subspan(size), size);
  slot.reader.set_places(slot.places());
  return std::nullopt;
}

// --- Calls without a reply ---------------------------------------------------------------------

void TcpCarrier::time_out(Instant looked) {
  next_deadline_.reset();
  for (std::uint32_t i = 0; i < sent_.size(); ++i) {
    const CallSlot& slot = flow_.calls()[i];
    if (slot.state != CallState::kStarted) continue;
    if (slot.deadline > looked) {
      next_deadline_ = earlier(next_deadline_, slot.deadline);
    } else if (is_settled(sent_[i])) {
      note_end(sent_[i]);
      flow_.fail(i, explain(engine::CallError::kTimedOut));
    } else {
      gave_up_ = true;
      connection_->abort();
    }
  }
}

// The connection has ended for a reply that this side does not take. The next one would have the
// same end.
bool TcpCarrier::is_reply_refused() const noexcept {
  const tcp::EndKind end = connection_->cause().kind;
  return end == tcp::EndKind::kTooLarge || end == tcp::EndKind::kTooManyFragments;
}

void TcpCarrier::lose_all(Instant looked) {
  next_deadline_.reset();
  for (std::uint32_t i = 0; i < sent_.size() && in_flight_ > 0; ++i) {
    const CallSlot& slot = flow_.calls()[i];
    if (slot.state != CallState::kStarted) continue;
    note_end(sent_[i]);
    sent_[i].reply = {};
    if (gave_up_ && slot.deadline <= looked) {
      flow_.fail(i, {Errc::kTimedOut, "the call", peer_,
                     "the server has not taken a call within its time"});
    } else if (is_reply_refused()) {
      flow_.fail(i, flow_.lost_error());
    } else {
      flow_.lose(i);
    }
  }
  if (flow_.ended()) flow_.cancel_sealing();
}

Error TcpCarrier::explain(engine::CallError error) const {
  if (error != engine::CallError::kConnectionLost) return to_error(error, {}, peer_);
  const tcp::End end = connection_ != nullptr ? connection_->cause() : tcp::End{};
  std::string cause = cause_of_end(end, flow_.options());
  if (gave_up_) cause = "this side ended it: the server has not taken a call within its time";
  if (stepped_up_) cause = "it has stepped up to RDMA";
  if (!has_ended()) cause = "it is not made yet";
  if (connection_ == nullptr) cause = "there is none";
  if (end.kind == tcp::EndKind::kStalled && !connection_->connected()) {
    cause = "nothing answered within ProviderOptions::setup_timeout_client";
  }
  const bool is_bad = connection_ != nullptr && is_reply_refused();
  return {is_bad ? Errc::kBadReply : Errc::kConnectionLost, "the connection", peer_,
          std::move(cause)};
}

}  // namespace rpcrdma::rpc
