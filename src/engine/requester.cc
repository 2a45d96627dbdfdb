#include "engine/requester.h"

#include <algorithm>

#include "base/assert.h"
#include "engine/call_chunks.h"
#include "engine/rfc5666/profile.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::engine {
namespace {

bool is_rpc_call(Bytes payload) {
  return payload.size() >= 2 * xdr::kWordSize &&
         xdr::load_word(payload.data() + xdr::kWordSize) == 0;
}

}  // namespace

Requester::Requester(const Options& options, Shared& shared, HeaderArena headers)
    : options_(options),
      shared_(shared),
      headers_(headers),
      credits_(options.credits, rfc5666::is_chosen(options)),
      slots_(options.calls_max),
      xids_(options.calls_max),
      waiting_(options.calls_max) {
  if (rfc5666::is_chosen(options)) {
    ReadSlots::Reader& self = *this;
    profile_ = std::make_unique<rfc5666::ReadReplies>(options_, shared, headers, self);
  }
}

// --- Commands ----------------------------------------------------------------------------------

Expected<CallId, StartError> Requester::start_call(Instant now, Xid xid, const Outgoing& call,
                                                   std::chrono::nanoseconds timeout) {
  if (!shared_.connected) return Unexpected<StartError>(StartError::kNotConnected);
  if (slots_.full()) return Unexpected<StartError>(StartError::kQueueFull);
  if (auto planned = plan(slots_.next(), call); !planned) {
    return Unexpected<StartError>(options_.inline_only ? StartError::kTooLarge : planned.error());
  }
  Slot& slot = slots_.take();
  slot.state = State::kWaiting;
  slot.spent = slot.send_asked = false;
  slot.pending = 0;
  slot.xid = xid;
  slot.header_room = call.header_room;
  xids_.set(slot.index, xid);
  set_deadline(slot, now + timeout);
  slot.error.reset();
  waiting_.push(slot.index);
  ++in_flight_;
  ++shared_.counters.calls_started;
  return slots_.id(slot);
}

Expected<void, StartError> Requester::plan(Slot& slot, const Outgoing& call) {
  slot.extra = nullptr;
  if (profile_ == nullptr && is_short_call(call, shared_.link)) [[likely]] {
    // Field by field: a copy of what was just written would wait for the stores.
    const Fragment& run = call.stream[0];
    slot.run.memory = run.memory;
    slot.run.size = run.size;
    slot.run.offset = run.offset;
    slot.run.item = 0;
    return {};
  }
  Extra* extra = extras_.take();
  extra->exposures.clear();
  extra->results.clear();
  auto planned = profile_ != nullptr
                     ? profile_->started(slot.index, call, extra->plan)
                     : plan_call(call, options_, shared_.link, AnswerBy::kWrites, extra->plan);
  if (planned && options_.inline_only && !extra->plan.segments.empty()) {
    planned = Unexpected<StartError>(StartError::kTooLarge);
  }
  if (!planned) {
    extras_.give_back(extra);
    return planned;
  }
  slot.extra = extra;
  return {};
}

void Requester::cancel(Instant now, CallId call) {
  now_ = std::max(now_, now);  // a caller may have an older one
  if (Slot* slot = slots_.find(call)) fail(*slot, CallError::kCanceled);
}

void Requester::release(CallId call) {
  Slot* slot = slots_.find(call);
  RPCRDMA_ASSERT(slot != nullptr && slot->state == State::kDelivered,
                 "release() of a call that has no reply to give back");
  shared_.receives.repost(slot->receive);
  free_slot(*slot);
}

// --- Inputs ------------------------------------------------------------------------------------

void Requester::handle_received(Instant now, ReceiveId receive, const Received& message,
                                std::optional<SteeringTag> invalidated) {
  now_ = now;
  if (!invalidated && take_short_reply(now, receive, message)) [[likely]]
    return;
  Slot* slot = message.kind == Kind::kTooShort ? nullptr : find_waiting_for_reply(message.xid);
  Counters& counters = shared_.counters;
  if (invalidated && !invalidate(slot, *invalidated)) {
    // RFC 8797 §4.1: only a handle of this very call may be invalidated.
    ++counters.bad_reply_count;
    shared_.disconnect = true;
    return shared_.receives.repost(receive);
  }
  if (message.kind == Kind::kTooShort) {
    ++counters.short_message_count;
    return shared_.receives.repost(receive);
  }
  // RFC 8166 §4.5: a requester never answers what it cannot use; it drops it, and the call's own
  // time-out deals with the rest.
  if (is_unreadable(message.kind)) {
    ++counters.bad_reply_count;
    return shared_.receives.repost(receive);
  }
  // RFC 8167: a Call reached a client that does not accept them.
  const bool is_call = message.kind == Kind::kMessage && is_rpc_call(message.payload);
  if (slot == nullptr || is_call) {
    ++counters.unknown_xid_count;
    return shared_.receives.repost(receive);
  }
  if (!message.has_chunks) shared_.lists.clear();
  accept_reply(now, *slot, receive, message);
}

// The common case in one go: a short reply to a Call without chunks. False, and nothing done: it is
// something else, or wrong.
bool Requester::take_short_reply(Instant now, ReceiveId receive, const Received& message) {
  if (profile_ != nullptr || message.kind != Kind::kMessage || message.has_chunks) return false;
  Slot* slot = find_waiting_for_reply(message.xid);
  if (slot == nullptr || slot->state != State::kSent || slot->error ||
      (slot->extra != nullptr && !slot->extra->plan.segments.empty()) ||
      !is_stream_of(message.payload, message.xid) || is_rpc_call(message.payload)) {
    return false;
  }
  ++shared_.counters.short_replies;
  answered(*slot);
  credits_.grant(message.credits);
  slot->receive = receive;
  slot->inline_part = message.payload;
  slot->in_reply_chunk = 0;
  if (slot->pending == 0) {  // nothing to fence
    finish(*slot, message.payload);
    return true;
  }
  start_fencing(now, *slot);
  return true;
}

void Requester::handle_done(const WorkDone& done, const WorkName& name) {
  Slot& slot = slots_.posted_by(name);
  RPCRDMA_ASSERT(slots_.is_same_use(slot, name), "a completion for work that was not posted");
  if (name.kind == WorkKind::kPull) {
    using Progress = rfc5666::ReadReplies::Progress;
    const Progress progress = profile_->handle_read(slot.index, done);
    if (progress == Progress::kFailed) fail(slot, CallError::kConnectionLost);
    if (slot.state == State::kFencing) return fence(slot);
    if (progress == Progress::kComplete) start_fencing(now_, slot);
    return;
  }
  if (name.kind == WorkKind::kDoneSend) {
    profile_->handle_done_sent(slot.index);
  } else {
    RPCRDMA_ASSERT(slot.pending > 0, "a completion for work that was not posted");
    --slot.pending;
    if (name.kind == WorkKind::kExpose) handle_exposed(slot, done, name.part);
    if (name.kind == WorkKind::kRevoke) slot.extra->exposures.revoked(name.part);
  }
  if (slot.state == State::kFencing) fence(slot);
}

void Requester::handle_exposed(Slot& slot, const WorkDone& done, std::size_t part) {
  Extra& extra = *slot.extra;
  if (!extra.exposures.take_handle(part, done, shared_.connected) && !slot.error) {
    // Flushed: the connection has ended, whether we were told or not.
    const bool lost = !shared_.connected || done.status == WorkStatus::kFlushed;
    fail(slot, lost ? CallError::kConnectionLost : CallError::kNoMemory);
  }
  if (slot.state == State::kExposing && slot.pending == 0 &&
      extra.exposures.size() == extra.plan.segments.size()) {
    slot.state = State::kSending;
    slots_.make_ready(slot);
  }
}

void Requester::handle_timeout(Instant now) {
  now_ = now;
  next_timeout_.reset();
  for (Slot& slot : slots_) {
    if (!slot.used || slot.state == State::kDelivered || slot.state == State::kAbandoned) continue;
    if (slot.deadline <= now) {
      if (slot.state == State::kFencing) {
        // The memory cannot be made safe while the connection lives.
        shared_.disconnect = true;
        continue;
      }
      time_out(slot);
      if (slot.state != State::kFencing) continue;
    }
    set_deadline(slot, slot.deadline);
  }
}

// A reply that is lost, or a server that is gone without a word, must not keep its credit for ever:
// the connection ends when the time-out shows that it is of no use any more (ADR 17).
void Requester::time_out(Slot& slot) {
  ++shared_.counters.timed_out;
  const bool is_silent = slot.spent && slot.send_asked && slot.arrivals_before == arrivals();
  fail(slot, CallError::kTimedOut);
  if (options_.inline_only || !shared_.connected) return;  // backward Calls end no connection
  if (!is_silent && !is_stuck()) return;
  shared_.given_up = is_silent ? GivenUp::kSilent : GivenUp::kNoCredits;
  shared_.disconnect = true;
}

// Whether no Call can go any more, since those that were given up hold every credit.
bool Requester::is_stuck() const noexcept {
  std::uint32_t given_up = 0;
  for (const Slot& slot : slots_) {
    const bool has_ended = slot.error || slot.state == State::kAbandoned;
    if (slot.spent && slot.send_asked && has_ended) ++given_up;
  }
  if (given_up == 0 || given_up < credits_.unanswered()) return false;
  return profile_ == nullptr ? !credits_.available() : profile_->is_stuck(credits_);
}

void Requester::handle_disconnected() {
  for (Slot& slot : slots_) {
    if (!slot.used) continue;
    if (slot.extra != nullptr) slot.extra->exposures.lose();
    if (slot.state == State::kDelivered) continue;
    if (slot.state == State::kAbandoned) {
      answered(slot);
      free_slot(slot);
    } else if (slot.state == State::kFencing) {
      fence(slot);
    } else {
      fail(slot, CallError::kConnectionLost);
    }
  }
}

// --- From waiting to sent ----------------------------------------------------------------------

void Requester::poll_actions(ActionRoom& room) {
  admit();
  slots_.emit_ready([&](Slot& slot) { return emit(slot, room); }, [this] { admit(); });
}

bool Requester::may_go() const noexcept {
  return profile_ == nullptr ? credits_.available() : profile_->may_go(waiting_.front(), credits_);
}

// Lets Calls go while there are credits and, for each, a Receive for its reply (RFC 8166 §3.3.1).
void Requester::admit() {
  while (!waiting_.empty() && shared_.connected && may_go() &&
         shared_.receives.has_one_for_reply(credits_.unanswered())) {
    Slot& slot = slots_[waiting_.pop()];
    credits_.spend();
    if (profile_ != nullptr) [[unlikely]]
      profile_->admitted(slot.index);
    slot.spent = true;
    const bool has_chunks = slot.extra != nullptr && !slot.extra->plan.segments.empty();
    slot.state = has_chunks ? State::kExposing : State::kSending;
    slots_.make_ready(slot);
  }
}

// Writes the slot's next actions; false when the room is full before all are out.
bool Requester::emit(Slot& slot, ActionRoom& room) {
  if (slot.state == State::kSending) [[likely]]
    return emit_send(slot, room);
  if (slot.state == State::kExposing) return emit_exposures(slot, room);
  if (slot.state == State::kPulling) return emit_reads(slot, room);
  return slot.state != State::kFencing || emit_fencing(slot, room);
}

bool Requester::emit_exposures(Slot& slot, ActionRoom& room) {
  Extra& extra = *slot.extra;
  while (extra.exposures.size() < extra.plan.segments.size()) {
    if (room.full()) return false;
    const std::size_t next = extra.exposures.size();
    const PlannedSegment& segment = extra.plan.segments[next];
    room.add(Expose{slots_.work_id(slot, WorkKind::kExpose, next), segment.memory, segment.size,
                    segment.offset,
                    segment.kind == ChunkKind::kRead ? Access::kRemoteRead : Access::kRemoteWrite});
    extra.exposures.ask();
    ++slot.pending;
  }
  return true;
}

bool Requester::emit_send(Slot& slot, ActionRoom& room) {
  if (room.full()) return false;
  auto& send = room.add<PostSend>();
  send.id = slots_.work_id(slot, WorkKind::kCallSend);
  send.header_offset = headers_.offset(slot.index);
  const bool has_chunks = slot.extra != nullptr && !slot.extra->plan.segments.empty();
  if (has_chunks) {
    emit_chunked(slot, send);
  } else if (profile_ == nullptr || !profile_->is_padded(slot.index)) {
    const std::uint32_t size = header_sizes(shared_.link.dialect).shortest;
    Fragment& first = slot.extra != nullptr ? slot.extra->plan.inline_runs[0] : slot.run;
    const bool in_front = slot.header_room != nullptr;
    encode_short(
        shared_.link.dialect, slot.xid, credits_.requested(),
        in_front ? header_in_front(first, slot.header_room, size) : headers_.place(slot.index));
    send.header_size = in_front ? 0 : size;
    ++shared_.counters.short_calls;
  }
  if (profile_ != nullptr) [[unlikely]]
    profile_->sent(slot.index, slot.xid, credits_.requested(), send);
  send.gather = slot.extra != nullptr ? slot.extra->plan.inline_runs.view()
                                      : std::span<const Fragment>(&slot.run, 1);
  ++slot.pending;
  slot.send_asked = true;
  slot.arrivals_before = arrivals();
  slot.state = State::kSent;
  return true;
}

void Requester::emit_chunked(Slot& slot, PostSend& send) {
  const CallPlan& plan = slot.extra->plan;
  list_chunks(plan, slot.extra->exposures, shared_.lists);
  send.header_size = encode(shared_.link.dialect,
                            {.kind = plan.is_long ? Kind::kNoMessage : Kind::kMessage,
                             .xid = slot.xid,
                             .credits = credits_.requested()},
                            shared_.lists, headers_.place(slot.index));
  RPCRDMA_ASSERT(send.header_size == plan.header_size, "the header is not as it was planned");
  if (plan.is_long) ++shared_.counters.nomsg_calls;
  count_chunks(shared_.lists, shared_.counters);
}

// --- From the reply to the end -----------------------------------------------------------------

// Marks the handle that the peer's Send invalidated. False: it is not one of this call's.
bool Requester::invalidate(Slot* slot, SteeringTag tag) {
  if (slot == nullptr || slot->extra == nullptr || !options_.remote_invalidation) return false;
  if (!slot->extra->exposures.invalidated(tag)) return false;
  ++shared_.counters.invalidated_remotely;
  return true;
}

void Requester::accept_reply(Instant now, Slot& slot, ReceiveId receive, const Received& message) {
  Counters& counters = shared_.counters;
  if (profile_ != nullptr) profile_->heard(slot.index, message);
  if (slot.state == State::kAbandoned || slot.error) {
    take_late_reply(now, slot, message);
    return shared_.receives.repost(receive);
  }
  if (message.kind == Kind::kErrorVersion || message.kind == Kind::kErrorChunk) {
    ++counters.err_received;
    credits_.grant(message.credits);
    shared_.receives.repost(receive);
    answered(slot);
    return fail(slot,
                message.kind == Kind::kErrorVersion ? CallError::kVersion : CallError::kChunk);
  }
  const bool takes_padding = profile_ != nullptr && message.kind == Kind::kPadded &&
                             profile_->take_padding(slot.index, message);
  if ((message.kind == Kind::kPadded && !takes_padding) || message.kind == Kind::kDone) {
    ++counters.bad_reply_count;  // RFC 8166 §4.5: discard
    return shared_.receives.repost(receive);
  }
  answered(slot);
  if (!take_reply(slot, message)) {
    ++counters.bad_reply_count;
    shared_.receives.repost(receive);
    return fail(slot, CallError::kBadReply);
  }
  credits_.grant(message.credits);  // of a complete reply only
  slot.receive = receive;
  if (owes_done(slot)) {
    slot.state = State::kPulling;  // within the call's time
    return slots_.make_ready(slot);
  }
  start_fencing(now, slot);
}

// The call was given up before; what is left is its credit, and what the reply grants: the server
// assumes that we processed this grant.
void Requester::take_late_reply(Instant now, Slot& slot, const Received& message) {
  ++shared_.counters.unknown_xid_count;
  answered(slot);
  credits_.grant(message.credits);
  if (slot.state != State::kAbandoned) {
    return fence(slot);  // the peer may have invalidated the last handle that was to be revoked
  }
  if (!owes_done(slot)) return free_slot(slot);
  profile_->silence(slot.index);
  start_fencing(now, slot);
}

// Checks the reply's chunks against what the call offered, and notes where the reply is.
bool Requester::take_reply(Slot& slot, const Received& message) {
  const wire::ChunkLists& lists = shared_.lists;
  if (slot.extra == nullptr) {
    if (!lists.writes.empty() || !lists.reads.empty()) return false;
  } else {
    const auto results = written_results(slot.extra->plan, lists.writes, profile_ != nullptr);
    if (!results) return false;
    slot.extra->results = *results;
    for (std::size_t i = 0; i < lists.writes.size(); ++i) {
      shared_.counters.write_chunk_bytes += size_of(lists.writes.chunk(i));
    }
  }
  const bool has_reads = !lists.reads.empty();
  const bool is_written = size_of(lists.reply.view()) > 0;
  if (has_reads && (profile_ == nullptr ||
                    !profile_->take_read_chunks(slot.index, is_written, slot.extra->results))) {
    return false;
  }
  const std::uint32_t pulled = profile_ != nullptr ? profile_->in_reply_room(slot.index) : 0;
  const CallPlan* plan = slot.extra != nullptr ? &slot.extra->plan : nullptr;
  const auto place = place_reply(message, lists, plan, pulled);
  Counters& counters = shared_.counters;
  if (message.kind == Kind::kNoMessage) {
    ++counters.nomsg_replies;
  } else if (!message.has_chunks) {
    ++counters.short_replies;
  }
  if (!place) return false;
  slot.inline_part = place->inline_part;
  slot.in_reply_chunk = place->in_reply_chunk;
  return true;
}

void Requester::answered(Slot& slot) {
  if (!slot.spent) return;
  slot.spent = false;
  if (profile_ != nullptr) [[unlikely]]
    profile_->credit_returned(slot.index);
  credits_.give_back();
}

// The call ends with an error, once its memory is safe. The first cause is kept.
void Requester::fail(Slot& slot, CallError error) {
  if (slot.state == State::kFree || slot.state == State::kDelivered ||
      slot.state == State::kAbandoned || slot.state == State::kFencing) {
    return;
  }
  if (slot.state == State::kWaiting) {
    // It leaves its queue now: its slot may wait there again as another call.
    for (std::size_t left = waiting_.size(); left > 0; --left) {
      const std::uint16_t index = waiting_.pop();
      if (index != slot.index) waiting_.push(index);
    }
  }
  if (slot.state == State::kPulling) {
    shared_.receives.repost(slot.receive);
    profile_->stop_reading(slot.index);
  }
  slot.error = error;
  start_fencing(now_, slot);
}

void Requester::start_fencing(Instant now, Slot& slot) {
  slot.state = State::kFencing;
  set_deadline(slot, now + options_.fence_timeout);
  fence(slot);
}

void Requester::fence(Slot& slot) {
  const bool has_handles = slot.extra != nullptr;
  if (!shared_.connected) {
    if (has_handles) slot.extra->exposures.lose();
    if (profile_ != nullptr) profile_->forget_done(slot.index);
  }
  if ((has_handles && slot.extra->exposures.any_live()) || owes_done(slot)) {
    return slots_.make_ready(slot);
  }
  if (slot.pending > 0 || (profile_ != nullptr && profile_->pending(slot.index) > 0)) return;
  finish(slot, slot.inline_part);
}

bool Requester::emit_reads(Slot& slot, ActionRoom& room) {
  using Progress = rfc5666::ReadReplies::Progress;
  switch (profile_->emit_reads(slot.index, slot.generation, room)) {
    case Progress::kRoomIsFull:
      return false;
    case Progress::kComplete:  // there was nothing to read
      start_fencing(now_, slot);
      return emit_fencing(slot, room);
    case Progress::kUnderWay:
    case Progress::kFailed:
      return true;
  }
  return true;
}

bool Requester::emit_fencing(Slot& slot, ActionRoom& room) {
  if (owes_done(slot) &&
      !profile_->emit_done(slot.index, slot.generation, slot.xid, credits_.requested(), room)) {
    return false;
  }
  if (slot.extra == nullptr) return true;
  return slot.extra->exposures.revoke_live([&](std::size_t part, SteeringTag tag) {
    if (room.full()) return false;
    room.add(Revoke{slots_.work_id(slot, WorkKind::kRevoke, part), tag});
    ++slot.pending;
    ++shared_.counters.revoked_locally;
    return true;
  });
}

// `inline_part` is the slot's: reading it there right after it was stored would stall.
void Requester::finish(Slot& slot, Bytes inline_part) {
  if (profile_ != nullptr && profile_->is_silent(slot.index)) [[unlikely]]
    return free_slot(slot);
  const CallId id = slots_.id(slot);
  --in_flight_;
  ++shared_.counters.calls_ended;
  if (!slot.error) {
    slot.state = State::kDelivered;
    auto& ready = shared_.events.extend().emplace<ReplyReady>();
    ready.call = id;
    ready.inline_part = inline_part;
    ready.in_reply_chunk = slot.in_reply_chunk;
    if (slot.extra != nullptr) ready.results_written = slot.extra->results.view();
    if (profile_ != nullptr) [[unlikely]]
      ready.by_read = profile_->answer(slot.index);
    return;
  }
  shared_.events.extend() = CallFailed{id, *slot.error};
  if (slot.spent && slot.send_asked && shared_.connected) {
    slot.state = State::kAbandoned;  // the peer holds its credit until it answers
  } else {
    answered(slot);
    free_slot(slot);
  }
}

void Requester::free_slot(Slot& slot) {
  if (slot.extra != nullptr) extras_.give_back(slot.extra);
  slot.extra = nullptr;
  slot.state = State::kFree;
  slots_.free(slot);
}

// --- Small things ------------------------------------------------------------------------------

void Requester::set_deadline(Slot& slot, Instant deadline) {
  slot.deadline = deadline;
  if (!next_timeout_ || deadline < *next_timeout_) next_timeout_ = deadline;
}

Requester::Slot* Requester::find_waiting_for_reply(Xid xid) {
  const auto index =
      xids_.find(xid, [this](std::size_t i) { return slots_[i].spent && slots_[i].send_asked; });
  return index ? &slots_[*index] : nullptr;
}

}  // namespace rpcrdma::engine
