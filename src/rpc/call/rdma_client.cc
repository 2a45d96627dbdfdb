#include "rpc/call/rdma_client.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "oncrpc/message.h"
#include "rpc/call/call_causes.h"
#include "rpc/call/reply_reading.h"
#include "rpc/errors.h"
#include "rpc/terms.h"
#include "rpc/time_limit.h"

namespace rpcrdma {
namespace {}  // namespace

RdmaClient::RdmaClient(rdma::Provider& provider, const ClientOptions& options,
                       std::size_t calls_max, const rpc::CallSender::Limits& limits,
                       bool has_own_call, const transport::MessageRooms* rooms)
    : provider_(provider),
      options_(options),
      errors_(provider),
      pool_(options.memory_max),
      calls_(calls_max, has_own_call),
      rooms_(rooms),
      // Two clients behind one address should not use the same XIDs: servers may remember them.
      last_xid_(static_cast<std::uint32_t>(provider.now().time_since_epoch().count() >> 10)),
      security_(options, [&provider] { return provider.now(); }),
      steps_(security_.auth(), plain_, [&provider] { provider.wake(); }),
      sender_(limits, steps_.growth(), pool_, calls_, memory_) {
  if (options.credential) plain_.set(*options.credential);
  calls_.set_ended_steps(steps_.ended());
}

std::uint32_t RdmaClient::calls_in_flight() const noexcept {
  std::uint32_t calls = calls_.waiting() + steps_.under_way();
  if (connection_ != nullptr) calls += connection_->engine().calls_in_flight();
  return calls - std::min(calls, calls_.own_is_under_way() ? 1U : 0U);
}

std::optional<ConnectionCharacteristics> RdmaClient::characteristics() const noexcept {
  if (!connected() || connection_->engine().protocol_version() != 2) return std::nullopt;
  const engine::CharacteristicTable& table = connection_->engine().option_port().characteristics();
  return ConnectionCharacteristics{table.own(), table.peer()};
}

std::optional<ConnectionTerms> RdmaClient::terms() const noexcept {
  if (!connected()) return std::nullopt;
  return rpc::terms_of(*connection_, provider_.name(), connection_->engine().protocol_version(),
                       connection_->engine().credits_limit());
}

// --- Making a call -----------------------------------------------------------------------------

inline Xid RdmaClient::draw_xid() {
  do {
    ++last_xid_;
  } while (whole_calls_ > 0 && calls_.is_in_use(Xid{last_xid_}));
  return Xid{last_xid_};
}

// The call's stream is there.
inline void RdmaClient::init_slot(Slot& slot, const Procedure& procedure) {
  slot.state = State::kPrepared;
  slot.blocking = slot.holds_receive = false;
  slot.connection = nullptr;
  slot.procedure = procedure;
  calls_.set_xid(slot, draw_xid());
  slot.result_count = 0;
  slot.results_refused = slot.is_whole = false;
  slot.results_size_max = rpc::CallMessage::kResultsSizeDefault;
  slot.timeout = rpc::limited(options_.call_timeout);
  slot.memory.clear();
  slot.error.reset();
  std::construct_at(&slot.writer, slot.arguments());
}

Expected<Call, Error> RdmaClient::prepare(const Procedure& procedure,
                                          std::uint32_t arguments_size_max) {
  if (!connected() && (ended() || !ever_connected_)) return Unexpected<Error>(lost_error());
  if (calls_.full()) {
    return Unexpected<Error>(
        errors_.explain({rpc::CallSender::Refusal::Kind::kEngine, engine::StartError::kQueueFull}));
  }
  const std::uint32_t index = calls_.next();
  Slot& slot = calls_[index];
  const std::size_t size = rpc::kHeaderRoom + std::size_t{arguments_size_max};
  slot.stream_is_room = size <= transport::MessageRooms::kSize;
  slot.stream = slot.stream_is_room ? room_memory(index) : pool_.take(size);
  if (slot.stream.empty()) {
    return Unexpected<Error>(Error{Errc::kNoResources, "preparing a call", errors_.peer(),
                                   "ClientOptions::memory_max is used up by calls under way"});
  }
  calls_.take();
  init_slot(slot, procedure);
  return make_call(index);
}

Expected<Call, Error> RdmaClient::prepare_message(std::uint32_t size_max) {
  auto call = prepare({}, size_max);
  if (!call) return call;
  calls_[slot_of(*call)].is_whole = true;
  ++whole_calls_;
  return call;
}

void RdmaClient::init_own_call(const Procedure& procedure) {
  Slot& slot = calls_[calls_.own()];
  slot.stream = room_memory(calls_.own());
  slot.stream_is_room = true;
  init_slot(slot, procedure);
}

Expected<void, Error> RdmaClient::start(Call&& call, ReplyCallback&& callback) {
  const std::uint32_t index = take_slot(call);
  if (auto error = begin(index, false, std::move(callback))) {
    return Unexpected<Error>(std::move(*error));
  }
  if (!in_progress_) handle_started();  // else progress() does it for all that callbacks start
  return {};
}

std::optional<Error> RdmaClient::begin(std::uint32_t index, bool blocking,
                                       ReplyCallback&& callback) {
  Slot& slot = calls_[index];
  RPCRDMA_REQUIRE(slot.state == State::kPrepared, "a Call is started twice");
  if (slot.results_refused || !slot.writer.ok()) [[unlikely]] {
    const bool is_place = slot.results_refused;
    std::string cause = rpc::cause_of_refusal(slot);
    free_slot(index);
    return Error{Errc::kTooLarge, is_place ? "placing the results" : "encoding the arguments",
                 errors_.peer(), std::move(cause)};
  }
  if (slot.is_whole) [[unlikely]] {
    const auto xid = rpc::xid_of(slot.writer, slot.arguments());
    if (!xid || calls_.is_in_use(*xid)) {
      free_slot(index);
      return xid ? rpc::xid_in_use(errors_.peer()) : rpc::no_call(errors_.peer());
    }
    calls_.set_xid(slot, *xid);
  }
  auto error = finishes_messages_ ? finish_message(slot) : std::nullopt;
  if (!error) error = keeps_calls_ ? start_or_wait(slot) : start_in_engine(slot);
  if (error) [[unlikely]] {
    free_slot(index);
    return error;
  }
  slot.blocking = blocking;
  slot.callback = std::move(callback);
  return std::nullopt;
}

std::optional<Error> RdmaClient::start_or_wait(Slot& slot) {
  slot.deadline = now() + slot.timeout;
  slot.lost_alone = 0;
  if (may_start()) return start_in_engine(slot);
  if (ended()) return lost_error();
  wait_for_connection(slot);
  return std::nullopt;
}

// Precondition: there is a connection.
inline std::optional<Error> RdmaClient::send(Slot& slot) {
  const auto refusal = sender_.start(slot, *connection_, now());
  if (!refusal) return std::nullopt;
  const bool is_lost = refusal->kind == rpc::CallSender::Refusal::Kind::kEngine &&
                       refusal->error == engine::StartError::kNotConnected;
  return is_lost ? lost_error() : errors_.explain(*refusal);
}

std::optional<Error> RdmaClient::start_in_engine(Slot& slot) {
  if (connection_ == nullptr || connection_->ended() || use_ == Use::kNoMore) return lost_error();
  if (steps_.has_steps() && !slot.is_whole) [[unlikely]]
    return seal(slot);
  steps_.seal_plain(slot.step);
  return send(slot);
}

std::optional<Error> RdmaClient::seal(Slot& slot) {
  if (const auto xid = std::exchange(slot.step.call_xid, std::nullopt)) {
    calls_.set_xid(slot, whole_calls_ > 0 && calls_.is_in_use(*xid) ? draw_xid() : *xid);
  }
  const StepEnd end = steps_.seal(slot.step, slot.procedure, slot.xid, slot.writer,
                                  slot.arguments(), errors_.peer());
  slot.connection = connection_;
  if (!keeps_calls_ || calls_.is_own(calls_.index_of(slot))) slot.deadline = now() + slot.timeout;
  if (end == StepEnd::kDone) return send_sealed(slot);
  slot.state = State::kSealing;
  next_hurry_ = engine::earlier(next_hurry_, slot.deadline);
  return std::nullopt;
}

// What went wrong while it was sealed, if anything, or with its start.
std::optional<Error> RdmaClient::send_sealed(Slot& slot) {
  if (slot.step.seal.failure) return std::exchange(slot.step.seal.failure, std::nullopt);
  if (slot.step.seal.is_control) {
    slot.step.call_xid = slot.xid;
    calls_.set_xid(slot, draw_xid());
  }
  return send(slot);
}

// --- Its end -----------------------------------------------------------------------------------

void RdmaClient::handle(const engine::Event& event) {
  if (const auto* reply = std::get_if<engine::ReplyReady>(&event)) {
    handle_reply(calls_.find(reply->call), *reply);
  } else if (const auto* failed = std::get_if<engine::CallFailed>(&event)) {
    handle_failed(calls_.find(failed->call), failed->error);
  } else {
    handle_other(event);
  }
}

void RdmaClient::handle_failed(std::uint32_t index, engine::CallError error) {
  // What each connection begins with tells nothing of the calls behind it.
  const bool is_own = calls_.is_own(index);
  const bool is_made_again = !is_own && !calls_[index].is_whole;
  if (error == engine::CallError::kConnectionLost && waits_for_next() && is_made_again) {
    return wait_for_connection(calls_[index]);
  }
  const bool is_lost = error == engine::CallError::kConnectionLost;
  if (is_lost && !is_own && calls_[index].is_whole) whole_call_lost_ = true;
  if (error != engine::CallError::kTimedOut && !is_lost && !is_own) heard_ = true;  // an answer
  if (closing_ && error == engine::CallError::kConnectionLost) error = engine::CallError::kCanceled;
  Error explained = errors_.explain(error, connection_);
  if (error == engine::CallError::kChunk && !is_own) {
    explained.cause = rpc::cause_of_chunk_error(
        calls_[index], connection_ != nullptr ? connection_->reads_served_max() : 1);
  }
  fail(index, std::move(explained));
}

inline void RdmaClient::complete(std::uint32_t index) {
  Slot& slot = calls_[index];
  slot.state = State::kEnded;
  if (slot.blocking) return;
  ReplyCallback callback = std::move(slot.callback);
  callback(make_reply(index));
}

void RdmaClient::handle_reply(std::uint32_t index, const engine::ReplyReady& reply) {
  Slot& slot = calls_[index];
  slot.holds_receive = true;
  if (steps_.has_steps()) [[unlikely]]
    rpc::CallSteps::begin_reply(slot.step);
  auto error = rpc::read_reply(slot, reply, errors_.peer());
  if (steps_.has_steps() && !slot.is_whole) [[unlikely]]
    return open_reply(index, std::move(error));
  if (error) return fail(index, std::move(*error));
  memory_.take_back(slot.memory, slot.connection);
  if (!calls_.is_own(index)) heard_ = true;
  complete(index);
}

// Its authenticator sees it first, also if it denies the call.
void RdmaClient::open_reply(std::uint32_t index, std::optional<Error>&& error) {
  Slot& slot = calls_[index];
  memory_.take_back(slot.memory, slot.connection);
  if (!calls_.is_own(index) && !error) heard_ = true;
  slot.state = State::kOpening;
  slot.step.seal.failure = std::move(error);
  const StepEnd end =
      slot.step.seal.failure ? steps_.refuse(slot.step) : steps_.open(slot.step, slot.reader);
  if (end == StepEnd::kDone) handle_opened(index);
}

void RdmaClient::handle_opened(std::uint32_t index) {
  Slot& slot = calls_[index];
  if (rpc::CallSteps::is_again(slot.step)) {
    give_back(index, true);
    return go_on(slot, false);
  }
  if (slot.step.seal.failure) {
    return fail(index, *std::exchange(slot.step.seal.failure, std::nullopt));
  }
  steps_.finish_open(slot.step, slot.reader, slot.places());
  complete(index);
}

void RdmaClient::fail(std::uint32_t index, Error error) {
  Slot& slot = calls_[index];
  memory_.take_back(slot.memory, slot.connection);
  if (slot.blocking) {
    slot.error = std::move(error);
    slot.state = State::kFailed;
    return;
  }
  ReplyCallback callback = std::move(slot.callback);
  free_slot(index);
  callback(Unexpected<Error>(std::move(error)));
}

void RdmaClient::free_slot(std::uint32_t index) {
  give_back(index, false);
}

void RdmaClient::give_back(std::uint32_t index, bool keeps_call) {
  Slot& slot = calls_[index];
  memory_.take_back(slot.memory, slot.connection);
  if (slot.holds_receive) {
    engine::Connection& engine = slot.connection->engine();
    engine.release(slot.id);
    slot.holds_receive = false;
    if (!in_progress_) handle_released(engine.calls_waiting() > 0);
  }
  const bool has_stream = !slot.stream.empty() && !slot.stream_is_room && !keeps_call;
  if (has_stream) pool_.give_back(slot.stream);
  if (!slot.reply_room.empty()) pool_.give_back(slot.reply_room);
  // A call of the peer may have waited for this memory.
  const bool may_be_waited_for = has_stream || !slot.reply_room.empty();
  if (may_be_waited_for && !in_progress_ && connection_ != nullptr &&
      connection_->engine().calls_in_service() > 0) {
    provider_.wake();
  }
  slot.reply_room = {};
  if (keeps_call) [[unlikely]]
    return;
  steps_.forget(slot.step);
  if (slot.is_whole) --whole_calls_;
  slot.callback = {};
  slot.error.reset();
  calls_.free(index);
}

// --- Steps of authentication that end elsewhere ------------------------------------------------

void RdmaClient::take_steps() {
  if (steps_.under_way() == 0) [[likely]]
    return;
  if (next_hurry_ && *next_hurry_ <= now_) {
    next_hurry_ = calls_.hurry_sealing(now_, [this](Slot& slot) { steps_.hurry(slot.step); });
  }
  steps_.take_all([this](std::uint32_t index) {
    Slot& slot = calls_[index];
    // What a connection begins with means nothing to the next one.
    const bool is_of_this = connection_ != nullptr && slot.connection == connection_;
    if (calls_.is_own(index) && !is_of_this) return free_slot(index);
    if (slot.state == State::kOpening) return handle_opened(index);
    go_on(slot, true);
  });
}

// Time has passed, and the connection may be another one or none: what was sealed is good for one
// transmission, but for any connection.
void RdmaClient::go_on(Slot& slot, bool is_sealed) {
  const bool is_own = calls_.is_own(calls_.index_of(slot));
  const bool has_failed = slot.step.seal.failure.has_value();
  slot.timeout = std::max(slot.deadline - now_, std::chrono::nanoseconds{0});
  std::optional<Error> error;
  if (!has_failed && closing_) {
    error = lost_error();  // nothing goes out, of a step that was hurried least of all
  } else if (!has_failed && slot.timeout.count() == 0) {
    error = errors_.explain(engine::CallError::kTimedOut, connection_);
  } else if (!has_failed && keeps_calls_ && !is_own && !may_start() && waits_for_next()) {
    return wait_for_connection(slot);
  } else if (!has_failed &&
             (connection_ == nullptr || connection_->ended() || use_ == Use::kNoMore)) {
    error = lost_error();
  } else {
    error = is_sealed ? send_sealed(slot) : seal(slot);
  }
  if (error) fail(calls_.index_of(slot), std::move(*error));
}

// --- Calls that wait for a connection ----------------------------------------------------------

// Its time counts from now on, however long the session of a lost connection stays.
void RdmaClient::wait_for_connection(Slot& slot) {
  memory_.take_back(slot.memory, slot.connection);
  calls_.wait(slot);
  handle_waiting();
}

void RdmaClient::start_waiting() {
  while (calls_.waiting() > 0 && may_start()) {
    Slot& oldest = calls_.oldest_waiting();
    calls_.leave();
    oldest.timeout = std::max(oldest.deadline - now_, std::chrono::nanoseconds{0});
    if (auto error = start_in_engine(oldest)) {
      if (connection_->ended()) return wait_for_connection(oldest);
      fail(calls_.index_of(oldest), std::move(*error));
    }
  }
}

void RdmaClient::fail_waiting(bool all) {
  for (std::uint32_t i = 0; i < calls_.size() && calls_.waiting() > 0; ++i) {
    const Slot& slot = calls_[i];
    if (slot.state != State::kWaiting || (!all && slot.deadline > now_)) continue;
    calls_.leave();
    fail(i, all ? lost_error() : Error{Errc::kTimedOut, "the call", errors_.peer(), absence()});
  }
}

}  // namespace rpcrdma
