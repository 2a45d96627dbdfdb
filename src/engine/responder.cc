#include "engine/responder.h"

#include <algorithm>

#include "base/assert.h"
#include "engine/rfc5666/padding.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::engine {

Responder::Responder(const Options& options, Shared& shared, HeaderArena headers)
    : options_(options),
      shared_(shared),
      headers_(headers),
      slots_(slot_count(options)),
      waiting_(options.credits),
      peer_(options.peer_timeout) {
  if (rfc5666::is_chosen(options)) {
    rfc5666::ExposedReplies::Host& self = *this;
    profile_ = std::make_unique<rfc5666::ExposedReplies>(options_, shared, self, slots_.size());
  }
}

// --- Commands ----------------------------------------------------------------------------------

Responder::Slot& Responder::answerable(CallId call) {
  Slot* slot = slots_.find(call);
  // A Call that asks for memory may be answered as it is: its chunks are then left where they are.
  RPCRDMA_ASSERT(
      slot != nullptr && (slot->state == State::kServing || slot->state == State::kWanting),
      "an answer to no call in service");
  return *slot;
}

void Responder::start_reply(CallId call, const Outgoing& reply) {
  Slot& slot = answerable(call);
  if (slot.lost) return finish(slot);
  slot.header_room = reply.header_room;
  const bool takes_none = slot.extra == nullptr || slot.extra->offered.takes_no_reply();
  slot.has_one_run = takes_none && is_short_reply(reply.stream, shared_.link);
  if (slot.has_one_run) {
    slot.run = reply.stream[0];
    shared_.lists.clear();
    return start_sending(slot, Kind::kMessage);
  }
  plan(slot, reply);
}

void Responder::plan(Slot& slot, const Outgoing& reply) {
  Extra& extra = slot.extra != nullptr ? *slot.extra : add_extra(slot);
  const OfferedChunks& offered = extra.offered;
  plan_reply(reply.stream, offered.writes(), offered.has_reply_chunk(), offered.reply_chunk(),
             options_, shared_.link, extra.reply, shared_.lists);
  if (extra.reply.form == ReplyForm::kErrChunk && reply.may_be_read && profile_ != nullptr &&
      offered.writes().empty()) {
    const auto segments =
        offered.has_reply_chunk() ? std::optional(offered.reply_chunk().size()) : std::nullopt;
    slot.by_read = profile_->started(slot.index, slot.xid, reply.stream, segments, extra.reply);
    if (slot.by_read) {
      slot.state = State::kExposed;
      return;
    }
  }
  switch (extra.reply.form) {
    case ReplyForm::kErrChunk:
      // RFC 8166 §4.5.3: the reply fits into nothing that the Call provided.
      return start_error(slot, Kind::kErrorChunk);
    case ReplyForm::kMsg:
      return start_sending(slot, Kind::kMessage);
    case ReplyForm::kNoMsg:
      return start_sending(slot, Kind::kNoMessage);
  }
}

void Responder::reject(CallId call) {
  Slot& slot = answerable(call);
  if (slot.lost) return finish(slot);
  start_error(slot, Kind::kErrorChunk);
}

void Responder::drop(CallId call) {
  Slot& slot = answerable(call);
  ++shared_.counters.unknown_xid_count;
  slot.holds_receive = false;
  slot.inline_part = {};
  shared_.receives.repost_for_call(slot.receive);  // without a reply the grant does not change
  finish(slot);
}

void Responder::restart(CallId call) {
  Slot* slot = slots_.find(call);
  RPCRDMA_ASSERT(slot != nullptr && slot->state == State::kWanting &&
                     slot->extra->puller.may_restart(slot->extra->offered),
                 "restart() of no Long Call that waits for memory");
  slot->extra->puller.restart();
}

void Responder::lend(CallId call, Lease memory, std::uint64_t offset) {
  Slot* slot = slots_.find(call);
  RPCRDMA_ASSERT(slot != nullptr && slot->state == State::kWanting, "lend() that nobody asked for");
  if (slot->lost) return finish(*slot);
  slot->extra->puller.lend(slot->extra->offered, memory, offset);
  slot->state = State::kPulling;
  slots_.make_ready(*slot);
}

void Responder::set_credits(std::uint32_t credits) {
  if (options_.credits == 0) return;  // this half is not in use
  shared_.receives.grant(std::clamp(credits, rfc5666::credits_min(options_), options_.credits));
}

// --- Inputs ------------------------------------------------------------------------------------

void Responder::handle_received(ReceiveId receive, const Received& message, Bytes bytes) {
  Counters& counters = shared_.counters;
  shared_.receives.arrived_for_call();
  if (message.kind == Kind::kTooShort) {
    ++counters.short_message_count;
    return shared_.receives.repost_for_call(receive);
  }
  // RFC 8166 §4.5: a responder discards RDMA_ERROR, whatever its version says, and RDMA_DONE.
  if (message.kind == Kind::kDone || is_error(message.kind)) {
    const bool is_waited_for =
        message.kind == Kind::kDone && profile_ != nullptr && profile_->acknowledged(message.xid);
    ++(is_waited_for ? counters.dones_received : counters.stray_error_count);
    return shared_.receives.repost_for_call(receive);
  }
  if (shared_.receives.is_overrun()) {
    // More Calls than granted: it has taken a Receive that was there for one of its replies.
    ++counters.credit_overruns;
    shared_.disconnect = true;
    return shared_.receives.repost_for_call(receive);
  }
  if (slots_.full()) return waiting_.push({receive, bytes});
  begin(receive, message);
}

void Responder::handle_done(const WorkDone& done, const WorkName& name) {
  Slot& slot = slots_.posted_by(name);
  const bool is_same_use = slots_.is_same_use(slot, name);
  // A reply's Send names memory of the peer's only to invalidate it.
  const bool by_chunk = name.kind != WorkKind::kReplySend ||
                        (slot.extra != nullptr && slot.extra->invalidate.has_value());
  if (done.status == WorkStatus::kRefused && is_same_use && by_chunk) note_refusal(slot);
  // Its Send, or the end of the connection, tells all. When the connection ends before its Send was
  // posted, it may be flushed behind the end of its call.
  if (name.kind == WorkKind::kWrite) return;
  RPCRDMA_ASSERT(is_same_use, "a completion for work that was not posted");
  RPCRDMA_ASSERT(slot.pending > 0, "a completion for work that was not posted");
  --slot.pending;
  peer_.done(now_, shared_.connected);
  const bool is_last = slot.pending == 0;
  if (name.kind == WorkKind::kReplyExpose || name.kind == WorkKind::kReplyRevoke) {
    profile_->done(slot.index, done, name, is_last && !slot.lost);
    if (is_last && slot.lost) finish(slot);
    return;
  }
  if (name.kind == WorkKind::kRead) shared_.reads.give_back();
  if (done.status != WorkStatus::kOk) {
    // Work that fails ends the connection (RFC 8166 §4.5.4): the peer's memory was not as told.
    slot.lost = true;
    shared_.disconnect = true;
  }
  if (!is_last) return;
  if (slot.lost) {
    // While it is in service or asked for memory, the layer above still has to give its word.
    if (is_answered(slot.state)) finish(slot);
  } else if (slot.state == State::kPulling) {
    if (slot.extra->puller.finish_chunk(slot.extra->offered)) next_chunk(slot);
  } else if (slot.state == State::kReplying) {
    if (!slot.by_read) return finish(slot);
    slot.state = State::kExposed;
    profile_->sent(slot.index, now_);
  }
}

// Whether the layer above has given its word, or is not asked for any.
bool Responder::is_answered(State state) noexcept {
  return state != State::kFree && state != State::kWanting && state != State::kServing;
}

void Responder::handle_timeout(Instant now) {
  if (profile_ != nullptr) {
    const std::uint32_t expired = profile_->expire(now);
    shared_.counters.timed_out += expired;
    if (expired > 0) shared_.disconnect = true;  // which ends the peer's rights to the memory
  }
  if (peer_.expired(now)) shared_.disconnect = true;
}

std::optional<Instant> Responder::poll_timeout() const noexcept {
  const auto done = profile_ != nullptr ? profile_->next_deadline() : std::nullopt;
  const auto peer = peer_.deadline();
  return peer && done ? std::min(*peer, *done) : peer ? peer : done;
}

void Responder::handle_disconnected() {
  peer_.stop();
  while (!waiting_.empty()) shared_.receives.repost(waiting_.pop().receive);
  if (profile_ != nullptr) profile_->handle_disconnected();
  for (Slot& slot : slots_) {
    if (!slot.used) continue;
    slot.lost = true;
    if (slot.pending == 0 && is_answered(slot.state)) finish(slot);
  }
}

void Responder::work_posted(Slot& slot, std::uint32_t count) {
  for (; count > 0; --count) {
    ++slot.pending;
    peer_.posted(now_);
  }
}

// --- A Call comes in ---------------------------------------------------------------------------

void Responder::begin(ReceiveId receive, const Received& message) {
  Slot& slot = slots_.take();
  slot.receive = receive;
  slot.holds_receive = true;
  slot.known_above = slot.lost = slot.success = slot.by_read = slot.is_padded = slot.has_one_run =
      false;
  slot.pending = 0;
  slot.xid = message.xid;
  slot.version = message.version;
  slot.inline_part = {};
  ++last_serial_;
  ++in_service_;
  ++shared_.counters.calls_started;
  if (message.kind == Kind::kOtherVersion) return start_error(slot, Kind::kErrorVersion);
  if (message.kind == Kind::kMessage && !message.has_chunks) [[likely]] {
    ++shared_.counters.short_calls;
    slot.inline_part = message.payload;
    const bool has_xid =
        message.payload.size() >= xdr::kWordSize &&
        xdr::load_word(message.payload.data()) == static_cast<std::uint32_t>(message.xid);
    return has_xid ? deliver(slot, message.payload) : start_error(slot, Kind::kErrorChunk);
  }
  // RFC 8167 §5.3: a backward Call has no chunks.
  if (options_.inline_only || message.kind == Kind::kMalformed || !take_call(slot, message)) {
    return start_error(slot, Kind::kErrorChunk);
  }
  next_chunk(slot);
}

Responder::Extra& Responder::add_extra(Slot& slot) {
  Extra& extra = *(slot.extra = extras_.take());
  extra.slot = slot.index;
  extra.generation = slot.generation;
  extra.serial = last_serial_;
  extra.offered.clear();
  extra.items.clear();
  extra.puller.clear();
  extra.reply.stream.clear();
  extra.reply.items.clear();
  extra.filler = {};
  extra.has_written = false;
  extra.invalidate.reset();
  return extra;
}

// Takes over what the header says; false when it makes no sense (RFC 8166 §4.5.2).
bool Responder::take_call(Slot& slot, const Received& message) {
  const wire::ChunkLists& lists = shared_.lists;
  const bool is_long = message.kind == Kind::kNoMessage;
  Extra& extra = add_extra(slot);
  if (message.kind == Kind::kPadded) {
    // RFC 5666 §3.9 does not mention chunks in it.
    if (profile_ == nullptr || message.has_chunks) return false;
    extra.padding = rfc5666::padding_of(message, options_);
    slot.is_padded = true;
    ++shared_.counters.padded_calls;
  }
  slot.inline_part = message.payload;
  OfferedChunks& offered = extra.offered;
  if (!offered.take(lists, options_)) return false;
  const auto& chunks = offered.chunks();
  // A message is inline or in a Position-Zero Read chunk, never both and never neither.
  if (is_long != offered.has_position_zero() || is_long != message.payload.empty()) return false;
  // Nor is it empty: there would be no memory that holds it.
  if (is_long && chunks[0].size == 0) return false;
  if (!offered.positions_fit(message.payload.size())) return false;
  if (!chunks.empty() && shared_.link.reads_in_flight_max == 0) return false;
  if (is_long) ++shared_.counters.nomsg_calls;
  shared_.counters.read_chunk_count += chunks.size() - (is_long ? 1U : 0U);
  if (!message.has_chunks) ++shared_.counters.short_calls;
  return is_long ||
         (message.payload.size() >= xdr::kWordSize &&
          xdr::load_word(message.payload.data()) == static_cast<std::uint32_t>(slot.xid));
}

// Asks for the next Read chunk's memory, or hands the Call over when all are here.
void Responder::next_chunk(Slot& slot) {
  Extra& extra = *slot.extra;
  const ReadChunk* chunk = extra.puller.wanted(extra.offered);
  if (chunk == nullptr) return deliver(slot, slot.inline_part);
  slot.state = State::kWanting;
  slot.known_above = true;
  shared_.events.extend() = MemoryWanted{slots_.id(slot),
                                         slot.xid,
                                         chunk->position,
                                         chunk->size,
                                         slot.inline_part,
                                         extra.puller.long_part(extra.offered),
                                         extra.offered.chunks().view()};
}

// `inline_part` is the slot's: reading it there right after it was stored would stall.
void Responder::deliver(Slot& slot, Bytes inline_part) {
  slot.state = State::kServing;
  slot.known_above = true;
  auto& received = shared_.events.extend().emplace<CallReceived>();
  received.call = slots_.id(slot);
  received.xid = slot.xid;
  received.inline_part = inline_part;
  if (slot.extra == nullptr) [[likely]]
    return;
  Extra& extra = *slot.extra;
  for (const ReadChunk& chunk : extra.offered.chunks()) {
    if (chunk.position == 0) {
      received.long_part = chunk.data;
    } else {
      shared_.counters.read_chunk_bytes += chunk.size;
      (void)extra.items.push_back({chunk.position, chunk.data});  // as many as chunks
    }
  }
  received.items = extra.items.view();
  received.has_chunks = true;
  if (slot.is_padded) received.padding = &extra.padding;
}

// --- A reply goes out --------------------------------------------------------------------------

void Responder::start_error(Slot& slot, Kind error) {
  Counters& counters = shared_.counters;
  shared_.lists.clear();
  ++(error == Kind::kErrorVersion ? counters.err_vers_sent : counters.err_chunk_sent);
  start_sending(slot, error);
}

// Encodes the header (Shared::lists holds its chunks), posts the Receive again before the Send that
// grants a credit for it (RFC 8166 §3.3.1), and queues the Writes and the Send.
void Responder::start_sending(Slot& slot, Kind kind) {
  const Dialect dialect = shared_.link.dialect;
  const MutableBytes place = headers_.place(slot.index);
  slot.success = kind == Kind::kMessage || kind == Kind::kNoMessage;
  if (kind == Kind::kMessage && shared_.lists.empty()) {
    const std::uint32_t size = header_sizes(dialect).shortest;
    MutableBytes header = place;
    slot.header_size = size;
    if (slot.header_room != nullptr) {
      Fragment& first = slot.has_one_run ? slot.run : slot.extra->reply.stream[0];
      header = header_in_front(first, slot.header_room, size);
      slot.header_size = 0;
    }
    encode_short(dialect, slot.xid, shared_.receives.granted(), header);
  } else {
    // An error header echoes the version that it answers (RFC 8166 §4.5.1).
    slot.header_size = encode(dialect,
                              {.kind = kind,
                               .xid = slot.xid,
                               .credits = shared_.receives.granted(),
                               .version = slot.version},
                              shared_.lists, place);
  }
  if (slot.success && slot.extra != nullptr && shared_.link.remote_invalidation) {
    slot.extra->invalidate = slot.extra->offered.only_handle();
  }
  slot.state = State::kReplying;
  if (slot.success) count_reply(slot);
  if (slot.holds_receive) {
    slot.holds_receive = false;
    slot.inline_part = {};
    shared_.receives.answered(slot.receive);
  }
  slots_.make_ready(slot);
}

void Responder::count_reply(const Slot& slot) {
  Counters& counters = shared_.counters;
  if (slot.by_read) {
    ++counters.read_replies;
  } else if (!slot.has_one_run && slot.extra->reply.form == ReplyForm::kNoMsg) {
    ++counters.nomsg_replies;
    ++counters.reply_chunk_count;
  } else if (slot.extra == nullptr || slot.extra->offered.writes().empty()) {
    ++counters.short_replies;
  }
  if (slot.extra != nullptr) count_results(slot.extra->reply, counters);
}

void Responder::poll_actions(ActionRoom& room) {
  slots_.emit_ready([&](Slot& slot) { return emit(slot, room); }, [] {});
}

bool Responder::emit(Slot& slot, ActionRoom& room) {
  if (slot.lost) return true;
  if (slot.state == State::kReplying) [[likely]]
    return emit_reply(slot, room);
  if (slot.state == State::kPulling) return emit_reads(slot, room);
  if (slot.state != State::kExposed) return true;
  std::uint32_t posted = 0;
  const bool all = profile_->emit(slot.index, slot.generation, room, posted);
  work_posted(slot, posted);
  return all;
}

bool Responder::emit_reads(Slot& slot, ActionRoom& room) {
  std::uint32_t posted = 0;
  const auto emitted = slot.extra->puller.emit(
      slot.extra->offered, slots_.work_id(slot, WorkKind::kRead), shared_.reads, room, posted);
  if (emitted == Puller::Emitted::kNoReadSlot) shared_.reads.wait(*this, slot.index);
  work_posted(slot, posted);
  return emitted != Puller::Emitted::kRoomIsFull;
}

bool Responder::emit_reply(Slot& slot, ActionRoom& room) {
  if (slot.pending > 0) return true;  // all is out
  if (slot.success && slot.extra != nullptr && !emit_writes(slot, room)) return false;
  if (room.full()) return false;
  auto& send = room.add<PostSend>();
  send.id = slots_.work_id(slot, WorkKind::kReplySend);
  send.header_offset = headers_.offset(slot.index);
  send.header_size = slot.header_size;
  if (slot.success && slot.has_one_run) {
    send.gather = {&slot.run, 1};
  } else if (slot.success && slot.extra->reply.form == ReplyForm::kMsg) {
    send.gather = slot.extra->reply.stream.view();
  }
  if (slot.extra != nullptr) {
    send.follows_writes = slot.extra->has_written;
    if (slot.extra->invalidate) send.invalidate = *slot.extra->invalidate;
  }
  if (slot.by_read) profile_->posted(slot.index);
  work_posted(slot, 1);
  return true;
}

bool Responder::emit_writes(Slot& slot, ActionRoom& room) {
  Extra& extra = *slot.extra;
  const bool in_reply_chunk =
      !slot.by_read && !slot.has_one_run && extra.reply.form == ReplyForm::kNoMsg;
  for (SegmentFiller::Piece piece{};;) {
    if (room.full()) return false;
    if (!extra.filler.next(extra.reply, extra.offered.writes(), extra.offered.reply_chunk(),
                           in_reply_chunk, piece)) {
      return true;
    }
    room.add(
        RdmaWrite{slots_.work_id(slot, WorkKind::kWrite), piece.from, piece.from_offset, piece.to});
    extra.has_written = true;
  }
}

// --- The end -----------------------------------------------------------------------------------

void Responder::finish(Slot& slot) {
  if (slot.holds_receive) shared_.receives.answered(slot.receive);
  slot.holds_receive = false;
  if (slot.by_read) profile_->ended(slot.index);
  if (slot.known_above) {
    auto& done = shared_.events.extend().emplace<CallDone>();
    done.call = slots_.id(slot);
    done.replied = slot.success && !slot.lost;
  }
  if (slot.extra != nullptr) extras_.give_back(slot.extra);
  slot.extra = nullptr;
  slot.state = State::kFree;
  slots_.free(slot);
  --in_service_;
  ++shared_.counters.calls_ended;
  // Not when the connection is about to end: what the slots held may tell why.
  if (waiting_.empty() || shared_.disconnect) return;
  const Waiting next = waiting_.pop();
  begin(next.receive, decode(shared_.link.dialect, next.bytes, options_.limits, shared_.lists));
}

// A transfer that the peer refused; Calls after the first have no part in the end.
void Responder::note_refusal(const Slot& slot) {
  if (refusal_noted_) return;
  refusal_noted_ = true;
  shared_.events.extend() = ChunkRefused{slots_.id(slot)};
}

// A Write is complete when it is on its way, and a Send that was copied is as well: the Call whose
// memory it was may be done. Its chunks are still known, unless another Call has taken its slot.
void Responder::handle_refused_write(const wire::Segment& to) {
  const Extra* newest = nullptr;
  extras_.each([&](const Extra& extra) {
    const Slot& slot = slots_[extra.slot];
    const bool is_its_last = slot.generation == extra.generation + (slot.used ? 0U : 1U);
    if (!is_its_last || !extra.offered.takes_write_to(to)) return;
    if (newest == nullptr || extra.serial > newest->serial) newest = &extra;
  });
  if (newest != nullptr) note_refusal(slots_[newest->slot]);
}

std::uint64_t Responder::chunk_digest(CallId call) const {
  const Extra* extra = slots_[slot_of(call)].extra;
  return extra == nullptr ? 0 : extra->offered.digest();
}

// --- Profile::kRfc5666: replies that the requester reads ----------------------------------------

void Responder::send_exposed(std::uint16_t index) {
  Slot& slot = slots_[index];
  const Extra& extra = *slot.extra;
  shared_.lists.clear();
  profile_->list(index, shared_.lists);
  if (extra.offered.has_reply_chunk()) {
    return_reply_chunk(shared_.lists, extra.offered.reply_chunk(), 0, options_.return_form);
  }
  start_sending(slot, extra.reply.form == ReplyForm::kNoMsg ? Kind::kNoMessage : Kind::kMessage);
}

// RFC 8166 §4.5.3: there is no way for this reply.
void Responder::fail_exposed(std::uint16_t index) {
  slots_[index].by_read = false;
  start_error(slots_[index], Kind::kErrorChunk);
}

}  // namespace rpcrdma::engine
