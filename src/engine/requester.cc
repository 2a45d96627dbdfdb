#include "engine/requester.h"

#include <algorithm>

#include "base/assert.h"
#include "engine/call_chunks.h"
#include "engine/stream_parts.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::engine {
Requester::Requester(const Options& options, Shared& shared, HeaderArena headers)
    : options_(options),
      shared_(shared),
      headers_(headers),
      profile_(rfc5666::ReadReplies::make_if_chosen(options_, shared, headers, *this)),
      gate_(options, shared, profile_.get(), now_),
      slots_(options.calls_max),
      xids_(options.calls_max),
      offer_(options, shared) {}

// --- Commands ----------------------------------------------------------------------------------

Expected<CallId, StartError> Requester::start_call(Instant now, Xid xid, const Outgoing& call,
                                                   std::chrono::nanoseconds timeout) {
  if (!shared_.connected) return Unexpected<StartError>(StartError::kNotConnected);
  if (!shared_.link.calls) [[unlikely]]
    return Unexpected<StartError>(StartError::kNotTaken);
  if (slots_.full()) return Unexpected<StartError>(StartError::kQueueFull);
  if (auto planned = plan(slots_.next(), call); !planned) {
    return Unexpected<StartError>(shared_.link.chunks ? planned.error() : StartError::kTooLarge);
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
  gate_.wait(slot.index);
  ++in_flight_;
  ++shared_.counters.calls_started;
  return slots_.id(slot);
}

Expected<void, StartError> Requester::plan(Slot& slot, const Outgoing& call) {
  slot.chunks = nullptr;
  if (profile_ == nullptr && is_short_call(call, shared_.link)) [[likely]] {
    take_inline(call.stream[0], slot.run);
    return {};
  }
  CallChunks* chunks = chunks_.take();
  chunks->clear();
  auto planned = profile_ != nullptr
                     ? profile_->started(slot.index, call, chunks->plan)
                     : plan_call(call, options_, shared_.link, AnswerBy::kWrites, chunks->plan);
  if (planned && !shared_.link.chunks && chunks->any()) {
    planned = Unexpected<StartError>(StartError::kTooLarge);
  }
  if (!planned) {
    chunks_.give_back(chunks);
    return planned;
  }
  slot.chunks = chunks;
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
  if (invalidated && (slot == nullptr || slot->chunks == nullptr || !options_.remote_invalidation ||
                      !slot->chunks->invalidated(*invalidated, counters))) {
    // RFC 8797 §4.1: only a handle of this very call may be invalidated.
    shared_.give_up(GivenUp::kBadInvalidation);
    return shared_.drop(receive, counters.bad_reply_count);
  }
  // RFC 8166 §4.5: a requester never answers what it cannot use; it drops it, and the call's own
  // time-out deals with the rest.
  if (is_unreadable(message.kind)) return shared_.drop(receive, counters.bad_reply_count);
  // RFC 8167: a Call reached a client that does not accept them.
  const bool is_call = message.direction == Direction::kCall ||
                       (message.kind == Kind::kMessage && says_call(message.payload));
  if (slot == nullptr || is_call) return shared_.drop(receive, counters.unknown_xid_count);
  if (!message.has_chunks) shared_.lists.clear();
  accept_reply(now, *slot, receive, message);
}

// The common case in one go: a short reply to a Call without chunks. False, and nothing done: it is
// something else, or wrong.
bool Requester::take_short_reply(Instant now, ReceiveId receive, const Received& message) {
  const bool is_plain = message.kind == Kind::kMessage && !message.has_chunks &&
                        message.direction != Direction::kCall;
  if (profile_ != nullptr || shared_.is_offering || !is_plain) return false;
  Slot* slot = find_waiting_for_reply(message.xid);
  if (slot == nullptr || slot->state != State::kSent || slot->error ||
      (slot->chunks != nullptr && slot->chunks->any()) ||
      !is_reply_to(message.payload, message.xid)) {
    return false;
  }
  ++shared_.counters.short_replies;
  answered(*slot);
  gate_.grant(message.credits);
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

void Requester::handle_done(const Completion& done, const WorkName& name) {
  Slot& slot = slots_.posted_by(name);
  RPCRDMA_ASSERT(slots_.is_same_use(slot, name), "a completion for work that was not posted");
  RPCRDMA_ASSERT(slot.pending > 0, "a completion for work that was not posted");
  --slot.pending;
  if (name.kind == WorkKind::kCallSend) sends_.note_complete(now_);
  if (name.kind == WorkKind::kExpose) handle_exposed(slot, done, name.part);
  if (name.kind == WorkKind::kRevoke) slot.chunks->exposures.revoked(name.part);
  if (name.kind == WorkKind::kPull) profile_->handle_read(slot.index, done);
  if (slot.state == State::kSending && slot.pending == 0) slots_.make_ready(slot);
  if (slot.state == State::kFencing) fence(slot);
}

void Requester::handle_exposed(Slot& slot, const Completion& done, std::size_t part) {
  CallChunks& chunks = *slot.chunks;
  if (!chunks.exposures.take_handle(part, done, shared_.connected) && !slot.error) {
    // A flush means that the connection has ended, even if no event has reported it yet.
    const bool lost = !shared_.connected || done.status == Status::kFlushed;
    fail(slot, lost ? CallError::kConnectionLost : CallError::kNoMemory);
  }
  if (slot.state == State::kExposing && slot.pending == 0 && chunks.all_asked()) {
    slot.state = State::kSending;
  }
}

void Requester::handle_timeout(Instant now) {
  now_ = std::max(now_, now);  // times are judged by an older one, and fences begin now
  offer_.handle_timeout(now);
  next_timeout_ = offer_.deadline();
  for (Slot& slot : slots_) {
    if (!slot.used || slot.state == State::kDelivered || slot.state == State::kAbandoned) continue;
    if (slot.deadline <= now) {
      if (slot.state == State::kFencing) {
        const Instant until = sends_.reason_to_wait(slot.sends_before, options_.fence_timeout);
        if (!slot.is_exposed() && now < until) {
          set_deadline(slot, until);
          continue;
        }
        // The memory cannot be made safe while the connection lives.
        shared_.give_up(GivenUp::kUnfenced);
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
  // This side may have been away, and what has come meanwhile is not all taken.
  const bool is_silent = options_.ends_silent_connections && slot.spent && slot.send_asked &&
                         now_ - slot.deadline <= kPunctual &&
                         slot.arrivals_before == shared_.arrivals();
  fail(slot, CallError::kTimedOut);
  shared_.option_credits.stop_reserving();
  if (options_.inline_only || !shared_.connected) return;  // backward Calls end no connection
  const std::uint32_t given_up = count_given_up(slots_);
  // With fewer slots than credits, no call can be started any more.
  const bool is_stuck = gate_.is_stuck(given_up) || given_up == slots_.size();
  if (!is_silent && !is_stuck) return;
  shared_.give_up(is_silent ? GivenUp::kSilent : GivenUp::kNoCredits);
}

void Requester::handle_disconnected() {
  offer_.handle_disconnected();
  for (Slot& slot : slots_) {
    if (!slot.used) continue;
    if (slot.chunks != nullptr) slot.chunks->exposures.lose();
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

void Requester::poll_work(WorkRoom& room) {
  admit();
  const auto admit_others = [this] {
    if (gate_.waiting() > 0) admit();
  };
  slots_.emit_ready([&](Slot& slot) { return emit(slot, room); }, admit_others);
}

void Requester::admit() {
  while (const auto next = gate_.pass()) {
    Slot& slot = slots_[*next];
    slot.spent = true;
    const bool has_chunks = slot.chunks != nullptr && slot.chunks->any();
    slot.state = has_chunks ? State::kExposing : State::kSending;
    slots_.make_ready(slot);
  }
}

// Adds the slot's next work; false when the room is full before all are out.
bool Requester::emit(Slot& slot, WorkRoom& room) {
  if (slot.state == State::kSending) [[likely]]
    return emit_send(slot, room);
  if (slot.state == State::kExposing) {
    return slot.chunks->emit_exposures(slot, room, slot.pending);
  }
  if (slot.state == State::kPulling && !profile_->emit_reads(slot, room, slot.pending))
    return false;
  return slot.state != State::kFencing || emit_fencing(slot, room);
}

bool Requester::emit_send(Slot& slot, WorkRoom& room) {
  if (room.full()) return false;
  const auto padding = profile_ == nullptr
                           ? std::nullopt
                           : profile_->sent(slot.index, slot.xid, credits().requested());
  std::uint32_t header_size = padding ? padding->header_size : 0;
  if (slot.chunks != nullptr && slot.chunks->any()) {
    header_size = slot.chunks->encode_header(shared_, slot.xid, credits().requested(),
                                             headers_.place(slot.index));
  } else if (!padding) {
    Fragment& first = slot.chunks != nullptr ? slot.chunks->plan.inline_runs[0] : slot.run;
    header_size = put_short_header(shared_.link, slot.xid, credits().requested(), Direction::kCall,
                                   first, slot.header_room, headers_.place(slot.index));
    ++shared_.counters.short_calls;
  }
  const auto runs = slot.chunks != nullptr ? slot.chunks->plan.inline_runs.view()
                                           : std::span<const Fragment>(&slot.run, 1);
  room.add_send(slots_.work_id(slot, WorkKind::kCallSend), headers_.slice(slot.index, header_size),
                runs, true);
  if (padding) [[unlikely]]
    room.insert(1 + padding->before, headers_.slice(slot.index, padding->size, header_size));
  ++slot.pending;
  sends_.ask();
  slot.send_asked = true;
  slot.arrivals_before = shared_.arrivals();
  slot.state = State::kSent;
  if (shared_.is_offering) [[unlikely]] {
    offer_.sent(now_);
    next_timeout_ = earlier(next_timeout_, offer_.deadline());
  }
  return true;
}

// Sends the same Call in version 1, once nothing reads the old header any more.
void Requester::send_again(Slot& slot, const Received& refusal, std::uint32_t header_size) {
  gate_.grant(refusal.credits);
  slot.send_asked = false;
  const bool has_chunks = slot.chunks != nullptr && slot.chunks->any();
  if (slot.header_room != nullptr && !has_chunks) {
    Fragment& first = slot.chunks != nullptr ? slot.chunks->plan.inline_runs[0] : slot.run;
    first.offset += header_size;
    first.size -= header_size;
  }
  slot.state = State::kSending;
  if (slot.pending == 0) slots_.make_ready(slot);
}

// --- From the reply to the end -----------------------------------------------------------------

void Requester::accept_reply(Instant now, Slot& slot, ReceiveId receive, const Received& message) {
  Counters& counters = shared_.counters;
  if (profile_ != nullptr) profile_->heard(slot.index, message);
  const bool was_offer = shared_.is_offering;
  if (was_offer) [[unlikely]] {
    const std::uint32_t header_size = header_sizes(shared_.link.dialect).shortest;
    const auto answer = offer_.take(message);
    if (answer == VersionOffer::Answer::kNone) {
      return shared_.drop(receive, counters.bad_reply_count);
    }
    if (answer == VersionOffer::Answer::kRefused && !slot.error &&
        slot.state != State::kAbandoned) {
      shared_.drop(receive, counters.err_received);
      return send_again(slot, message, header_size);
    }
  }
  if (slot.state == State::kAbandoned || slot.error) {
    take_late_reply(now, slot, message);
    return shared_.receives.repost(receive);
  }
  const bool is_refusal = message.kind == Kind::kErrorVersion || message.kind == Kind::kErrorChunk;
  if (is_refusal || (was_offer && message.kind == Kind::kErrorOption)) {
    gate_.grant(message.credits);
    shared_.drop(receive, counters.err_received);
    answered(slot);
    return fail(slot,
                message.kind == Kind::kErrorVersion ? CallError::kVersion : CallError::kChunk);
  }
  const bool takes_padding = profile_ != nullptr && message.kind == Kind::kPadded &&
                             profile_->take_padding(slot.index, message);
  if ((message.kind == Kind::kPadded && !takes_padding) || message.kind == Kind::kDone ||
      message.kind == Kind::kErrorOption) {
    return shared_.drop(receive, counters.bad_reply_count);  // RFC 8166 §4.5: discard
  }
  answered(slot);
  if (!take_reply(slot, message)) {
    shared_.drop(receive, counters.bad_reply_count);
    return fail(slot, CallError::kBadReply);
  }
  gate_.grant(message.credits);  // of a complete reply only
  slot.receive = receive;
  if (profile_ != nullptr && profile_->owes_done(slot.index)) {
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
  gate_.grant(message.credits);
  if (slot.state != State::kAbandoned) {
    return fence(slot);  // the peer may have invalidated the last handle that was to be revoked
  }
  if (profile_ == nullptr || !profile_->silence(slot.index)) return free_slot(slot);
  start_fencing(now, slot);
}

// Checks the reply's chunks against what the call offered, and notes where the reply is.
bool Requester::take_reply(Slot& slot, const Received& message) {
  const wire::ChunkLists& lists = shared_.lists;
  if (slot.chunks == nullptr) {
    if (!lists.writes.empty()) return false;
  } else if (!slot.chunks->take_results(lists.writes, profile_ != nullptr, shared_.counters)) {
    return false;
  }
  std::uint32_t pulled = 0;
  if (!lists.reads.empty()) {
    const bool is_written = size_of(lists.reply.view()) > 0;
    if (profile_ == nullptr ||
        !profile_->take_read_chunks(slot.index, is_written, slot.chunks->results, pulled)) {
      return false;
    }
  }
  const CallPlan* plan = slot.chunks != nullptr ? &slot.chunks->plan : nullptr;
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
  gate_.answered(slot.index);
}

// The call ends with an error, once its memory is safe. The first cause is kept.
void Requester::fail(Slot& slot, CallError error) {
  if (slot.state == State::kFree || slot.state == State::kDelivered ||
      slot.state == State::kAbandoned || slot.state == State::kFencing) {
    return;
  }
  if (slot.state == State::kWaiting) {
    // It leaves its queue now: its slot may wait there again as another call.
    gate_.remove(slot.index);
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
  slot.sends_before = sends_.place();
  set_deadline(slot, now + options_.fence_timeout);
  fence(slot);
}

void Requester::fence(Slot& slot) {
  if (!shared_.connected && slot.chunks != nullptr) slot.chunks->exposures.lose();
  if (slot.is_exposed() || (profile_ != nullptr && profile_->owes_done(slot.index))) {
    return slots_.make_ready(slot);
  }
  if (slot.pending == 0) finish(slot, slot.inline_part);
}

void Requester::complete_reading(std::uint16_t slot) {
  if (slots_[slot].state == State::kPulling) start_fencing(now_, slots_[slot]);
}

void Requester::fail_reading(std::uint16_t slot) {
  fail(slots_[slot], CallError::kConnectionLost);
}

bool Requester::emit_fencing(Slot& slot, WorkRoom& room) {
  if (profile_ != nullptr &&
      !profile_->emit_done(slot, slot.xid, credits().requested(), room, slot.pending)) {
    return false;
  }
  if (slot.chunks == nullptr) return true;
  return slot.chunks->emit_revokes(slot, room, slot.pending, shared_.counters);
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
    if (slot.chunks != nullptr) ready.results_written = slot.chunks->results.view();
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
  if (slot.chunks != nullptr) chunks_.give_back(slot.chunks);
  slot.chunks = nullptr;
  slot.state = State::kFree;
  slots_.free(slot);
}

void Requester::set_deadline(Slot& slot, Instant deadline) {
  slot.deadline = deadline;
  next_timeout_ = earlier(next_timeout_, deadline);
}

Requester::Slot* Requester::find_waiting_for_reply(Xid xid) {
  const auto index =
      xids_.find(xid, [this](std::size_t i) { return slots_[i].spent && slots_[i].send_asked; });
  return index ? &slots_[*index] : nullptr;
}

}  // namespace rpcrdma::engine
