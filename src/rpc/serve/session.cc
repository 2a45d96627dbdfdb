#include "rpc/serve/session.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>

#include "base/assert.h"
#include "engine/work_id.h"
#include "rpc/engine_options.h"
#include "rpc/serve/admission.h"
#include "rpc/serve/call_name.h"

namespace rpcrdma::rpc {
namespace {

// Events of one turn: Calls and their ends.
constexpr std::size_t kEventsPerTurn = 256;

}  // namespace

// --- Context -----------------------------------------------------------------------------------

Session* session_of(const CallContext& context) noexcept {
  return context.session();
}

std::string_view Context::peer_address() const noexcept {
  return session_.connection_->peer_address();
}

MutableBytes Context::results_room(std::size_t size) {
  return size <= transport::MessageRooms::kSize
             ? room().memory
             : session_.memory_.borrow(held_, size).value_or(MutableBytes{});
}

MutableBytes Context::result_memory(std::uint32_t size) {
  const MutableBytes memory = session_.memory_.borrow(held_, size).value_or(MutableBytes{});
  return memory.empty() ? memory : memory.first(size);
}

transport::Connection::Room Context::room() const {
  return session_.connection_->answer_room(engine::slot_of(call_));
}

void Context::handle_answered() {
  if (session_.mailbox_.in_turn_of(session_)) {
    session_.send_answer(*this);
  } else {
    session_.mailbox_.deliver(session_, call_);
  }
}

void Context::end_connection() {
  session_.why_ended_ = why_ending();
  session_.connection_->engine().drop(call_, engine::DropReason::kUnheard);
  session_.disconnect();
}

void Context::want_turn() noexcept {
  session_.want_turn();
}

void Context::handle_step_ended() {
  session_.mailbox_.deliver(session_, call_);
}

// --- Session -----------------------------------------------------------------------------------

[[gnu::noinline]] static void add_context(std::unique_ptr<Context>& context, Session& session) {
  context = std::make_unique<Context>(session);
}

Session::Session(transport::Connection& connection, const Surroundings& surroundings,
                 std::size_t contexts)
    : connection_(&connection),
      chunk_memory_(*this, surroundings.pool, surroundings.memory_queue),
      memory_(connection, surroundings.pool, surroundings.regions, chunk_memory_.share()),
      registry_(surroundings.registry),
      cache_(surroundings.cache),
      duplicates_(surroundings.cache),
      mailbox_(surroundings.mailbox) {
  contexts_.resize(contexts);
}

// A session dies with calls in it only when its server does; the connection has gone first, so that
// nothing moves in the memory any more.
Session::~Session() {
  RPCRDMA_ASSERT(caller_.caller() == nullptr, "a session goes whose caller was not told");
  for (const auto& context : contexts_) {
    if (context == nullptr) continue;
    chunk_memory_.stop_waiting(*context);
    context->end_call();
    memory_.abandon(context->held_);
  }
}

bool Session::progress(Instant now) noexcept {
  now_ = now;
  std::size_t left = kEventsPerTurn;
  for (bool again = true; again && left > 0;) {
    connection_->pump(now);
    engine::Connection& engine = connection_->engine();
    if (!engine.option_port().characteristics().experimental().empty()) [[unlikely]] {
      tell_changes(engine.option_port());  // in front of the Calls that came behind
    }
    const engine::Event* event = engine.event();
    again = event != nullptr;
    for (; event != nullptr && left > 0; event = engine.event(), --left) {
      handle(*event);
      engine.drop_event();
    }
    // Behind the events: they may have given memory back, and the connection may have ended.
    if (chunk_memory_.anybody_waits() && retry_waiting()) again = true;
    if (duplicates_.waiting() > 0 && retry_duplicates()) again = true;
  }
  return left > 0;
}

void Session::answer(engine::CallId call) {
  Context& context = this->context(call);
  if (context.auth_.stage != CallAuth::Stage::kNone) [[unlikely]]
    return go_on(context);
  send_answer(context);
}

void Session::drop_step(engine::CallId call) {
  if (context(call).drop_step()) --steps_;
}

Context& Session::context(engine::CallId call) {
  std::unique_ptr<Context>& context = contexts_.at(engine::slot_of(call));
  if (context == nullptr) [[unlikely]]
    add_context(context, *this);
  return *context;
}

void Session::handle(const engine::Event& event) {
  if (const auto* received = std::get_if<engine::CallReceived>(&event)) {
    return handle_received(*received);
  }
  if (const auto* done = std::get_if<engine::CallDone>(&event)) return handle_done(*done);
  if (const auto* wanted = std::get_if<engine::MemoryWanted>(&event)) {
    return chunk_memory_.handle_wanted(*wanted);
  }
  if (const auto* refused = std::get_if<engine::ChunkRefused>(&event)) {
    const Context& context = this->context(refused->call);
    const bool is_here = context.active_ && context.call_ == refused->call;
    const std::uint64_t name = is_here ? context.name_ : recent_calls_.name_of(refused->call);
    return cache_.note_refused(name, now_);
  }
  BackwardCaller* const caller = caller_.caller();
  RPCRDMA_ASSERT(caller != nullptr, "the end of a backward Call without a caller");
  caller->handle_event(now_, event);
}

// --- A Call ------------------------------------------------------------------------------------

// Whether the Call, before any of its chunks is touched, is one that has ended a connection.
bool Session::was_refused(Context& context, Xid xid, Bytes inline_part) {
  if (host_ == 0) {
    const std::string host = host_of(connection_->peer_address());
    host_ = ReplyCache::checksum(std::as_bytes(std::span(host)), 0) | 1U;
  }
  context.name_ =
      name_of_call(host_, connection_->engine().chunk_digest(context.call_), xid, inline_part);
  return cache_.was_refused(context.name_, now_);
}

// Reads the RPC header and finds the service. False: the call was answered, or waits for a step.
bool Session::accept_header(Context& context, Bytes stream, Xid expected,
                            std::span<const MessageReader::Placed> placed) {
  if (stream.size() < xdr::kWordSize || Xid{xdr::load_word(stream.data())} != expected) {
    // RFC 8166 §4.2.1: both headers name one XID. Whatever else is wrong, no reply could be right.
    connection_->engine().reject(context.call_);
    return false;
  }
  const Admission admission = context.admit(registry_, stream, refusal_);
  if (admission.verdict != Admission::Verdict::kAccepted) [[unlikely]] {
    switch (admission.verdict) {
      case Admission::Verdict::kAccepted:
        break;
      case Admission::Verdict::kRefused:
        context.take_refusal(refusal_) ? send_answer(context) : send_plain(context, refusal_);
        break;
      case Admission::Verdict::kLater:
        ++steps_;
        break;
      case Admission::Verdict::kEnds:
        context.end_connection();
        break;
      case Admission::Verdict::kNoCall:
        // XIDs are separate for each direction: an answer would end a Call of ours with this one's.
        connection_->engine().drop(context.call_, engine::DropReason::kIsReply);
        break;
      case Admission::Verdict::kCutOff:
        // ERR_CHUNK gives the requester its credit back (RFC 8166 §4.5.2).
        connection_->engine().reject(context.call_);
        break;
    }
    return false;
  }
  context.service_ = admission.service;
  context.header_size_ = admission.header_size;
  context.traits_ = admission.traits;
  context.is_whole_ = admission.is_whole;
  const std::size_t size = admission.header_size;
  const Bytes arguments = stream.subspan(size);
  if (placed.empty()) [[likely]] {
    std::construct_at(&context.arguments_, arguments, size);
  } else {
    std::construct_at(&context.arguments_, arguments, size, placed);
  }
  if (connection_->profile() == engine::Profile::kRfc5666) {
    context.may_answer_by_read_ = context.traits_ != nullptr && context.traits_->may_answer_by_read;
  }
  return true;
}

// A step of authentication has ended elsewhere.
void Session::go_on(Context& context) {
  using Stage = CallAuth::Stage;
  --steps_;
  const Stage stage = std::exchange(context.auth_.stage, Stage::kNone);
  if (stage == Stage::kSealing) return send_answer(context);
  if (connection_->ended()) return connection_->engine().reject(context.call_);
  if (stage == Stage::kUnwrapping) {
    context.finish_unwrap();
    if (!context.why_ending().empty()) return context.end_connection();
    return context.status_ == AcceptStatus::kSuccess ? serve(context, {}) : send_answer(context);
  }
  const AuthStatus status = context.accepted();
  if (!context.why_ending().empty()) return context.end_connection();
  if (status != AuthStatus::kOk) {
    context.auth_.end();
    return send_plain(context, {context.header_.xid, oncrpc::AuthError{status}});
  }
  handle(*std::exchange(context.again_, std::nullopt));
}

void Session::handle_received(const engine::CallReceived& received) {
  Context& context = this->context(received.call);
  const bool is_new = !context.active_;  // else its Read chunks have been asked for
  context.active_ = true;
  context.call_ = received.call;
  if (is_new && received.has_chunks && was_refused(context, received.xid, received.inline_part)) {
    return connection_->engine().reject(received.call);
  }
  const Bytes stream = received.long_part
                           ? Bytes(context.held_.loans[0].buffer).first(received.long_part->size)
                           : received.inline_part;
  // The loans are the Long Call's stream, if any, then one for each item that is not empty.
  if (received.items.empty()) {
    if (!accept_header(context, stream, received.xid, {})) [[unlikely]] {
      if (context.auth_.stage != CallAuth::Stage::kNone) context.again_ = received;
      return;
    }
    if (received.padding != nullptr && context.is_whole_) [[unlikely]] {
      // Only the reader of the message could tell its fill bytes.
      context.status_ = AcceptStatus::kGarbageArgs;
      return send_answer(context);
    }
    if (received.padding != nullptr) [[unlikely]] {
      context.arguments_.set_alignment(received.padding->alignment, received.padding->threshold,
                                       received.padding->start);
    }
    return serve(context, {});
  }
  std::array<MessageReader::Placed, engine::kReadChunksMax> placed;
  std::size_t count = 0;
  std::size_t loan = context.has_long_part_ ? 1 : 0;
  for (const engine::PulledItem& item : received.items) {
    placed[count++] = {item.position,
                       item.data.size == 0
                           ? Bytes{}
                           : Bytes(context.held_.loans[loan++].buffer).first(item.data.size)};
  }
  const auto found = std::span(placed).first(count);
  if (!accept_header(context, stream, received.xid, found)) {
    if (context.auth_.stage != CallAuth::Stage::kNone) context.again_ = received;
    return;
  }
  serve(context, found);
}

void Session::serve(Context& context, std::span<const MessageReader::Placed> placed) {
  if (context.is_to_be_unwrapped()) [[unlikely]] {
    // Nothing of it is eligible for direct placement (RFC 8166 §6.1).
    context.status_ = AcceptStatus::kGarbageArgs;
    if (placed.empty() && !context.unwrap()) {
      ++steps_;
      return;
    }
    if (!context.why_ending().empty()) return context.end_connection();
    if (context.status_ != AcceptStatus::kSuccess) return send_answer(context);
  }
  if (!duplicates_.concern(context.traits_)) [[likely]]
    return execute(context);
  using Next = DuplicateCalls::Next;
  const Next next = duplicates_.begin(context, connection_->peer_address(), placed);
  if (next == Next::kExecute) return execute(context);
  if (next == Next::kAnswer) send_answer(context);
}

void Session::execute(Context& context) {
  context.status_ = AcceptStatus::kSuccess;
  if (!context.reserve_results(kResultsSizeDefault)) {
    context.status_ = AcceptStatus::kSystemErr;
    return send_answer(context);
  }
  if (context.header_.procedure.number == 0 && !context.is_whole_) {
    send_answer(context);  // NULL, RFC 5531 §12: always answers
  } else {
    context.service_->call(context);
  }
}

// Returns whether any went on.
bool Session::retry_duplicates() {
  bool moved = false;
  for (const auto& each : contexts_) {
    if (each == nullptr) continue;
    Context& context = *each;
    if (!DuplicateCalls::waits(context)) continue;
    if (connection_->ended()) {
      duplicates_.give_up(context);
      connection_->engine().reject(context.call_);
    } else {
      const auto next = duplicates_.retry(context);
      if (next == DuplicateCalls::Next::kWait) continue;
      if (next == DuplicateCalls::Next::kExecute) execute(context);
      if (next == DuplicateCalls::Next::kAnswer) send_answer(context);
    }
    moved = true;
  }
  return moved;
}

// --- Its answer --------------------------------------------------------------------------------

void Session::send_answer(Context& context) {
  RPCRDMA_REQUIRE(context.active_, "a call is answered twice");
  duplicates_.handle_answer(context);
  if (context.is_to_be_sealed() && !context.seal()) [[unlikely]] {
    ++steps_;
    return;
  }
  if (!context.why_ending().empty()) [[unlikely]]
    return context.end_connection();
  const auto place = context.room();
  const bool is_in_room = context.results_buffer_.data() == place.memory.data();
  const bool is_plain = context.status_ == AcceptStatus::kSuccess &&
                        context.auth_.with == nullptr && context.results_.items().empty();
  if (!is_in_room || !is_plain) return send_long_answer(context, place);
  // The common case: all of it is in the message room.
  const std::size_t start = context.write_header();
  const std::size_t size = kReplyRoom - start + context.results_.size();
  const engine::Fragment run{place.lease, static_cast<std::uint32_t>(size), place.offset + start,
                             0};
  engine::Outgoing reply;
  reply.may_be_read = context.may_answer_by_read_;
  reply.stream = {&run, 1};
  reply.header_room = place.header_room() + start;
  connection_->engine().start_reply(context.call_, reply);
}

void Session::send_long_answer(Context& context, const transport::Connection::Room& place) {
  Context::Wrapped wrapped;
  bool is_wrapped = false;
  if (context.auth_.with != nullptr) {
    wrapped = context.take_wrapped();
    is_wrapped = context.auth_.call.is_wrapped;
  }
  if (context.status_ != AcceptStatus::kSuccess) return send_plain(context, context.plain_header());
  const std::size_t start = context.write_header();
  CallMemory::Stream stream;
  const Bytes header = Bytes(context.results_buffer_).subspan(start, kReplyRoom - start);
  bool is_located =
      wrapped.replaced
          ? memory_.locate(context.held_, place, {header, *wrapped.replaced}, stream)
          : memory_.locate(context.held_, place, context.results_, context.results_buffer_,
                           {start, kReplyRoom}, is_wrapped, stream);
  if (!wrapped.after.empty()) [[unlikely]] {
    const Bytes after = context.put_behind(wrapped.after);
    is_located = is_located && memory_.locate(context.held_, place, {after}, stream);
  }
  if (!is_located) {
    context.status_ = AcceptStatus::kSystemErr;
    return send_plain(context, context.plain_header());
  }
  engine::Outgoing reply;
  reply.may_be_read = context.may_answer_by_read_;
  reply.stream = stream.view();
  connection_->engine().start_reply(context.call_, reply);
}

// Sends a reply without results.
void Session::send_plain(Context& context, const oncrpc::ReplyHeader& header) {
  const auto place = context.room();
  xdr::Writer writer(place.memory);
  oncrpc::encode_reply(header, writer);
  const engine::Fragment run{place.lease, static_cast<std::uint32_t>(writer.position()),
                             place.offset, 0};
  engine::Outgoing reply;
  reply.stream = {&run, 1};
  reply.header_room = place.header_room();
  connection_->engine().start_reply(context.call_, reply);
}

void Session::handle_done(const engine::CallDone& done) {
  Context& context = this->context(done.call);
  RPCRDMA_ASSERT(context.active_ && context.call_ == done.call, "the end of no call");
  if (context.name_ != 0) recent_calls_.note(done.call, std::exchange(context.name_, 0));
  chunk_memory_.stop_waiting(context);
  memory_.release(context.held_);
  context.end_call();
  context.again_.reset();
  context.has_long_part_ = context.is_judged_ = context.has_had_turn_ = false;
  context.lent_ = 0;
  context.active_ = false;
}

}  // namespace rpcrdma::rpc
