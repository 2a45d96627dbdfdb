#include "rpc/serve/session.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "base/assert.h"
#include "engine/work_id.h"

namespace rpcrdma::rpc {
namespace {

constexpr std::uint32_t kResultsSizeDefault = 2048;

bool within(Bytes outer, Bytes inner) {
  const std::less_equal<const std::byte*> before;  // also for pointers into different objects
  return before(outer.data(), inner.data()) &&
         before(inner.data() + inner.size(), outer.data() + outer.size());
}

}  // namespace

// --- Context -----------------------------------------------------------------------------------

Session* session_of(const CallContext& context) noexcept {
  return context.session();
}

std::string_view Context::peer_address() const noexcept {
  return session_.connection_->peer_address();
}

// Puts the header of an accepted reply in front; its status may still change.
bool Context::begin_results(std::uint32_t size_max) {
  const std::size_t size = oncrpc::kReplyHeaderSizeMax + std::size_t{size_max};
  if (results_buffer_.size() < size) {
    results_buffer_ = size <= transport::MessageRooms::kSize ? session_.room(*this).memory
                                                             : session_.borrow(*this, size);
    if (results_buffer_.empty()) return false;
  }
  std::construct_at(&results_, results_buffer_);
  oncrpc::encode_reply({header_.xid, oncrpc::Accepted{status_, versions_, {}}}, results_.xdr());
  return true;
}

bool Context::reserve_results(std::uint32_t size_max) {
  return begin_results(size_max);
}

MutableBytes Context::result_memory(std::uint32_t size) {
  const MutableBytes memory = session_.borrow(*this, size);
  return memory.empty() ? memory : memory.first(size);
}

void Context::succeed() {
  end(results_.ok() ? AcceptStatus::kSuccess : AcceptStatus::kSystemErr);
}

void Context::fail(AcceptStatus status) {
  end(status);
}

void Context::end(AcceptStatus status) {
  status_ = status;
  if (session_.mailbox_.in_turn_of(session_)) {
    session_.send_answer(*this);
  } else {
    session_.mailbox_.deliver(session_, call_);
  }
}

// --- Session -----------------------------------------------------------------------------------

Session::Session(transport::Connection& connection, const Surroundings& surroundings,
                 std::size_t contexts)
    : connection_(&connection),
      pool_(surroundings.pool),
      leases_(connection, surroundings.pool),
      registry_(surroundings.registry),
      regions_(surroundings.regions),
      cache_(surroundings.cache),
      mailbox_(surroundings.mailbox) {
  contexts_.reserve(contexts);
  for (std::size_t i = 0; i < contexts; ++i) contexts_.push_back(std::make_unique<Context>(*this));
}

// A session dies with calls in it only when its server does; the connection has gone first, so that
// nothing moves in the memory any more.
Session::~Session() {
  RPCRDMA_ASSERT(caller_ == nullptr, "a session goes whose caller was not told");
  for (const auto& context : contexts_) {
    for (const Context::Loan& loan : context->loans_) pool_.give_back(loan.buffer);
  }
}

void Session::progress(Instant now) noexcept {
  now_ = now;
  for (bool again = true; again;) {
    connection_->pump(now);
    engine::Connection& engine = connection_->engine();
    const engine::Event* event = engine.event();
    for (again = event != nullptr; event != nullptr; event = engine.event()) {
      if (std::holds_alternative<engine::ReplyReady>(*event) ||
          std::holds_alternative<engine::CallFailed>(*event)) {
        RPCRDMA_ASSERT(caller_ != nullptr, "the end of a backward Call without a caller");
        caller_->handle_event(now, *event);
      } else {
        handle(*event);
      }
      engine.drop_event();
    }
    // Behind the events: they may have given memory back, and the connection may have ended.
    if (waiting_ > 0 && retry_waiting()) again = true;
    if (duplicates_waiting_ > 0 && retry_duplicates()) again = true;
  }
}

void Session::answer(engine::CallId call) {
  send_answer(context(call));
}

Context& Session::context(engine::CallId call) {
  return *contexts_.at(engine::slot_of(call));
}

void Session::handle(const engine::Event& event) {
  if (const auto* wanted = std::get_if<engine::MemoryWanted>(&event)) return handle_wanted(*wanted);
  if (const auto* received = std::get_if<engine::CallReceived>(&event)) {
    return handle_received(*received);
  }
  if (const auto* refused = std::get_if<engine::ChunkRefused>(&event)) {
    return cache_.note_refused(context(refused->call).name_, now_);
  }
  const auto* done = std::get_if<engine::CallDone>(&event);
  RPCRDMA_ASSERT(done != nullptr, "a server got a client's event");
  handle_done(*done);
}

transport::Connection::Room Session::room(const Context& context) const {
  return connection_->answer_room(engine::slot_of(context.call_));
}

MutableBytes Session::borrow(Context& context, std::size_t size) {
  if (context.loans_.full()) return {};
  const MutableBytes buffer = pool_.take(size);
  if (buffer.empty()) return {};
  const auto lease = leases_.take(buffer);
  if (!lease) {
    pool_.give_back(buffer);
    return {};
  }
  (void)context.loans_.push_back({buffer, *lease});
  return buffer;
}

// --- Memory for Read chunks --------------------------------------------------------------------

void Session::handle_wanted(const engine::MemoryWanted& wanted) {
  Context& context = this->context(wanted.call);
  const bool is_first = !context.active_;
  if (is_first) {
    context.active_ = true;
    context.call_ = wanted.call;
    context.has_long_part_ = wanted.position == 0;
    if (was_refused(context, wanted.xid, wanted.inline_part)) {
      return connection_->engine().reject(wanted.call);
    }
  }
  if (wanted.position != 0 && !context.is_judged_) {
    if (!judge_chunks(context, wanted)) return;
    if (!is_first) return reserve_rest(context, wanted);
  }
  if (!is_first) return lend_next(context);
  // Only the stream of a Long Call, until its header was accepted.
  const std::size_t count = wanted.position == 0 ? 1 : wanted.chunks.size();
  if (reserve(context, wanted.chunks.first(count))) return lend_next(context);
  wait_for_memory(context, wanted, count);
}

// The header of a Long Call was accepted. Where there is no memory for its other chunks, the stream
// is given back and read again later: a waiting call must hold no memory.
void Session::reserve_rest(Context& context, const engine::MemoryWanted& wanted) {
  if (reserve(context, wanted.chunks.subspan(1))) return lend_next(context);
  context.lent_ = 0;
  connection_->engine().restart(context.call_);
  wait_for_memory(context, wanted, wanted.chunks.size());
}

// For the first `count` chunks.
void Session::wait_for_memory(Context& context, const engine::MemoryWanted& wanted,
                              std::size_t count) {
  context.wanted_ = wanted;
  context.wanted_.chunks = wanted.chunks.first(count);
  std::size_t size = 0;
  for (const engine::ReadChunk& chunk : context.wanted_.chunks) {
    size += transport::BufferPool::large_size(chunk.size);
  }
  // Nothing will come back that could be enough.
  if (!pool_.could_hold(size) || pool_.bytes_in_use() == 0) return refuse_for_memory(context);
  context.waits_for_memory_ = true;
  ++waiting_;
}

// Nothing is moved for a call that will be refused anyway. False: it was answered.
bool Session::judge_chunks(Context& context, const engine::MemoryWanted& wanted) {
  const Bytes stream = wanted.long_part
                           ? Bytes(context.loans_[0].buffer).first(wanted.long_part->size)
                           : wanted.inline_part;
  Service* service = accept_header(context, stream, wanted.xid, {});
  if (service == nullptr) return false;
  const std::uint32_t bulk_max =
      context.traits_ == nullptr ? 0 : context.traits_->bulk_argument_size_max;
  const auto is_too_large = [&](const engine::ReadChunk& chunk) {
    return chunk.position != 0 && chunk.size > xdr::padded(bulk_max);
  };
  if (std::ranges::any_of(wanted.chunks, is_too_large)) {
    context.status_ = AcceptStatus::kGarbageArgs;
    send_answer(context);
    return false;
  }
  context.is_judged_ = true;
  return true;
}

// Takes memory for these Read chunks. False: there is not enough, and the call holds none any more;
// calls that waited with some could wait for each other for ever.
bool Session::reserve(Context& context, std::span<const engine::ReadChunk> chunks) {
  for (const engine::ReadChunk& chunk : chunks) {
    if (chunk.size == 0 || !borrow(context, chunk.size).empty()) continue;
    return_loans(context);
    return false;
  }
  return true;
}

void Session::return_loans(Context& context) {
  for (const Context::Loan& loan : context.loans_) {
    leases_.give_back(loan.buffer, loan.lease);
    pool_.give_back(loan.buffer);
  }
  context.loans_.clear();
}

void Session::lend_next(Context& context) {
  connection_->engine().lend(context.call_, context.loans_[context.lent_++].lease, 0);
}

// Its chunks are larger than all memory that there is.
void Session::refuse_for_memory(Context& context) {
  if (!context.is_judged_) return connection_->engine().reject(context.call_);
  context.status_ = AcceptStatus::kSystemErr;
  send_answer(context);
}

// Returns whether any call went on.
bool Session::retry_waiting() {
  const std::uint32_t before = waiting_;
  for (const auto& each : contexts_) {
    Context& context = *each;
    if (!context.waits_for_memory_) continue;
    const bool has_memory = !connection_->ended() && reserve(context, context.wanted_.chunks);
    if (!has_memory && !connection_->ended() && pool_.bytes_in_use() > 0) continue;
    context.waits_for_memory_ = false;
    --waiting_;
    if (has_memory) {
      lend_next(context);
    } else if (connection_->ended()) {
      connection_->engine().reject(context.call_);
    } else {
      refuse_for_memory(context);
    }
  }
  return waiting_ < before;
}

// --- A Call ------------------------------------------------------------------------------------

// Reads an RPC header into the context and returns its size; 0: it is bad, and the call was
// answered.
std::size_t Session::decode_header(Context& context, Bytes stream) {
  xdr::Reader reader(stream);
  const auto header = oncrpc::decode_call(reader);
  if (header) {
    context.header_ = *header;
    const Credential& credential = header->credential;
    if (credential.flavor != AuthFlavor::kSys || parse_auth_sys(credential.body)) {
      return reader.position();
    }
    // RFC 5531 §8.2, appendix A: more groups or a longer name than AUTH_SYS has.
    send_plain(context, {header->xid, oncrpc::AuthError{AuthStatus::kBadCredential}});
    return 0;
  }
  if (header.error().answer) {
    send_plain(context, *header.error().answer);
  } else if (!oncrpc::is_call(stream)) {
    // XIDs are separate for each direction: an answer would end a Call of ours with this one's.
    connection_->engine().drop(context.call_);
  } else {
    // It ends inside its header; ERR_CHUNK gives the requester its credit back (RFC 8166 §4.5.2).
    connection_->engine().reject(context.call_);
  }
  return 0;
}

// Reads the RPC header and finds the service. Null: the call was answered.
Service* Session::accept_header(Context& context, Bytes stream, Xid expected,
                                std::span<const MessageReader::Placed> placed) {
  if (stream.size() < xdr::kWordSize || Xid{xdr::load_word(stream.data())} != expected) {
    // RFC 8166 §4.2.1: both headers name one XID. Whatever else is wrong, no reply could be right.
    connection_->engine().reject(context.call_);
    return nullptr;
  }
  std::size_t header_size = oncrpc::kCallHeaderSizeMin;
  if (!oncrpc::take_plain_call(stream, context.header_)) {
    header_size = decode_header(context, stream);
    if (header_size == 0) return nullptr;
  }
  const Procedure& procedure = context.header_.procedure;
  const auto found = registry_.find(procedure.program, procedure.version);
  context.status_ = found.status;
  context.versions_ = found.versions;
  std::construct_at(&context.arguments_, stream.subspan(header_size), header_size, placed);
  context.traits_ = nullptr;
  if (found.service != nullptr && procedure.number != 0) {
    context.traits_ = found.service->traits(procedure.number);
    if (context.traits_ == nullptr) context.status_ = AcceptStatus::kProcUnavail;
  }
  if (context.status_ != AcceptStatus::kSuccess) {
    send_answer(context);
    return nullptr;
  }
  if (procedure.number == 0) return found.service;
  const AuthStatus auth =
      found.service->check_credential(procedure.number, context.header_.credential);
  if (auth != AuthStatus::kOk) [[unlikely]] {
    send_plain(context, {context.header_.xid, oncrpc::AuthError{auth}});
    return nullptr;
  }
  if (connection_->profile() == engine::Profile::kRfc5666) {
    context.may_answer_by_read_ = context.traits_->may_answer_by_read;
  }
  return found.service;
}

void Session::handle_received(const engine::CallReceived& received) {
  Context& context = this->context(received.call);
  const bool is_new = !context.active_;  // else its Read chunks have been asked for
  context.active_ = true;
  context.call_ = received.call;
  if (is_new && !received.has_chunks) context.name_ = 0;
  if (is_new && received.has_chunks && was_refused(context, received.xid, received.inline_part)) {
    return connection_->engine().reject(received.call);
  }
  const Bytes stream = received.long_part
                           ? Bytes(context.loans_[0].buffer).first(received.long_part->size)
                           : received.inline_part;
  // The loans are the Long Call's stream, if any, then one for each item that is not empty.
  if (received.items.empty()) {
    Service* const service = accept_header(context, stream, received.xid, {});
    if (received.padding != nullptr && service != nullptr) [[unlikely]] {
      context.arguments_.set_alignment(received.padding->alignment, received.padding->threshold,
                                       received.padding->start);
    }
    return serve(context, service, {});
  }
  std::array<MessageReader::Placed, engine::kReadChunksMax> placed;
  std::size_t count = 0;
  std::size_t loan = context.has_long_part_ ? 1 : 0;
  for (const engine::PulledItem& item : received.items) {
    placed[count++] = {
        item.position,
        item.data.size == 0 ? Bytes{} : Bytes(context.loans_[loan++].buffer).first(item.data.size)};
  }
  const auto found = std::span(placed).first(count);
  serve(context, accept_header(context, stream, received.xid, found), found);
}

// Null: the call was answered already.
void Session::serve(Context& context, Service* service,
                    std::span<const MessageReader::Placed> placed) {
  if (service == nullptr) return;
  const ProcedureTraits* const traits = context.traits_;
  if (traits != nullptr && cache_.enabled() && !traits->is_idempotent) [[unlikely]] {
    context.service_ = service;
    // The XID and the RPC header are in the key by their parts; a verifier may differ.
    if (!is_new(context, key_of(context, context.arguments_.xdr().rest(), placed))) return;
  }
  execute(context, service);
}

void Session::execute(Context& context, Service* service) {
  context.status_ = AcceptStatus::kSuccess;
  context.versions_ = {};
  if (!context.begin_results(kResultsSizeDefault)) {
    context.status_ = AcceptStatus::kSystemErr;
    return send_answer(context);
  }
  if (context.header_.procedure.number == 0) {
    send_answer(context);  // NULL, RFC 5531 §12: always answers
  } else {
    service->call(context);
  }
}

// --- Its answer --------------------------------------------------------------------------------

void Session::send_answer(Context& context) {
  RPCRDMA_ASSERT(context.active_, "a call is answered twice");
  if (context.cache_key_) remember(context);
  if (context.status_ != AcceptStatus::kSuccess) {
    return send_plain(
        context, {context.header_.xid, oncrpc::Accepted{context.status_, context.versions_, {}}});
  }
  if (const auto place = room(context);
      context.results_.items().empty() && context.results_buffer_.data() == place.memory.data()) {
    // The common case: all of it is in the message room.
    const engine::Fragment run{place.lease, static_cast<std::uint32_t>(context.results_.size()),
                               place.offset, 0};
    engine::Outgoing reply;
    reply.stream = {&run, 1};
    reply.header_room = place.header_room();
    reply.may_be_read = context.may_answer_by_read_;
    return connection_->engine().start_reply(context.call_, reply);
  }
  BoundedVector<engine::Fragment, engine::kFragmentsMax> stream;
  if (!add_fragments(context, stream)) {
    return send_plain(context,
                      {context.header_.xid, oncrpc::Accepted{AcceptStatus::kSystemErr, {}, {}}});
  }
  engine::Outgoing reply;
  reply.stream = stream.view();
  reply.may_be_read = context.may_answer_by_read_;
  connection_->engine().start_reply(context.call_, reply);
}

// Sends a reply without results.
void Session::send_plain(Context& context, const oncrpc::ReplyHeader& header) {
  const auto place = room(context);
  xdr::Writer writer(place.memory);
  oncrpc::encode_reply(header, writer);
  const engine::Fragment run{place.lease, static_cast<std::uint32_t>(writer.position()),
                             place.offset, 0};
  engine::Outgoing reply;
  reply.stream = {&run, 1};
  reply.header_room = place.header_room();
  connection_->engine().start_reply(context.call_, reply);
}

bool Session::add_fragments(Context& context,
                            BoundedVector<engine::Fragment, engine::kFragmentsMax>& stream) {
  std::size_t done = 0;
  std::uint16_t item = 0;
  bool ok = true;
  const auto inline_run = [&](std::size_t end) {
    if (end == done) return;
    const auto run = locate(context, context.results_buffer_.subspan(done, end - done), 0);
    ok = ok && run && stream.push_back(*run);
    done = end;
  };
  for (const BulkItem& bulk : context.results_.items()) {
    inline_run(bulk.at);
    // An empty item still takes its Write chunk (RFC 8166 §4.3.2), so it is told to the engine.
    const auto run = locate(context, bulk.data, ++item);
    ok = ok && run && stream.push_back(*run);
  }
  inline_run(context.results_.size());
  return ok;
}

// Names bytes by lease and offset; memory of the service's own is registered for this call.
std::optional<engine::Fragment> Session::locate(Context& context, Bytes data, std::uint16_t item) {
  const auto size = static_cast<std::uint32_t>(data.size());
  const auto place = room(context);
  if (data.empty()) return engine::Fragment{place.lease, 0, 0, item};
  if (within(place.memory, data)) {
    return engine::Fragment{
        place.lease, size,
        place.offset + static_cast<std::uint64_t>(data.data() - place.memory.data()), item};
  }
  for (const Context::Loan& loan : context.loans_) {
    if (!within(loan.buffer, data)) continue;
    return engine::Fragment{loan.lease, size,
                            static_cast<std::uint64_t>(data.data() - loan.buffer.data()), item};
  }
  if (const auto run = locate_registered(data, item)) return run;
  const auto lease = connection_->attach_read_only(data);
  if (!lease || !context.foreign_.push_back(*lease)) return std::nullopt;
  return engine::Fragment{*lease, size, 0, item};
}

// In memory that the application registered for long; on this connection that happens once.
std::optional<engine::Fragment> Session::locate_registered(Bytes data, std::uint16_t item) {
  const auto place = regions_.find(data, false);
  if (!place) return std::nullopt;
  if (region_leases_.size() <= place->id) region_leases_.resize(place->id + 1);
  auto& lease = region_leases_[place->id];
  if (!lease) {
    const auto attached = connection_->attach_read_only(regions_.memory(place->id));
    if (!attached) return std::nullopt;
    lease = *attached;
  }
  return engine::Fragment{*lease, static_cast<std::uint32_t>(data.size()), place->offset, item};
}

void Session::handle_done(const engine::CallDone& done) {
  Context& context = this->context(done.call);
  RPCRDMA_ASSERT(context.active_ && context.call_ == done.call, "the end of no call");
  if (context.waits_for_memory_) {
    context.waits_for_memory_ = false;
    --waiting_;
  }
  for (const engine::Lease lease : context.foreign_) connection_->detach(lease);
  return_loans(context);
  context.foreign_.clear();
  context.results_buffer_ = {};
  context.has_long_part_ = context.is_judged_ = false;
  context.lent_ = 0;
  context.active_ = false;
}

}  // namespace rpcrdma::rpc
