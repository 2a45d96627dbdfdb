#include "engine/responder.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "engine/rfc5666/padding.h"
#include "engine/stream_parts.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::engine {

Responder::Responder(const Options& options, Shared& shared, HeaderArena headers)
    : options_(options),
      shared_(shared),
      headers_(headers),
      slots_(slot_count(options)),
      pulls_(options, shared, slots_),
      recent_writes_(options.credits),
      waiting_(options.credits),
      peer_(options.peer_timeout),
      results_(options),
      profile_(rfc5666::ExposedReplies::make_if_chosen(options_, shared, *this, slots_.size())) {}

// --- Commands ----------------------------------------------------------------------------------

Responder::Slot& Responder::answerable(CallId call) {
  Slot* slot = slots_.find(call);
  // A Call that asks for memory may be answered as it is: its chunks are then left where they are.
  RPCRDMA_ASSERT(
      slot != nullptr && (slot->state == State::kServing || slot->state == State::kWanting),
      "an answer to no call in service");
  last_move_ = now_;
  return *slot;
}

void Responder::start_reply(CallId call, const Outgoing& reply) {
  Slot& slot = answerable(call);
  if (slot.lost) return finish(slot);
  slot.header_room = reply.header_room;
  const bool takes_none = slot.chunked == nullptr || slot.chunked->offered.takes_no_reply();
  slot.has_one_run = takes_none && is_short_reply(reply.stream, shared_.link_of(slot.dialect));
  if (slot.has_one_run) {
    take_inline(reply.stream[0], slot.run);
    shared_.lists.clear();
    return start_sending(slot, Kind::kMessage);
  }
  plan(slot, reply);
}

void Responder::plan(Slot& slot, const Outgoing& reply) {
  ChunkedCall& call = slot.chunked != nullptr ? *slot.chunked : add_chunked(slot);
  const OfferedChunks& offered = call.offered;
  plan_reply(reply.stream, offered.writes(), offered.has_reply_chunk(), offered.reply_chunk(),
             options_, shared_.link_of(slot.dialect), call.reply, shared_.lists);
  if (call.reply.form == ReplyForm::kErrChunk && reply.may_be_read && profile_ != nullptr &&
      offered.writes().empty()) {
    const auto segments =
        offered.has_reply_chunk() ? std::optional(offered.reply_chunk().size()) : std::nullopt;
    slot.by_read = profile_->started(slot.index, slot.xid, reply.stream, segments, call.reply);
    if (slot.by_read) {
      slot.state = State::kExposed;
      return results_.exposing(slot, reply.stream, now_);
    }
  }
  switch (call.reply.form) {
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

void Responder::drop(CallId call, DropReason why) {
  Slot& slot = answerable(call);
  if (why == DropReason::kIsReply && slot.dialect == Dialect::kV2) return reject(call);
  ++shared_.counters.unknown_xid_count;
  slot.holds_receive = false;
  shared_.receives.repost_for_call(slot.receive);  // without a reply the grant does not change
  finish(slot);
}

void Responder::put_off(CallId call) {
  Slot* slot = slots_.find(call);
  RPCRDMA_ASSERT(slot != nullptr && slot->state == State::kWanting,
                 "put_off() without MemoryWanted");
  // The layer above has its word on a Long Call that it began to read, when it has memory or ends
  // it.
  const bool has_word = slot->chunked->puller.may_restart(slot->chunked->offered);
  slot->lost && !has_word ? finish(*slot) : pulls_.put_off(*slot);
}

void Responder::lend(CallId call, Lease memory, std::uint64_t offset, std::uint32_t head_size) {
  Slot* slot = slots_.find(call);
  RPCRDMA_ASSERT(slot != nullptr && slot->state == State::kWanting, "lend() without MemoryWanted");
  if (slot->lost) return finish(*slot);
  last_move_ = now_;
  head_size > 0 ? pulls_.lend_head(*slot, memory, offset, head_size, now_)
                : pulls_.lend(*slot, memory, offset, now_);
  slots_.make_ready(*slot);
}

void Responder::set_credits(std::uint32_t credits) {
  if (options_.credits == 0) return;  // this half is not in use
  shared_.receives.grant(std::clamp(credits, rfc5666::credits_min(options_), options_.credits));
}

std::optional<Instant> Responder::waits_for_peer_since() const noexcept {
  if (in_service_ == 0 || !all_wait_for_peer(slots_)) return std::nullopt;
  return last_move_;
}

// --- Inputs ------------------------------------------------------------------------------------

void Responder::handle_received(ReceiveId receive, const Received& message, Bytes bytes) {
  Counters& counters = shared_.counters;
  shared_.receives.arrived_for_call();
  // RFC 8166 §4.5: RDMA_ERROR of any version, RDMA_DONE, and a reply of version 2 are discarded.
  if (message.kind == Kind::kDone || is_error(message.kind) ||
      message.direction == Direction::kReply) {
    const bool is_waited_for =
        message.kind == Kind::kDone && profile_ != nullptr && profile_->acknowledged(message.xid);
    ++(is_waited_for ? counters.dones_received : counters.stray_error_count);
    return shared_.receives.repost_for_call(receive);
  }
  if (shared_.receives.is_overrun()) {
    // More Calls than granted: it has taken a Receive that was there for one of its replies.
    ++counters.credit_overruns;
    shared_.give_up(GivenUp::kOverrun);
    return shared_.receives.repost_for_call(receive);
  }
  if (slots_.full()) return waiting_.push({receive, bytes});
  begin(receive, message);
}

void Responder::handle_done(const Completion& done, const WorkName& name) {
  Slot& slot = slots_.posted_by(name);
  const bool is_same_use = slots_.is_same_use(slot, name);
  // A reply's Send names memory of the peer's only to invalidate it.
  const bool by_chunk = name.kind != WorkKind::kReplySend ||
                        (is_same_use && slot.chunked != nullptr && slot.chunked->invalidate);
  if (done.status == Status::kRemoteAccess && by_chunk) {
    note_refusal(to_call_id(name.slot, name.generation));  // which may be done long since
  }
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
  if (name.kind == WorkKind::kReplySend && !slot.by_read) results_.end(slot, now_);
  if (name.kind == WorkKind::kRead) {
    last_move_ = now_;
    shared_.reads.give_back();
    pulls_.read_done(slot);
  }
  if (done.status != Status::kOk) {
    // Work that fails ends the connection (RFC 8166 §4.5.4): the peer's memory was not as told.
    slot.lost = true;
    shared_.disconnect = true;
  }
  if (!is_last) return pulls_.go_on();
  if (slot.lost) {
    // While it is in service or asked for memory, the layer above still has to give its word.
    if (is_answered(slot.state)) finish(slot);
  } else if (slot.state == State::kPulling) {
    if (pulls_.chunk_done(slot, now_)) deliver(slot, slot.inline_part);
    pulls_.go_on();
  } else if (slot.state == State::kReplying) {
    if (!slot.by_read) return finish(slot);
    slot.state = State::kExposed;
    profile_->sent(slot.index, now_);
  }
}

void Responder::handle_timeout(Instant now) {
  if (profile_ != nullptr) profile_->handle_timeout(now);
  if (peer_.expired(now)) shared_.give_up(GivenUp::kUnserved);
  if (pulls_.is_late(now)) shared_.give_up(GivenUp::kSlowReads);
  if (results_.is_late(now)) shared_.give_up(GivenUp::kSlowReplies);
}

Deadline Responder::poll_timeout() const noexcept {
  const Deadline first = earlier(peer_.deadline(), earlier(pulls_.deadline(), results_.deadline()));
  return profile_ == nullptr ? first : earlier(first, profile_->next_deadline());
}

void Responder::handle_disconnected() {
  peer_.stop();
  results_.stop();
  pulls_.handle_disconnected();
  while (!waiting_.empty()) shared_.receives.repost(waiting_.pop().receive);
  if (profile_ != nullptr) profile_->handle_disconnected();
  for (Slot& slot : slots_) {
    if (!slot.used) continue;
    slot.lost = true;
    if (slot.pending == 0 && is_answered(slot.state)) finish(slot);
  }
}

void Responder::work_posted(Slot& slot, std::uint32_t count) {
  if (count > 0) last_move_ = now_;
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
      slot.is_watched = false;
  slot.pending = 0;
  slot.xid = message.xid;
  slot.version = message.version;
  slot.dialect = message.dialect;
  slot.inline_part = {};
  last_move_ = now_;
  if (++in_service_ == shared_.receives.granted()) ++shared_.counters.credits_exhausted;
  ++shared_.counters.calls_started;
  if (message.kind == Kind::kOtherVersion) return start_error(slot, Kind::kErrorVersion);
  if (message.kind == Kind::kMessage && !message.has_chunks) [[likely]] {
    ++shared_.counters.short_calls;
    slot.inline_part = message.payload;
    return is_call_of(message) ? deliver(slot, message.payload)
                               : start_error(slot, Kind::kErrorChunk);
  }
  // RFC 8167 §5.3: a backward Call has no chunks. Version 2 may have said that they are taken.
  const bool takes_chunks =
      !options_.inline_only || (slot.dialect == Dialect::kV2 && shared_.takes_backward_chunks);
  if (!takes_chunks || message.kind == Kind::kMalformed || !take_call(slot, message)) {
    return start_error(slot, Kind::kErrorChunk);
  }
  if (!pulls_.begin(slot)) deliver(slot, slot.inline_part);
}

ChunkedCall& Responder::add_chunked(Slot& slot) {
  ChunkedCall& call = *(slot.chunked = chunked_.take());
  call.clear();
  return call;
}

// Takes over what the header says; false when it makes no sense (RFC 8166 §4.5.2).
bool Responder::take_call(Slot& slot, const Received& message) {
  ChunkedCall& call = add_chunked(slot);
  Counters& counters = shared_.counters;
  if (message.kind == Kind::kPadded) {
    // RFC 5666 §3.9 does not mention chunks in it.
    if (profile_ == nullptr || message.has_chunks) return false;
    call.padding = rfc5666::padding_of(message, options_);
    slot.is_padded = true;
    ++counters.padded_calls;
  }
  slot.inline_part = message.payload;
  if (!call.take(message, shared_.lists, options_)) return false;
  const std::size_t chunks = call.offered.chunks().size();
  if (chunks > 0 && shared_.link_of(slot.dialect).reads_in_flight_max == 0) return false;
  const bool is_long = message.kind == Kind::kNoMessage;
  if (is_long) ++counters.nomsg_calls;
  counters.read_chunk_count += chunks - (is_long ? 1U : 0U);
  if (!message.has_chunks) ++counters.short_calls;
  return is_long || is_call_of(message);
}

// `inline_part` is the slot's: reading it there right after it was stored would stall.
void Responder::deliver(Slot& slot, Bytes inline_part) {
  slot.state = State::kServing;
  slot.known_above = true;
  last_move_ = now_;
  auto& received = shared_.events.extend().emplace<CallReceived>();
  received.call = slots_.id(slot);
  received.xid = slot.xid;
  received.inline_part = inline_part;
  if (slot.chunked == nullptr) [[likely]]
    return;
  slot.chunked->describe(received, shared_.counters);
  if (slot.is_padded) received.padding = &slot.chunked->padding;
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
  const MutableBytes place = headers_.place(slot.index);
  slot.success = kind == Kind::kMessage || kind == Kind::kNoMessage;
  if (kind == Kind::kMessage && shared_.lists.empty()) {
    Fragment none{};  // without room in front of it, the first run is not looked at
    Fragment& first = slot.has_one_run              ? slot.run
                      : slot.header_room != nullptr ? slot.chunked->reply.stream[0]
                                                    : none;
    slot.header_size =
        put_short_header(shared_.link_of(slot.dialect), slot.xid, shared_.receives.granted(),
                         Direction::kReply, first, slot.header_room, place);
  } else {
    // An error header echoes the version that it answers (RFC 8166 §4.5.1).
    slot.header_size = encode(slot.dialect,
                              {.kind = kind,
                               .xid = slot.xid,
                               .credits = shared_.receives.granted(),
                               .direction = Direction::kReply,
                               .version = slot.version,
                               .versions = shared_.versions},
                              shared_.lists, place);
  }
  if (slot.success && slot.chunked != nullptr &&
      shared_.link_of(slot.dialect).remote_invalidation) {
    slot.chunked->invalidate = slot.chunked->offered.only_handle();
  }
  slot.state = State::kReplying;
  if (slot.by_read) {
    ++shared_.counters.read_replies;
  } else if (slot.success) {
    const bool has_results = slot.chunked != nullptr && !slot.chunked->offered.writes().empty();
    const ReplyPlan* plan = slot.has_one_run ? nullptr : &slot.chunked->reply;
    count_reply(plan, has_results, shared_.counters);
  }
  if (slot.holds_receive) {
    slot.holds_receive = false;
    slot.inline_part = {};
    shared_.receives.answered(slot.receive);
  }
  slots_.make_ready(slot);
}

void Responder::poll_work(WorkRoom& room) {
  slots_.emit_ready([&](Slot& slot) { return emit(slot, room); }, [] {});
}

bool Responder::emit(Slot& slot, WorkRoom& room) {
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

bool Responder::emit_reads(Slot& slot, WorkRoom& room) {
  std::uint32_t posted = 0;
  const auto emitted = slot.chunked->puller.emit(
      slot.chunked->offered, slots_.work_id(slot, WorkKind::kRead), shared_.reads, room, posted);
  if (emitted == Puller::Emitted::kNoReadSlot) shared_.reads.wait(*this, slot.index);
  work_posted(slot, posted);
  return emitted != Puller::Emitted::kRoomIsFull;
}

bool Responder::emit_reply(Slot& slot, WorkRoom& room) {
  if (slot.pending > 0) return true;  // all is out
  if (slot.success && slot.chunked != nullptr) {
    const bool in_reply_chunk =
        !slot.by_read && !slot.has_one_run && slot.chunked->reply.form == ReplyForm::kNoMsg;
    if (!slot.chunked->emit_writes(slot, in_reply_chunk, room, recent_writes_)) return false;
  }
  if (room.full()) return false;
  std::span<const Fragment> runs;
  if (slot.success && slot.has_one_run) {
    runs = {&slot.run, 1};
  } else if (slot.success && slot.chunked->reply.form == ReplyForm::kMsg) {
    runs = slot.chunked->reply.stream.view();
  }
  const ChunkedCall* chunked = slot.chunked;
  auto& send = room.add_send(slots_.work_id(slot, WorkKind::kReplySend),
                             headers_.slice(slot.index, slot.header_size), runs,
                             chunked == nullptr || !chunked->has_written);
  if (chunked != nullptr && chunked->invalidate) send.invalidate = *chunked->invalidate;
  if (slot.by_read) profile_->posted(slot.index);
  results_.sending(slot, now_);
  work_posted(slot, 1);
  return true;
}

// --- The end -----------------------------------------------------------------------------------

void Responder::finish(Slot& slot) {
  if (slot.holds_receive) shared_.receives.answered(slot.receive);
  results_.end(slot, now_);
  if (slot.by_read) profile_->ended(slot.index);
  if (slot.known_above) {
    auto& done = shared_.events.extend().emplace<CallDone>();
    done.call = slots_.id(slot);
    done.replied = slot.success && !slot.lost;
  }
  if (slot.chunked != nullptr) {
    pulls_.end(slot);
    pulls_.go_on();
    chunked_.give_back(slot.chunked);
  }
  slot.chunked = nullptr;
  slot.state = State::kFree;
  slots_.free(slot);
  --in_service_;
  last_move_ = now_;
  ++shared_.counters.calls_ended;
  // Skipped if the connection is about to end: the content of the slots may explain the end.
  if (waiting_.empty() || shared_.disconnect) return;
  const Waiting next = waiting_.pop();
  begin(next.receive, shared_.decode_any(next.bytes));
}

// A transfer that the peer refused; Calls after the first have no part in the end.
void Responder::note_refusal(CallId call) {
  if (refusal_noted_) return;
  refusal_noted_ = true;
  shared_.events.extend() = ChunkRefused{call};
}

void Responder::handle_refused_write(const RefusedWrite& refused) {
  const auto call = refused.to ? recent_writes_.find(*refused.to) : recent_writes_.only_call();
  if (call) note_refusal(*call);
}

std::uint64_t Responder::chunk_digest(CallId call) const {
  const ChunkedCall* chunked = slots_[slot_of(call)].chunked;
  return chunked == nullptr ? 0 : chunked->offered.digest();
}

// --- Profile::kRfc5666: replies that the requester reads ----------------------------------------

void Responder::send_exposed(std::uint16_t index) {
  Slot& slot = slots_[index];
  const ChunkedCall& call = *slot.chunked;
  shared_.lists.clear();
  profile_->list(index, shared_.lists);
  if (call.offered.has_reply_chunk()) {
    return_reply_chunk(shared_.lists, call.offered.reply_chunk(), 0, options_.return_form);
  }
  start_sending(slot, call.reply.form == ReplyForm::kNoMsg ? Kind::kNoMessage : Kind::kMessage);
}

// RFC 8166 §4.5.3: there is no way for this reply.
void Responder::fail_exposed(std::uint16_t index) {
  slots_[index].by_read = false;
  start_error(slots_[index], Kind::kErrorChunk);
}

}  // namespace rpcrdma::engine
