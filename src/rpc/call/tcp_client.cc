#include "rpc/call/tcp_client.h"

#include <algorithm>
#include <array>
#include <memory>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "base/bounded_vector.h"
#include "oncrpc/message.h"
#include "posix/address.h"
#include "rpc/call/call_causes.h"
#include "rpc/call/reply_reading.h"
#include "rpc/call/tcp_errors.h"
#include "rpc/errors.h"
#include "rpc/time_limit.h"

namespace rpcrdma {
namespace {

constexpr int kRepliesPerRound = 64;

Error unsupported(std::string_view operation, std::string_view peer, std::string cause) {
  return {Errc::kUnsupported, std::string(operation), std::string(peer), std::move(cause)};
}

tcp::ConnectionOptions connection_options(const ClientOptions& options) {
  tcp::ConnectionOptions made;
  made.record = rpc::record_limits(options.tcp, options.memory_max);
  made.messages_unsent_max = std::max(options.calls_max, 1U);
  made.connect_timeout = rpc::limited(options.provider.setup_timeout_client);
  return made;
}

}  // namespace

Expected<std::unique_ptr<TcpClient>, Error> TcpClient::begin_connect(std::string_view address,
                                                                     const ClientOptions& options) {
  const auto refused = [address](std::string cause) {
    return Unexpected<Error>(unsupported("connecting", address, std::move(cause)));
  };
  if (options.reconnect.enabled) {
    return refused(
        "ClientOptions::reconnect is for rdma:// only; connect anew when the client has "
        "ended");
  }
  if (options.backward_calls > 0)
    return refused("ClientOptions::backward_calls is for rdma:// only");
  const auto parsed = posix::parse_stream_address(address);
  if (!parsed) return refused("it is no numeric address with a port, and no path");
  auto reactor = posix::Reactor::make();
  if (!reactor) return Unexpected<Error>(rpc::tcp_failure("connecting", address, reactor.error()));
  std::unique_ptr<TcpClient> client(new TcpClient(std::move(*reactor), address, options));
  auto connection = tcp::Connection::connect(*client->reactor_, *parsed, client->memory_,
                                             connection_options(options));
  if (!connection)
    return Unexpected<Error>(rpc::tcp_failure("connecting", address, connection.error()));
  client->connection_ = std::move(*connection);
  client->reactor_->arm();
  return client;
}

TcpClient::TcpClient(std::unique_ptr<posix::Reactor> reactor, std::string_view peer,
                     const ClientOptions& options)
    : options_(options),
      peer_(peer),
      reactor_(std::move(reactor)),
      pool_(options.memory_max),
      memory_(pool_),
      slots_(std::max(options.calls_max, 1U)),
      free_(slots_.size()),
      xids_(slots_.size()),
      security_(options, [] { return posix::Reactor::now(); }),
      steps_(security_.auth(), plain_, [reactor = reactor_.get()] { reactor->wake(); }),
      // Two clients behind one address should not use the same XIDs: servers may remember them.
      last_xid_(
          static_cast<std::uint32_t>(posix::Reactor::now().time_since_epoch().count() >> 10)) {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    free_.push(i);
    slots_[i].step.init(steps_.ended(), i);
  }
  if (options.credential) plain_.set(*options.credential);
}

TcpClient::~TcpClient() {
  RPCRDMA_REQUIRE(!in_progress_, "a client is destroyed inside of one of its callbacks");
  if (connection_ == nullptr) return;
  close();
  pump();                   // the calls under way end
  while (under_way_ > 0) {  // those whose steps go on elsewhere
    wait();
    progress();
  }
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state != State::kFree) free_slot(i);
  }
}

Expected<void, Error> TcpClient::await_connection() {
  for (progress(); !connected(); progress()) {
    if (ended()) {
      const tcp::End end = connection_->cause();
      Error error = lost_error();
      error.operation = "connecting";
      error.code = Errc::kUnreachable;
      if (end.code == ECONNREFUSED) error.code = Errc::kRefused;
      if (end.kind == tcp::EndKind::kStalled) error.code = Errc::kTimedOut;
      return Unexpected<Error>(std::move(error));
    }
    wait();
  }
  return {};
}

// --- Making a call -----------------------------------------------------------------------------

Expected<Call, Error> TcpClient::prepare(const Procedure& procedure,
                                         std::uint32_t arguments_size_max) {
  if (!connected()) return Unexpected<Error>(lost_error());
  if (free_.empty()) {
    return Unexpected<Error>(rpc::to_error(engine::StartError::kQueueFull, peer_));
  }
  const std::uint32_t index = free_.front();
  Slot& slot = slots_[index];
  slot.stream = pool_.take(rpc::kHeaderRoom + std::size_t{arguments_size_max});
  if (slot.stream.empty()) {
    return Unexpected<Error>(Error{Errc::kNoResources, "preparing a call", peer_,
                                   "ClientOptions::memory_max is used up by calls under way"});
  }
  free_.drop();
  slot.state = State::kPrepared;
  slot.blocking = slot.is_early = false;
  slot.procedure = procedure;
  set_xid(slot, draw_xid());
  slot.result_count = 0;
  slot.results_refused = slot.is_whole = false;
  slot.results_size_max = rpc::CallMessage::kResultsSizeDefault;
  slot.timeout = rpc::limited(options_.call_timeout);
  slot.error.reset();
  std::construct_at(&slot.writer, slot.stream.subspan(rpc::kHeaderRoom));
  return make_call(index);
}

Xid TcpClient::draw_xid() {
  do {
    ++last_xid_;
  } while (whole_calls_ > 0 && is_in_use(Xid{last_xid_}));
  return Xid{last_xid_};
}

void TcpClient::set_xid(Slot& slot, Xid xid) {
  slot.xid = xid;
  xids_.set(static_cast<std::size_t>(&slot - slots_.data()), xid);
}

// Whether a call that is under way, or prepared by the library, has this XID.
bool TcpClient::is_in_use(Xid xid) {
  const auto has_one = [this](std::size_t i) {
    const Slot& slot = slots_[i];
    return (slot.state == State::kPrepared && !slot.is_whole) || is_under_way(slot.state);
  };
  return xids_.find(xid, has_one).has_value();
}

Expected<Call, Error> TcpClient::prepare_message(std::uint32_t size_max) {
  auto call = prepare({}, size_max);
  if (!call) return call;
  slots_[slot_of(*call)].is_whole = true;
  ++whole_calls_;
  return call;
}

Expected<void, Error> TcpClient::start(Call&& call, ReplyCallback&& callback) {
  const std::uint32_t index = take_slot(call);
  if (auto error = begin(index, false, std::move(callback))) {
    return Unexpected<Error>(std::move(*error));
  }
  if (in_progress_) return {};  // the round sends all that callbacks start
  connection_->flush();
  if (connection_->ended()) reactor_->wake();  // progress() tells it
  reactor_->set_user_timer(next_deadline_);
  reactor_->arm();
  return {};
}

std::optional<Error> TcpClient::begin(std::uint32_t index, bool blocking,
                                      ReplyCallback&& callback) {
  Slot& slot = slots_[index];
  RPCRDMA_REQUIRE(slot.state == State::kPrepared, "a Call is started twice");
  const auto xid =
      slot.is_whole ? rpc::xid_of(slot.writer, slot.stream.subspan(rpc::kHeaderRoom)) : slot.xid;
  std::optional<Error> error;
  if (slot.results_refused) {
    error = Error{Errc::kTooLarge, "placing the results", peer_, rpc::cause_of_refusal(slot)};
  } else if (!slot.writer.ok()) {
    error = Error{Errc::kTooLarge, "encoding the arguments", peer_, rpc::cause_of_refusal(slot)};
  } else if (!xid) {
    error = rpc::no_call(peer_);
  } else if (slot.is_whole && is_in_use(*xid)) {
    error = rpc::xid_in_use(peer_);
  } else {
    set_xid(slot, *xid);
    slot.deadline = now() + slot.timeout;
    error = seal(slot);
  }
  if (error) {
    free_slot(index);
    return error;
  }
  ++under_way_;
  slot.blocking = blocking;
  slot.callback = std::move(callback);
  return std::nullopt;
}

std::optional<Error> TcpClient::seal(Slot& slot) {
  if (connection_->ended()) return lost_error();
  if (slot.is_whole || !steps_.has_steps()) {
    steps_.seal_plain(slot.step);
    return send(slot);
  }
  if (const auto xid = std::exchange(slot.step.call_xid, std::nullopt)) {
    set_xid(slot, whole_calls_ > 0 && is_in_use(*xid) ? draw_xid() : *xid);
  }
  const Bytes arguments = slot.stream.subspan(rpc::kHeaderRoom);
  if (steps_.seal(slot.step, slot.procedure, slot.xid, slot.writer, arguments, peer_) ==
      StepEnd::kLater) {
    slot.state = State::kSealing;
    next_deadline_ = engine::earlier(next_deadline_, slot.deadline);
    return std::nullopt;
  }
  return send_sealed(slot);
}

std::optional<Error> TcpClient::send_sealed(Slot& slot) {
  if (slot.step.seal.failure) return std::exchange(slot.step.seal.failure, std::nullopt);
  if (slot.step.seal.is_control) {
    slot.step.call_xid = slot.xid;
    set_xid(slot, draw_xid());
  }
  return send(slot);
}

// Bulk items go where their count words announce them; their fill bytes are in the stream.
std::optional<Error> TcpClient::send(Slot& slot) {
  const CallSeal& seal = slot.step.seal;
  const std::size_t start = slot.is_whole
                                ? rpc::kHeaderRoom
                                : rpc::seal_call(slot.stream, slot.xid, slot.procedure, seal);
  if (seal.is_control) rpc::name_control(slot.stream, start);
  BoundedVector<Bytes, tcp::Connection::kRunsMax> runs;
  static_assert(decltype(runs)::capacity() >= 2 + oncrpc::kRunsMax);
  (void)runs.push_back(Bytes(slot.stream).subspan(start, rpc::kHeaderRoom - start));
  const bool is_wrapping = steps_.growth() && !slot.is_whole;
  if (seal.is_control || (is_wrapping && seal.wrapped)) {
    (void)runs.push_back(seal.wrapped.value_or(Bytes{}));
  } else {
    oncrpc::for_each_run(slot.writer, slot.stream.subspan(rpc::kHeaderRoom),
                         [&](Bytes run) { (void)runs.push_back(run); });
    if (is_wrapping && seal.enclosure) (void)runs.push_back(seal.enclosure->after);
  }
  if (!connection_->send(runs.view())) {
    return Error{Errc::kTooLarge, "the call", peer_, "it is longer than a record can be, 2 GiB"};
  }
  slot.state = State::kSent;
  slot.number = sent_++;
  next_deadline_ = engine::earlier(next_deadline_, slot.deadline);
  return std::nullopt;
}

// Goes on with calls whose steps of authentication have ended elsewhere.
void TcpClient::take_steps() {
  steps_.take_all([this](std::uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.state == State::kOpening) return handle_opened(index);
    go_on(index, &TcpClient::send_sealed);
  });
}

void TcpClient::go_on(std::uint32_t index, std::optional<Error> (TcpClient::*next)(Slot&)) {
  Slot& slot = slots_[index];
  std::optional<Error> error = std::exchange(slot.step.seal.failure, std::nullopt);
  if (!error && connection_->ended()) error = lost_error();
  if (!error && slot.deadline <= now_) {
    error = rpc::to_error(engine::CallError::kTimedOut, {}, peer_);
  }
  if (!error) error = (this->*next)(slot);
  if (error) fail(index, std::move(*error));
}

Expected<Reply, Error> TcpClient::call(Call call) {
  RPCRDMA_REQUIRE(!in_progress_, "a callback must not call progress(), call() or drain()");
  const std::uint32_t index = take_slot(call);
  if (auto error = begin(index, true, {})) return Unexpected<Error>(std::move(*error));
  connection_->flush();
  Slot& slot = slots_[index];
  for (progress(); is_under_way(slot.state); progress()) wait();
  if (slot.state == State::kFailed) {
    Error error = std::move(*slot.error);
    free_slot(index);
    return Unexpected<Error>(std::move(error));
  }
  return make_reply(index);
}

// --- Progress ----------------------------------------------------------------------------------

void TcpClient::progress() {
  RPCRDMA_REQUIRE(!in_progress_, "a callback must not call progress(), call() or drain()");
  reactor_->dispatch();
  pump();
}

void TcpClient::drain() {
  for (progress(); under_way_ > 0; progress()) wait();
}

void TcpClient::pump() noexcept {
  in_progress_ = true;
  now_ = posix::Reactor::now();
  take_steps();
  receive();
  if (early_ > 0) complete_early();
  // No further reply can come.
  if (connection_->peer_finished() && !connection_->has_more() && early_ == 0) connection_->abort();
  if (next_deadline_ && *next_deadline_ <= now_) time_out();
  connection_->flush();  // what callbacks have started
  if (connection_->ended()) {
    if (early_ > 0) complete_early();
    if (under_way_ > 0) fail_all();
  }
  in_progress_ = false;
  reactor_->set_user_timer(next_deadline_);
  reactor_->arm();
}

void TcpClient::receive() {
  for (int left = kRepliesPerRound; left > 0; --left) {
    auto message = connection_->receive();
    if (!message) return;
    take_reply(std::move(*message));
  }
  if (connection_->has_more()) reactor_->wake();
}

void TcpClient::take_reply(tcp::Message message) {
  const Bytes bytes = message.bytes();
  const auto is_sent = [this](std::size_t i) {
    return slots_[i].state == State::kSent && !slots_[i].is_early;
  };
  const bool is_reply = bytes.size() >= xdr::kWordSize && !oncrpc::is_call(bytes);
  const auto found =
      is_reply ? xids_.find(Xid{xdr::load_word(bytes.data())}, is_sent) : std::nullopt;
  if (!found) {
    ++dropped_;  // of a call that timed out, or of none
    return;
  }
  Slot& slot = slots_[*found];
  slot.reply = std::move(message);
  // The caller's memory is still being sent from: a server may answer before it has read all.
  if (!is_settled(slot)) {
    slot.is_early = true;
    ++early_;
    return;
  }
  complete(static_cast<std::uint32_t>(*found));
}

void TcpClient::complete_early() {
  for (std::uint32_t i = 0; i < slots_.size() && early_ > 0; ++i) {
    Slot& slot = slots_[i];
    if (slot.state != State::kSent || !slot.is_early || !is_settled(slot)) continue;
    slot.is_early = false;
    --early_;
    complete(i);
  }
}

void TcpClient::complete(std::uint32_t index) {
  Slot& slot = slots_[index];
  auto error = read(slot);
  const bool is_opened = steps_.has_steps() && !slot.is_whole;
  if (error && !is_opened) return fail(index, std::move(*error));
  slot.state = State::kOpening;
  if (is_opened) {
    slot.step.seal.failure = std::move(error);
    const StepEnd end =
        slot.step.seal.failure ? steps_.refuse(slot.step) : steps_.open(slot.step, slot.reader);
    if (end == StepEnd::kLater) return;
  }
  handle_opened(index);
}

void TcpClient::handle_opened(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (!slot.is_whole) {
    if (rpc::CallSteps::is_again(slot.step)) {
      slot.reply = {};
      return go_on(index, &TcpClient::seal);
    }
    if (slot.step.seal.failure) {
      return fail(index, *std::exchange(slot.step.seal.failure, std::nullopt));
    }
    if (steps_.has_steps()) steps_.finish_open(slot.step, slot.reader, slot.places());
  }
  slot.state = State::kEnded;
  --under_way_;
  ++ended_calls_;
  if (slot.blocking) return;
  ReplyCallback callback = std::move(slot.callback);
  callback(make_reply(index));
}

// Reads the RPC header; on success slot.reader stands at the results.
std::optional<Error> TcpClient::read(Slot& slot) {
  const Bytes stream = slot.reply.bytes();
  rpc::CallSteps::begin_reply(slot.step);
  std::size_t size = oncrpc::kReplyHeaderSizeMin;
  if (slot.is_whole) {
    if (!oncrpc::is_reply(stream, slot.xid)) return rpc::to_error(nullptr, slot.procedure, peer_);
    size = 0;
  } else if (!oncrpc::is_plain_success(stream, slot.xid)) {
    xdr::Reader reader(stream);
    const auto header = oncrpc::decode_reply(reader);
    if (header) rpc::show(*header, slot.step.seal);
    if (auto error = rpc::to_error(header ? &*header : nullptr, slot.procedure, peer_)) {
      return error;
    }
    size = reader.position();
  }
  std::construct_at(&slot.reader, stream.subspan(size), size);
  slot.reader.set_places(slot.places());
  return std::nullopt;
}

// --- The end of calls --------------------------------------------------------------------------

void TcpClient::time_out() {
  next_deadline_.reset();
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.state != State::kSent && slot.state != State::kSealing) continue;
    if (slot.deadline > now_) {
      next_deadline_ = engine::earlier(next_deadline_, slot.deadline);
    } else if (slot.state == State::kSealing) {
      steps_.hurry(slot.step);
    } else if (is_settled(slot)) {
      fail(i, rpc::to_error(engine::CallError::kTimedOut, {}, peer_));
    } else {
      // Its memory is the caller's again only when the connection lets go of it.
      gave_up_ = true;
      connection_->abort();
    }
  }
}

void TcpClient::fail(std::uint32_t index, Error error) {
  Slot& slot = slots_[index];
  --under_way_;
  ++ended_calls_;
  if (std::exchange(slot.is_early, false)) --early_;
  if (slot.blocking) {
    slot.error = std::move(error);
    slot.state = State::kFailed;
    return;
  }
  ReplyCallback callback = std::move(slot.callback);
  free_slot(index);
  callback(Unexpected<Error>(std::move(error)));
}

void TcpClient::fail_all() {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state == State::kSent) fail(i, lost_error());
    if (slots_[i].state == State::kSealing) steps_.hurry(slots_[i].step);
  }
  next_deadline_.reset();
}

void TcpClient::free_slot(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (!slot.stream.empty()) pool_.give_back(slot.stream);
  slot.stream = {};
  slot.reply = {};
  steps_.forget(slot.step);
  if (slot.is_whole) --whole_calls_;
  slot.callback = {};
  slot.error.reset();
  slot.state = State::kFree;
  free_.push(index);
  // A reply may have waited for this memory, and nothing else would wake the caller's loop.
  if (connection_->starved()) reactor_->wake();
}

void TcpClient::close() noexcept {
  closing_ = true;
  connection_->abort();
  reactor_->wake();  // the calls under way end in the next progress()
}

Error TcpClient::lost_error() const {
  if (closing_) return rpc::to_error(engine::CallError::kCanceled, {}, peer_);
  if (gave_up_) {
    return {Errc::kTimedOut, "the call", peer_, "the server has not taken a call within its time"};
  }
  const tcp::End end = connection_->cause();
  std::string cause = rpc::cause_of_end(end, options_);
  if (stepped_up_) cause = "it has stepped up to RDMA";
  if (!connection_->ended()) cause = "it is not made yet";
  if (end.kind == tcp::EndKind::kStalled && !connection_->connected()) {
    cause = "nothing answered within ProviderOptions::setup_timeout_client";
  }
  // Connecting anew would be of no use against these.
  const bool is_bad =
      end.kind == tcp::EndKind::kTooLarge || end.kind == tcp::EndKind::kTooManyFragments;
  return {is_bad ? Errc::kBadReply : Errc::kConnectionLost, "the connection", peer_,
          std::move(cause)};
}

TransferCounters TcpClient::counters() const noexcept {
  TransferCounters counters;
  counters.calls = counters.short_calls = ended_calls_;
  counters.messages_dropped = dropped_;
  counters.wire_bytes_sent = connection_->bytes_sent();
  counters.wire_bytes_received = connection_->bytes_received();
  return counters;
}

// --- The way to RDMA ---------------------------------------------------------------------------

Expected<int, Error> TcpClient::give_up_socket() {
  RPCRDMA_REQUIRE(!in_progress_, "a callback must not step up");
  const auto refused = [this](std::string cause) {
    return Unexpected<Error>(unsupported("stepping up", peer_, std::move(cause)));
  };
  if (connection_->is_local()) return refused("there is no RDMA over a Unix socket");
  if (!connected()) return Unexpected<Error>(lost_error());
  if (under_way_ > 0) return refused("calls are under way; wait for their replies first");
  auto socket = connection_->release();
  if (!socket) return refused("the server has sent something behind its answers");
  stepped_up_ = true;
  return socket->release();
}

// --- What only RDMA has ------------------------------------------------------------------------

Expected<void, Error> TcpClient::serve(std::uint32_t /*program*/, std::uint32_t /*version*/,
                                       Service& /*service*/) {
  return Unexpected<Error>(
      unsupported("serving calls of the server", peer_, "it needs an rdma:// connection"));
}

Expected<RegisteredMemory, Error> TcpClient::register_memory(Bytes /*memory*/,
                                                             std::byte* /*writable*/) {
  return Unexpected<Error>(
      unsupported("registering memory", peer_, "over TCP it would gain nothing"));
}

Expected<void, Error> TcpClient::resume(rpc::Session& /*session*/) {
  return Unexpected<Error>(unsupported("resuming calls of the client", peer_,
                                       "this client does not outlive its connection"));
}

}  // namespace rpcrdma
