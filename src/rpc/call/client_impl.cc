#include "rpc/call/client_impl.h"

#include <algorithm>
#include <memory>

#include "base/assert.h"
#include "engine/work_id.h"
#include "oncrpc/message.h"
#include "rpc/counters.h"
#include "rpc/engine_options.h"
#include "rpc/errors.h"

namespace rpcrdma {
ClientImpl::ClientImpl(std::unique_ptr<rdma::Provider> owned, rdma::Provider& provider,
                       const ClientOptions& options)
    : owned_provider_(std::move(owned)),
      provider_(provider),
      options_(options),
      engine_options_(rpc::engine_options(options)),
      pool_(options.memory_max),
      slots_(engine_options_.calls_max),
      slot_of_call_(slots_.size()),
      free_(slots_.size()),
      configuration_slot_(static_cast<std::uint32_t>(slots_.size()) -
                          (options.connection.profile == Profile::kRfc5666 ? 1 : 0)),
      rooms_(slots_.size()),
      // Two clients behind one address should not use the same XIDs: servers may remember them.
      last_xid_(static_cast<std::uint32_t>(provider.now().time_since_epoch().count() >> 10)),
      backoff_(options.reconnect, last_xid_) {
  for (std::uint32_t i = 0; i < configuration_slot_; ++i) free_.push(i);
  if (options.credential) use_credential(*options.credential);
}

ClientImpl::~ClientImpl() {
  RPCRDMA_ASSERT(!in_progress_, "a client is destroyed inside of one of its callbacks");
  if (is_backward()) return;  // dispose() has seen to it that nothing is under way
  close();
  // What calls still hold is given back when the connection has flushed them.
  while (calls_in_flight() > 0) {
    progress();
    if (calls_in_flight() > 0) provider_.wait();
  }
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state != State::kFree) free_slot(i);
  }
}

Expected<void, Error> ClientImpl::begin_connect(std::string_view address) {
  peer_ = std::string(address);
  engine::Options options = engine_options_;
  if (!provider_.reports_invalidated_handle(peer_)) options.remote_invalidation = false;
  return take_queue_pair(provider_.connect(peer_, rpc::set_up_data(options)), options);
}

Expected<void, Error> ClientImpl::begin_adopt(int descriptor) {
  peer_ = "the TCP connection";
  auto queue_pair = provider_.adopt(descriptor, rpc::set_up_data(engine_options_));
  if (queue_pair) peer_ = std::string((*queue_pair)->peer_address());
  return take_queue_pair(std::move(queue_pair), engine_options_);
}

Expected<void, Error> ClientImpl::take_queue_pair(
    Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> queue_pair,
    const engine::Options& options) {
  if (!queue_pair) return Unexpected<Error>(explain(queue_pair.error(), "connecting"));
  auto connection = transport::Connection::create(std::move(*queue_pair), engine::Role::kClient,
                                                  options, &rooms_);
  if (!connection) return Unexpected<Error>(explain(connection.error(), "connecting"));
  link_.connection = std::move(*connection);
  connection_ = link_.connection.get();
  if (options_.backward_calls > 0) {
    using engine::Connection, engine::Role;
    link_.session = std::make_unique<rpc::Session>(
        *connection_, rpc::Session::Surroundings{pool_, registry_, regions_, cache_, *this},
        Connection::answered_slot_count(Role::kClient, options));
  }
  loss_handled_ = false;
  configuring_ = options_.connection.profile == Profile::kRfc5666;
  configuration_started_ = false;
  return {};
}

Error ClientImpl::explain(const rdma::Error& error, std::string_view operation) const {
  return rpc::to_error(error, operation, peer_, provider_.remedy(error));
}

Error ClientImpl::explain(engine::CallError error) const {
  const bool no_memory = error == engine::CallError::kNoMemory;
  rdma::Error reason{rdma::Errc::kClosed, 0, ""};
  if (connection_ != nullptr) {
    reason = no_memory ? connection_->exposure_failure() : connection_->cause();
  }
  const bool has_reason = no_memory || error == engine::CallError::kConnectionLost;
  const bool has_remedy =
      has_reason && !was_backward_;  // the provider may have gone with its server
  return rpc::to_error(error, reason, peer_, has_remedy ? provider_.remedy(reason) : std::string());
}

Expected<void, Error> ClientImpl::connect(std::string_view address) {
  if (auto begun = begin_connect(address); !begun) return begun;
  return await_connection();
}

Expected<void, Error> ClientImpl::adopt(int descriptor) {
  if (auto begun = begin_adopt(descriptor); !begun) return begun;
  return await_connection();
}

Expected<void, Error> ClientImpl::await_connection() {
  for (progress(); !connected(); progress()) {
    if (connection_->ended()) {
      return Unexpected<Error>(explain(connection_->cause(), "connecting"));
    }
    provider_.wait();
  }
  return {};
}

Expected<Client, Error> ClientImpl::connect_on(rdma::Provider& provider, std::string_view address,
                                               const ClientOptions& options) {
  auto impl = std::make_unique<ClientImpl>(nullptr, provider, options);
  if (auto begun = impl->begin_connect(address); !begun) {
    return Unexpected<Error>(begun.error());
  }
  return Client(std::move(impl));
}

void ClientImpl::use_credential(const AuthSys& credential) {
  const auto size = encode_auth_sys(credential, credential_body_);
  RPCRDMA_ASSERT(size.has_value(), "an AUTH_SYS credential over the limits of RFC 5531");
  credential_ = {AuthFlavor::kSys, Bytes(credential_body_).first(*size)};
}

// --- Memory that stays registered --------------------------------------------------------------

Expected<RegisteredMemory, Error> ClientImpl::register_memory(Bytes memory, std::byte* writable) {
  if (!connected() && ended()) return Unexpected<Error>(lost_error());
  if (is_backward()) {
    return Unexpected<Error>(Error{Errc::kUnsupported, "registering memory", peer_,
                                   "backward calls move all their data in messages"});
  }
  const auto id = regions_.add(memory, writable);
  if (!id) {
    return Unexpected<Error>(Error{Errc::kUnsupported, "registering memory", peer_,
                                   "it is empty, or overlaps memory that is registered already"});
  }
  if (region_leases_.size() <= *id) region_leases_.resize(*id + 1);
  if (connected()) {  // else the next connection does it
    if (const auto failed = attach_region(*id)) {
      regions_.remove(*id);
      return Unexpected<Error>(explain(*failed, "registering memory"));
    }
  }
  return RegisteredMemory(*this, *id, memory);
}

// Why it cannot be, if it cannot.
std::optional<rdma::Error> ClientImpl::attach_region(std::uint32_t id) {
  const Bytes memory = regions_.memory(id);
  std::byte* const writable = regions_.writable(id);
  const auto lease = writable != nullptr ? connection_->attach({writable, memory.size()})
                                         : connection_->attach_read_only(memory);
  if (!lease) return lease.error();
  region_leases_[id] = *lease;
  return std::nullopt;
}

void ClientImpl::unregister(std::uint32_t id) noexcept {
  regions_.remove(id);
  if (region_leases_[id]) connection_->detach(*region_leases_[id]);
  region_leases_[id].reset();
}

// --- Making a call -----------------------------------------------------------------------------

Expected<Call, Error> ClientImpl::prepare(const Procedure& procedure,
                                          std::uint32_t arguments_size_max) {
  if (!connected() && (ended() || !ever_connected_)) return Unexpected<Error>(lost_error());
  if (free_.empty()) {
    return Unexpected<Error>(rpc::to_error(engine::StartError::kQueueFull, peer_));
  }
  const std::uint32_t index = free_.front();
  Slot& slot = slots_[index];
  const std::size_t size = oncrpc::kCallHeaderSizeMax + std::size_t{arguments_size_max};
  slot.stream_is_room = size <= transport::MessageRooms::kSize;
  slot.stream = slot.stream_is_room ? room_memory(index) : pool_.take(size);
  if (slot.stream.empty()) {
    return Unexpected<Error>(Error{Errc::kNoResources, "preparing a call", peer_,
                                   "ClientOptions::memory_max is used up by calls under way"});
  }
  (void)free_.pop();
  init_slot(index, procedure);
  return Call(this, index);
}

Expected<Reply, Error> ClientImpl::call(Call call) {
  if (is_backward()) {
    return Unexpected<Error>(Error{Errc::kUnsupported, "the call", peer_,
                                   "waiting for a backward call would keep the server from making "
                                   "progress; use start() or call_async()"});
  }
  const std::uint32_t index = call.slot_;
  call.impl_ = nullptr;
  if (auto error = begin(index, true, {})) return Unexpected<Error>(std::move(*error));
  Slot& slot = slots_[index];
  for (progress(); slot.state == State::kStarted || slot.state == State::kWaiting; progress()) {
    provider_.wait();
  }
  if (slot.state == State::kFailed) {
    Error error = std::move(*slot.error);
    free_slot(index);
    return Unexpected<Error>(std::move(error));
  }
  return Reply(this, index);
}

Expected<void, Error> ClientImpl::start(Call&& call, ReplyCallback&& callback) {
  const std::uint32_t index = call.slot_;
  call.impl_ = nullptr;
  if (auto error = begin(index, false, std::move(callback))) {
    return Unexpected<Error>(std::move(*error));
  }
  if (!in_progress_) pump();  // else progress() does it for all that callbacks start
  return {};
}

// What went wrong, if anything: an Expected would be cleared as a whole for each call.
std::optional<Error> ClientImpl::begin(std::uint32_t index, bool blocking,
                                       ReplyCallback&& callback) {
  Slot& slot = slots_[index];
  RPCRDMA_ASSERT(slot.state == State::kPrepared, "a Call is started twice");
  if (slot.results_refused) {
    free_slot(index);
    return Error{Errc::kTooLarge, "placing the results", peer_,
                 "place_result() takes up to 8 places, none of them empty"};
  }
  if (!slot.writer.ok()) {
    free_slot(index);
    return Error{Errc::kTooLarge, "encoding the arguments", peer_,
                 "they exceed the size given to prepare(), or have too many "
                 "bulk items"};
  }
  if (is_backward() && !flatten(slot)) {
    free_slot(index);
    return no_resources("its memory_max has no room for the arguments");
  }
  if (auto error = start_or_wait(slot)) {
    free_slot(index);
    return error;
  }
  slot.blocking = blocking;
  slot.callback = std::move(callback);
  return std::nullopt;
}

std::optional<ClientImpl::Lent> ClientImpl::lend(Slot& slot, MutableBytes memory) {
  if (const auto lent = lend_registered(slot, memory, true)) return lent;
  const auto lease = connection_->attach(memory);
  if (!lease || !slot.leases.push_back(*lease)) return std::nullopt;
  return Lent{*lease, 0};
}

std::optional<ClientImpl::Lent> ClientImpl::lend_read_only(Slot& slot, Bytes memory) {
  if (const auto lent = lend_registered(slot, memory, false)) return lent;
  const auto lease = connection_->attach_read_only(memory);
  if (!lease || !slot.leases.push_back(*lease)) return std::nullopt;
  return Lent{*lease, 0};
}

std::optional<ClientImpl::Lent> ClientImpl::lend_registered(Slot& slot, Bytes memory,
                                                            bool to_write) {
  const auto place = regions_.find(memory, to_write);
  if (!place || !region_leases_[place->id]) return std::nullopt;
  if (!slot.regions.push_back(place->id)) return std::nullopt;
  regions_.use(place->id);
  return Lent{*region_leases_[place->id], place->offset};
}

transport::Connection::Room ClientImpl::room(const Slot& slot) const {
  return connection_->call_room(static_cast<std::size_t>(&slot - slots_.data()));
}

// Turns what was written into runs of the Payload stream, with every piece of memory registered.
bool ClientImpl::build(Slot& slot, BoundedVector<engine::Fragment, engine::kFragmentsMax>& stream,
                       BoundedVector<engine::ResultRoom, kBulkItemsMax>& rooms) {
  const auto place = room(slot);
  const auto buffer = slot.stream_is_room ? std::optional(Lent{place.lease, place.offset})
                                          : lend(slot, slot.stream);
  if (!buffer) return false;
  std::size_t done = 0;
  std::uint16_t item = 0;
  bool ok = true;
  const auto inline_run = [&](std::size_t end) {
    if (end > done) {
      ok = ok && stream.push_back({buffer->lease, static_cast<std::uint32_t>(end - done),
                                   buffer->offset + done, 0});
    }
    done = end;
  };
  for (const BulkItem& bulk : slot.writer.items()) {
    inline_run(bulk.at);
    ++item;
    if (bulk.data.empty()) continue;
    const auto lent = lend_read_only(slot, bulk.data);
    ok = ok && lent &&
         stream.push_back(
             {lent->lease, static_cast<std::uint32_t>(bulk.data.size()), lent->offset, item});
  }
  inline_run(slot.writer.size());
  if (is_backward()) return ok;  // results come in the message
  for (std::size_t i = 0; ok && i < slot.result_count; ++i) {
    const auto lent = lend(slot, slot.results[i]);
    ok = lent && rooms.push_back({lent->lease, static_cast<std::uint32_t>(slot.results[i].size()),
                                  lent->offset, static_cast<std::uint16_t>(i + 1)});
  }
  return ok;
}

// On success the slot has the call's id.
std::optional<Error> ClientImpl::start_in_engine(Slot& slot) {
  BoundedVector<engine::Fragment, engine::kFragmentsMax> stream;
  BoundedVector<engine::ResultRoom, kBulkItemsMax> rooms;
  if (connection_ == nullptr || connection_->ended() || left()) return lost_error();
  slot.connection = connection_;
  if (!build(slot, stream, rooms)) return no_resources("its memory cannot be registered");
  std::uint64_t reply_max = oncrpc::kReplyHeaderSizeMax + std::uint64_t{slot.results_size_max};
  for (const engine::ResultRoom& room : rooms) reply_max += xdr::padded(room.size_max);
  if (is_backward()) {
    // RFC 8167 §5.3: there is no other way than inline. One that is larger becomes an error.
    const engine::LinkParameters& link = connection_->engine().link();
    reply_max = std::min<std::uint64_t>(
        reply_max, link.inline_receive - engine::header_sizes(link.dialect).shortest);
  }
  engine::Outgoing outgoing;
  outgoing.stream = stream.view();
  outgoing.results = rooms.view();
  if (slot.stream_is_room) outgoing.header_room = room(slot).header_room();
  outgoing.reply_size_max =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(reply_max, 0xffffffffU));
  // Inside of a callback the time of this round is good enough, and asking costs a clock.
  const Instant now = in_progress_ ? now_ : provider_.now();
  auto id = connection_->engine().start_call(now, slot.xid, outgoing, slot.timeout);
  if (!id && id.error() == engine::StartError::kReplyRoomNeeded) {
    // The reply may be longer than a message: give it a Reply chunk.
    const std::uint64_t rest_max =
        oncrpc::kReplyHeaderSizeMax + std::uint64_t{slot.results_size_max};
    // A server of RFC 5666 may expose all of it in one chunk, whatever the results' rooms are.
    const bool is_whole = !options_.connection.reduce ||
                          (answers_are_read() && reply_max <= transport::BufferPool::kSizeMax);
    const std::uint64_t long_max = is_whole ? reply_max : rest_max;
    if (slot.reply_room.empty()) slot.reply_room = pool_.take(long_max);
    if (slot.reply_room.empty() && long_max <= transport::BufferPool::kSizeMax) {
      return no_resources("ClientOptions::memory_max has no room for its reply");
    }
    if (!slot.reply_room.empty()) {
      const auto lent = lend(slot, slot.reply_room);
      if (!lent) return no_resources("its memory cannot be registered");
      outgoing.reply_room =
          engine::ResultRoom{lent->lease, static_cast<std::uint32_t>(long_max), lent->offset, 0};
      id = connection_->engine().start_call(now, slot.xid, outgoing, slot.timeout);
    }
  }
  if (id) {
    slot.id = *id;
    slot_of_call_[engine::slot_of(*id)] = static_cast<std::uint32_t>(&slot - slots_.data());
    slot.state = State::kStarted;
    return std::nullopt;
  }
  if (id.error() == engine::StartError::kNotConnected) return lost_error();
  return rpc::to_error(id.error(), peer_);
}

Error ClientImpl::no_resources(std::string cause) const {
  return {Errc::kNoResources, "starting the call", peer_, std::move(cause)};
}

// --- Progress ----------------------------------------------------------------------------------

void ClientImpl::progress() {
  if (is_backward()) return;  // the server's progress() is for all
  RPCRDMA_ASSERT(!in_progress_, "a callback must not call progress(), call() or drain()");
  provider_.progress();
  pump();
}

void ClientImpl::pump() noexcept {
  if (is_backward()) return provider_.wake();  // it may be another session's turn, or none's
  if (connection_ == nullptr && !next_attempt_) return;
  const InTurn turn(*this);
  in_progress_ = true;
  now_ = provider_.now();
  if (options_.backward_calls > 0) take_answers();
  pump_connection();
  if (options_.reconnect.enabled) maintain_connection();
  in_progress_ = false;
  auto timeout = connection_ != nullptr ? connection_->engine().poll_timeout() : std::nullopt;
  if (options_.reconnect.enabled) {
    if (const auto own = next_deadline()) timeout = timeout ? std::min(*timeout, *own) : own;
  }
  provider_.arm_timer(timeout);
}

void ClientImpl::pump_connection() {
  if (connection_ == nullptr) return;
  for (bool again = true; again;) {
    now_ = provider_.now();
    connection_->pump(now_);
    const bool configures = configuring_ && !configuration_started_ && connection_->connected();
    if (configures) configure();
    engine::Connection& engine = connection_->engine();
    const engine::Event* event = engine.event();
    for (again = configures || event != nullptr; event != nullptr; event = engine.event()) {
      handle(*event);
      engine.drop_event();
    }
  }
}

void ClientImpl::handle(const engine::Event& event) {
  if (const auto* reply = std::get_if<engine::ReplyReady>(&event)) {
    return handle_reply(index_of(reply->call), *reply);
  }
  const auto* failed = std::get_if<engine::CallFailed>(&event);
  if (failed == nullptr) {
    RPCRDMA_ASSERT(link_.session != nullptr, "a client got a server's event");
    return link_.session->handle(event);
  }
  engine::CallError error = failed->error;
  const std::uint32_t index = index_of(failed->call);
  const bool is_own = index == configuration_slot_;
  if (error == engine::CallError::kConnectionLost && waits_for_next() && !is_own) {
    return wait_for_connection(slots_[index]);
  }
  // The server answered; what each connection begins with tells nothing of the calls behind it.
  if (error != engine::CallError::kTimedOut && !is_own) losses_in_a_row_ = 0;
  if (closing_ && error == engine::CallError::kConnectionLost) error = engine::CallError::kCanceled;
  fail(index, explain(error));
}

std::uint32_t ClientImpl::index_of(engine::CallId call) const {
  const auto is_it = [call](const Slot& slot) {
    return slot.state == State::kStarted && slot.id == call;
  };
  const std::uint32_t last = slot_of_call_[engine::slot_of(call)];
  if (is_it(slots_[last])) return last;
  // A callback has started another call in the engine's slot before this event had its turn.
  const auto found = std::ranges::find_if(slots_, is_it);
  RPCRDMA_ASSERT(found != slots_.end(), "the end of no call");
  return static_cast<std::uint32_t>(found - slots_.begin());
}

void ClientImpl::handle_reply(std::uint32_t index, const engine::ReplyReady& reply) {
  Slot& slot = slots_[index];
  slot.holds_receive = true;
  if (auto error = decode(slot, reply)) return fail(index, std::move(*error));
  take_memory_back(slot);
  if (index != configuration_slot_) losses_in_a_row_ = 0;
  slot.state = State::kEnded;
  if (slot.blocking) return;
  ReplyCallback callback = std::move(slot.callback);
  callback(Reply(this, index));
}

// Reads the RPC header of the reply; on success slot.reader stands at the results.
std::optional<Error> ClientImpl::decode(Slot& slot, const engine::ReplyReady& reply) {
  const Bytes stream = reply.in_reply_chunk > 0 ? Bytes(slot.reply_room).first(reply.in_reply_chunk)
                                                : reply.inline_part;
  if (reply.results_written.empty() && reply.by_read == nullptr &&
      oncrpc::is_plain_success(stream, slot.xid)) [[likely]] {
    std::construct_at(&slot.reader, stream.subspan(oncrpc::kReplyHeaderSizeMin),
                      oncrpc::kReplyHeaderSizeMin, std::span<const MessageReader::Placed>{});
    slot.reader.set_places(std::span(slot.results).first(slot.result_count));
    return std::nullopt;
  }
  auto error = decode_any(slot, stream, reply);
  if (!error && reply.by_read != nullptr && reply.by_read->padding.alignment > 1) {
    const engine::Padding& padding = reply.by_read->padding;
    slot.reader.set_alignment(padding.alignment, padding.threshold, padding.start);
  }
  return error;
}

std::optional<Error> ClientImpl::decode_any(Slot& slot, Bytes stream,
                                            const engine::ReplyReady& reply) {
  xdr::Reader reader(stream);
  if (oncrpc::is_plain_success(stream, slot.xid)) [[likely]] {
    reader.skip(oncrpc::kReplyHeaderSizeMin, "");
  } else {
    const auto header = oncrpc::decode_reply(reader);
    const bool is_ours = header && header->xid == slot.xid;
    if (auto error = rpc::to_error(is_ours ? &*header : nullptr, slot.procedure, peer_)) {
      return error;
    }
  }
  std::array<MessageReader::Placed, kBulkItemsMax> placed;
  const auto items =
      reply.by_read != nullptr ? reply.by_read->items : std::span<const engine::ReadItem>{};
  const bool was_read = !items.empty();
  const std::size_t count =
      was_read ? items.size() : std::min(reply.results_written.size(), slot.result_count);
  std::size_t in_reply_room = reply.in_reply_chunk;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t size = reply.results_written[i];
    if (!was_read || items[i].in_result) {
      placed[i].data = Bytes(slot.results[i]).first(size);
    } else {
      placed[i].data = Bytes(slot.reply_room).subspan(in_reply_room, size);
      in_reply_room += size;
    }
    placed[i].position = was_read ? items[i].position : MessageReader::kInOrder;
  }
  slot.reader = MessageReader(reader.rest(), reader.position(), std::span(placed).first(count));
  slot.reader.set_places(std::span(slot.results).first(slot.result_count));
  // What the reply's room has left, for items that were put into the wrong places.
  if (was_read) slot.reader.set_spare(slot.reply_room.subspan(in_reply_room));
  return std::nullopt;
}

void ClientImpl::fail(std::uint32_t index, Error error) {
  Slot& slot = slots_[index];
  take_memory_back(slot);
  if (slot.blocking) {
    slot.error = std::move(error);
    slot.state = State::kFailed;
    return;
  }
  ReplyCallback callback = std::move(slot.callback);
  free_slot(index);
  callback(Unexpected<Error>(std::move(error)));
}

// --- The end of a call -------------------------------------------------------------------------

void ClientImpl::take_memory_back(Slot& slot) {
  if (slot.leases.empty() && slot.regions.empty()) return;
  for (const engine::Lease lease : slot.leases) slot.connection->detach(lease);
  for (const std::uint32_t id : slot.regions) regions_.end_use(id);
  slot.leases.clear();
  slot.regions.clear();
}

void ClientImpl::free_slot(std::uint32_t index) {
  Slot& slot = slots_[index];
  take_memory_back(slot);
  if (slot.holds_receive) {
    slot.connection->engine().release(slot.id);
    slot.holds_receive = false;
    // A call may have waited for this very Receive, and nothing else would wake the caller's loop.
    if (!in_progress_ && slot.connection->engine().calls_waiting() > 0) provider_.wake();
  }
  if (!slot.stream.empty() && !slot.stream_is_room) pool_.give_back(slot.stream);
  if (!slot.reply_room.empty()) {
    pool_.give_back(slot.reply_room);
    slot.reply_room = {};
  }
  slot.callback = {};
  slot.error.reset();
  slot.state = State::kFree;
  if (index != configuration_slot_) free_.push(index);
}

void ClientImpl::wait() {
  if (!is_backward()) provider_.wait();
}

void ClientImpl::drain() {
  if (is_backward()) return;
  for (progress(); calls_in_flight() > 0; progress()) provider_.wait();
}

void ClientImpl::close() noexcept {
  closing_ = true;
  if (is_backward()) return cancel_backward();
  if (connection_ != nullptr) connection_->disconnect();
  provider_.wake();  // the calls under way end in the next progress()
}

std::uint32_t ClientImpl::calls_in_flight() const noexcept {
  if (connection_ == nullptr) return waiting_;
  // Without the library's own.
  const bool has_own =
      has_configuration_slot() && slots_[configuration_slot_].state == State::kStarted;
  const std::uint32_t calls = connection_->engine().calls_in_flight();
  return calls - std::min(calls, has_own ? 1U : 0U) + waiting_;
}

TransferCounters ClientImpl::counters() const noexcept {
  TransferCounters counters = past_;
  if (connection_ != nullptr) rpc::add(counters, *connection_);
  return counters;
}

Error ClientImpl::lost_error() const {
  return explain(closing_ ? engine::CallError::kCanceled : engine::CallError::kConnectionLost);
}

}  // namespace rpcrdma
