#include "rpc/serve/session.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>

#include "base/assert.h"
#include "engine/work_id.h"
#include "rpc/engine_options.h"
#include "rpc/serve/call_name.h"

namespace rpcrdma::rpc {
namespace {

// The most events of one turn: Calls and their ends.
constexpr std::size_t kEventsPerTurn = 256;

}  // namespace

// --- Context -----------------------------------------------------------------------------------

Session* session_of(const CallContext& context) noexcept {
  return context.session();
}

Context::Context(Session& session) noexcept : IncomingCall(session.serving_), session_(session) {}

transport::Connection::Room Context::room() const {
  return session_.connection_->answer_room(engine::slot_of(call_));
}

void Context::want_turn() noexcept {
  session_.want_turn();
}

// --- Session -----------------------------------------------------------------------------------

[[gnu::noinline]] static void add_context(std::unique_ptr<Context>& context, Session& session) {
  context = std::make_unique<Context>(session);
}

Session::Session(transport::Connection& connection, const Surroundings& surroundings,
                 std::size_t contexts)
    : connection_(&connection),
      chunk_memory_(*this, surroundings.pool, surroundings.memory_queue),
      of_host_(surroundings.host_memory, connection.peer_address()),
      memory_(connection, surroundings.pool, surroundings.regions, chunk_memory_.share(), of_host_),
      cache_(surroundings.cache),
      serving_(*this, surroundings.registry, surroundings.cache, surroundings.mailbox,
               surroundings.meter) {
  contexts_.resize(contexts);
}

// A session has calls in it only when its server ends; the connection has gone first, so that
// nothing moves in the memory any more.
Session::~Session() {
  RPCRDMA_ASSERT(caller_.caller() == nullptr, "a session goes whose caller was not told");
  for (const auto& context : contexts_) {
    if (context == nullptr) continue;
    if (context->ticket_) chunk_memory_.stop_waiting(*context);
    context->end_call();
    memory_.abandon(context->held_);
  }
}

bool Session::progress(RoundTime& time) noexcept {
  time_ = &time;
  now_ = time.now();
  std::size_t left = kEventsPerTurn;
  bool has_more = false;
  for (bool again = true; again && left > 0;) {
    has_more = connection_->pump(now_, time.begun()) == transport::Connection::Moved::kPart;
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
    if (serving_.waits_for_a_duplicate() && serving_.retry_duplicates()) again = true;
    if (!again) break;
    time.refresh();
    now_ = time.now();
  }
  return left > 0 && !has_more;
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
    return cache_.note_refused(name_of(refused->call), host_, now_);
  }
  RPCRDMA_ASSERT(caller_.caller() != nullptr, "the end of a backward Call without a caller");
  caller_.handle_event(now_, event);
}

// Returns the name of a Call with chunks that is in service, or was answered not long ago; 0: it
// has none.
std::uint64_t Session::name_of(engine::CallId call) {
  const Context& context = this->context(call);
  if (context.active_ && context.call_ == call) return context.name_;
  const Named* const done = named_.find([call](const Named& each) { return each.call == call; });
  return done != nullptr ? done->name : 0;
}

// --- A Call ------------------------------------------------------------------------------------

// Returns whether the Call has ended a connection before. Called before any of its chunks is
// touched.
bool Session::was_refused(Context& context, Xid xid, Bytes inline_part) {
  if (host_ == 0) {
    const std::string host = host_of(connection_->peer_address());
    host_ = ReplyCache::checksum(std::as_bytes(std::span(host)), 0) | 1U;
  }
  context.name_ = name_of_call(host_, connection_->engine().responder().chunk_digest(context.call_),
                               xid, inline_part);
  return cache_.was_refused(context.name_, now_);
}

// Returns whether the message is the expected Call. RFC 8166 §4.2.1: both headers name one XID; if
// they do not, no reply could be right. A header that was judged must be the same still.
bool Session::names(const Context& context, Bytes stream, Xid expected) noexcept {
  return stream.size() >= xdr::kWordSize && Xid{xdr::load_word(stream.data())} == expected &&
         (!context.is_admitted() || context.is_still(stream));
}

void Session::handle_time(Instant now) noexcept {
  now_ = now;
  connection_->engine().handle_time(now);
}

// Handles the event again that waited for a step of authentication.
void Session::handle_admitted(IncomingCall& call) {
  handle(*std::exchange(static_cast<Context&>(call).again_, std::nullopt));
}

[[gnu::noinline]] void Session::note_chunks(Context& context,
                                            const engine::CallReceived& received) const noexcept {
  MeteredCall& metered = context.metered_;
  metered.is_long = received.long_part.has_value();
  metered.read_chunks = received.items.size();
  for (const engine::PulledItem& item : received.items) metered.arguments_size += item.data.size;
  if (metered.is_long || metered.read_chunks > 0) serving_.meter()->note_reads(metered);
}

void Session::handle_received(const engine::CallReceived& received) {
  Context& context = this->context(received.call);
  const bool is_new = !context.active_;  // else its Read chunks have been asked for
  context.active_ = true;
  context.call_ = received.call;
  if (is_new && received.has_chunks && was_refused(context, received.xid, received.inline_part)) {
    return connection_->engine().responder().reject(received.call);
  }
  const Bytes stream = received.long_part
                           ? Bytes(context.held_.loans[0].buffer).first(received.long_part->size)
                           : received.inline_part;
  if (serving_.meter() != nullptr) [[unlikely]] {
    if (is_new) serving_.note_arrival(context);
    context.metered_.arguments_size = stream.size();
    if (received.has_chunks) note_chunks(context, received);
  }
  // The loans are the Long Call's stream, if any, then one for each item that is not empty.
  if (!admit(context, stream, received.xid, received)) [[unlikely]]
    return;
  if (received.items.empty()) {
    if (received.padding != nullptr && context.is_whole_) [[unlikely]] {
      // Only the reader of the message could tell its fill bytes.
      return serving_.refuse(context, AcceptStatus::kGarbageArgs);
    }
    context.set_arguments(stream);
    if (received.padding != nullptr) [[unlikely]] {
      context.arguments_.set_alignment(received.padding->alignment, received.padding->threshold,
                                       received.padding->start);
    }
    return serving_.serve(context);
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
  context.set_arguments(stream, found);
  serving_.serve(context, found);
}

// --- Its answer --------------------------------------------------------------------------------

std::string_view Session::peer_address() const noexcept {
  return connection_->peer_address();
}

MutableBytes Session::room(IncomingCall& call, std::size_t size) {
  return size <= transport::MessageRooms::kSize ? static_cast<Context&>(call).room().memory
                                                : borrow(call, size);
}

MutableBytes Session::borrow(IncomingCall& call, std::size_t size) {
  if (!of_host_.may_take(size)) return {};
  return memory_.borrow(static_cast<Context&>(call).held_, size).value_or(MutableBytes{});
}

bool Session::send(IncomingCall& call, std::size_t start, const WrappedResults& wrapped) {
  auto& context = static_cast<Context&>(call);
  const auto place = context.room();
  const bool is_in_room = context.results_buffer_.data() == place.memory.data();
  const bool is_plain = context.auth_.with == nullptr && context.results_.items().empty();
  if (!is_in_room || !is_plain) return send_runs(context, start, wrapped);
  // The common case: all of it is in the message room.
  const std::size_t size = kReplyRoom - start + context.results_.size();
  const engine::Fragment run{place.lease, static_cast<std::uint32_t>(size), place.offset + start,
                             0};
  engine::Outgoing reply;
  reply.may_be_read = let_be_read(context);
  reply.stream = {&run, 1};
  reply.header_room = place.header_room() + start;
  connection_->engine().responder().start_reply(context.call_, reply);
  return true;
}

bool Session::send_runs(Context& context, std::size_t start, const WrappedResults& wrapped) {
  const auto place = context.room();
  const bool is_wrapped = context.auth_.with != nullptr && context.auth_.call.is_wrapped;
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
  if (!is_located) return false;
  engine::Outgoing reply;
  reply.may_be_read = let_be_read(context);
  reply.stream = stream.view();
  connection_->engine().responder().start_reply(context.call_, reply);
  return true;
}

// Returns whether the requester may read the results out of this server's memory (RFC 5666). The
// time that it has for this begins with the answer.
bool Session::let_be_read(const Context& context) {
  const bool may = connection_->profile() == Profile::kRfc5666 && context.traits_ != nullptr &&
                   context.traits_->may_answer_by_read;
  if (may && time_ != nullptr) {
    time_->refresh();
    handle_time(time_->now());
  }
  return may;
}

void Session::send_plain(IncomingCall& call, const oncrpc::ReplyHeader& header) {
  const auto& context = static_cast<const Context&>(call);
  const auto place = context.room();
  xdr::Writer writer(place.memory);
  oncrpc::encode_reply(header, writer);
  const engine::Fragment run{place.lease, static_cast<std::uint32_t>(writer.position()),
                             place.offset, 0};
  engine::Outgoing reply;
  reply.stream = {&run, 1};
  reply.header_room = place.header_room();
  connection_->engine().responder().start_reply(context.call_, reply);
}

void Session::give_up(IncomingCall& call, NoReply why) {
  const engine::CallId id = static_cast<const Context&>(call).call_;
  engine::Connection& engine = connection_->engine();
  switch (why) {
    case NoReply::kIsReply:
      // XIDs are separate for each direction: an answer would end a Call of ours with this one's.
      return engine.responder().drop(id, engine::DropReason::kIsReply);
    case NoReply::kUnheard:
      engine.responder().drop(id, engine::DropReason::kUnheard);
      return disconnect();
    case NoReply::kCutOff:
    case NoReply::kLost:
      // ERR_CHUNK gives the requester its credit back (RFC 8166 §4.5.2).
      return engine.responder().reject(id);
  }
}

void Session::handle_done(const engine::CallDone& done) {
  Context& context = this->context(done.call);
  RPCRDMA_ASSERT(context.active_ && context.call_ == done.call, "the end of no call");
  if (context.name_ != 0) named_.note({done.call, std::exchange(context.name_, 0)});
  if (context.ticket_) [[unlikely]]
    chunk_memory_.stop_waiting(context);
  memory_.release(context.held_);
  context.end_call();
  context.again_.reset();
  context.has_long_part_ = context.is_judged_ = context.has_had_turn_ = false;
  context.lent_ = 0;
  context.active_ = false;
}

}  // namespace rpcrdma::rpc
