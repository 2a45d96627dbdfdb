#include "engine/requester.h"

#include <algorithm>

#include "base/assert.h"
#include "wire/prefix.h"

namespace rpcrdma::engine {
namespace {

constexpr std::size_t kReplySizeMin = 20;  // RFC 5531 §9: AUTH_ERROR, the shortest reply, bytes

// Precondition: there is one.
std::uint32_t first_word(Bytes bytes) {
  return xdr::load_word(bytes.data());
}

bool is_rpc_call(Bytes payload) {
  return payload.size() >= 2 * xdr::kWordSize &&
         xdr::load_word(payload.data() + xdr::kWordSize) == 0;
}

}  // namespace

Requester::Requester(const Options& options, Outbox& outbox, HeaderArena headers)
    : options_(options),
      outbox_(outbox),
      headers_(headers),
      credits_(options.credits, options.profile == Profile::kRfc5666),
      slots_(options.calls_max),
      xids_(options.calls_max),
      free_(options.calls_max),
      waiting_(options.calls_max),
      ready_(options.calls_max),
      pulling_(options.profile == Profile::kRfc5666 ? std::make_unique<Pulling[]>(options.calls_max)
                                                    : nullptr),
      read_waiters_(pulling_ != nullptr ? options.calls_max : 0) {
  for (Slot& slot : slots_) {
    slot.index = static_cast<std::uint16_t>(&slot - slots_.data());
    free_.push(slot.index);
  }
}

// --- Commands ----------------------------------------------------------------------------------

Expected<CallId, StartError> Requester::start_call(Instant now, Xid xid, const Outgoing& call,
                                                   std::chrono::nanoseconds timeout) {
  if (!outbox_.connected) return Unexpected<StartError>(StartError::kNotConnected);
  if (free_.empty()) return Unexpected<StartError>(StartError::kQueueFull);
  const std::uint16_t index = free_.front();
  Slot& slot = slots_[index];
  if (auto planned = plan_call(call, options_, negotiated_, slot.plan); !planned) {
    return Unexpected<StartError>(options_.inline_only ? StartError::kTooLarge : planned.error());
  }
  if (options_.inline_only && !slot.plan.segments.empty()) {
    return Unexpected<StartError>(StartError::kTooLarge);
  }
  (void)free_.pop();
  slot.state = State::kWaiting;
  slot.spent = slot.send_asked = false;
  slot.pending = slot.next = 0;
  slot.xid = xid;
  slot.header_room = call.header_room;
  xids_[index] = static_cast<std::uint32_t>(xid);
  set_deadline(slot, now + timeout);
  slot.exposures.clear();
  slot.reply.results.clear();
  slot.error.reset();
  if (pulling_ != nullptr) note_pulling(slot, call);
  waiting_.push(index);
  ++in_flight_;
  ++outbox_.counters.calls_started;
  return to_call_id(index, slot.generation);
}

void Requester::cancel(Instant now, CallId call) {
  now_ = std::max(now_, now);  // a caller may have an older one
  if (Slot* slot = find(call)) fail(*slot, CallError::kCanceled);
}

void Requester::release(CallId call) {
  Slot* slot = find(call);
  RPCRDMA_ASSERT(slot != nullptr && slot->state == State::kDelivered,
                 "release() of a call that has no reply to give back");
  drop(slot->reply.receive);
  free_slot(*slot);
}

bool Requester::is_error_for_call(Bytes message) {
  const auto prefix = wire::peek(message);
  return prefix && static_cast<wire::v1::Type>(prefix->type) == wire::v1::Type::kError &&
         find_waiting_for_reply(prefix->xid) != nullptr;
}

// --- Inputs ------------------------------------------------------------------------------------

void Requester::handle_connected(const Negotiated& negotiated) {
  negotiated_ = negotiated;
}

void Requester::handle_received(Instant now, ReceiveId receive, Bytes message,
                                std::optional<SteeringTag> invalidated) {
  now_ = now;
  if (!invalidated && pulling_ == nullptr && take_short_reply(now, receive, message)) [[likely]] {
    return;
  }
  const auto prefix = wire::peek(message);
  Slot* slot = prefix ? find_waiting_for_reply(prefix->xid) : nullptr;
  if (invalidated && !invalidate(slot, *invalidated)) {
    // RFC 8797 §4.1: only a handle of this very call may be invalidated.
    ++outbox_.counters.bad_reply_count;
    outbox_.disconnect = true;
    return drop(receive);
  }
  if (!prefix) {
    ++outbox_.counters.short_message_count;
    return drop(receive);
  }
  // RFC 8166 §4.5: a requester never answers what it cannot use; it drops it, and the call's own
  // time-out deals with the rest.
  const auto decoded = wire::v1::decode(message, options_.limits, lists_);
  if (!decoded) {
    ++outbox_.counters.bad_reply_count;
    return drop(receive);
  }
  // RFC 8167: a Call comes to who has not said that it takes any.
  const bool is_call =
      std::holds_alternative<wire::v1::Msg>(decoded->header.body) && is_rpc_call(decoded->payload);
  if (slot == nullptr || is_call) {
    ++outbox_.counters.unknown_xid_count;
    return drop(receive);
  }
  accept_reply(now, *slot, receive, *decoded);
}

// The common case in one go: a short reply to a Call without chunks. False, and nothing done: it is
// something else, or wrong.
bool Requester::take_short_reply(Instant now, ReceiveId receive, Bytes message) {
  if (message.size() < wire::v1::kHeaderSizeMin + kReplySizeMin || !wire::v1::is_short(message)) {
    return false;
  }
  const std::uint32_t xid = first_word(message);
  const Bytes payload = message.subspan(wire::v1::kHeaderSizeMin);
  Slot* slot = find_waiting_for_reply(Xid{xid});
  if (slot == nullptr || slot->state != State::kSent || slot->error ||
      !slot->plan.segments.empty() || first_word(payload) != xid || is_rpc_call(payload)) {
    return false;
  }
  ++outbox_.counters.short_replies;
  answered(*slot);
  credits_.grant(xdr::load_word(message.data() + 8));
  slot->reply.receive = receive;
  slot->reply.inline_part = payload;
  slot->reply.in_reply_chunk = 0;
  slot->reply.results.clear();
  if (slot->pending == 0) {  // nothing to fence
    finish(*slot, payload);
    return true;
  }
  start_fencing(now, *slot);
  return true;
}

void Requester::handle_done(const WorkDone& done, const WorkName& name) {
  Slot& slot = slots_.at(name.slot);
  RPCRDMA_ASSERT(slot.generation == name.generation && slot.pending > 0,
                 "a completion for work that was not posted");
  --slot.pending;
  if (name.kind == WorkKind::kPull) return handle_pulled(slot, done);
  if (name.kind == WorkKind::kExpose) {
    Exposure& exposure = slot.exposures[name.part];
    const bool ok = done.status == WorkStatus::kOk && done.handle.has_value();
    exposure.state = ok && outbox_.connected ? Handle::kLive : Handle::kDead;
    if (ok) {
      exposure.tag = *done.handle;
      exposure.address = done.address;
    } else if (!slot.error) {
      // Flushed: the connection has ended, whether we were told or not.
      const bool lost = !outbox_.connected || done.status == WorkStatus::kFlushed;
      fail(slot, lost ? CallError::kConnectionLost : CallError::kNoMemory);
    }
    if (slot.state == State::kExposing && slot.pending == 0 &&
        slot.exposures.size() == slot.plan.segments.size()) {
      slot.state = State::kSending;
      enqueue(slot);
    }
  } else if (name.kind == WorkKind::kRevoke) {
    slot.exposures[name.part].state = Handle::kDead;
  }
  if (slot.state == State::kFencing) fence(slot);
}

void Requester::handle_timeout(Instant now) {
  now_ = now;
  next_timeout_.reset();
  for (Slot& slot : slots_) {
    if (slot.state == State::kFree || slot.state == State::kDelivered ||
        slot.state == State::kAbandoned) {
      continue;
    }
    if (slot.deadline <= now) {
      if (slot.state == State::kFencing) {
        // The memory cannot be made safe while the connection lives.
        outbox_.disconnect = true;
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
  ++outbox_.counters.timed_out;
  const bool is_silent = slot.spent && slot.send_asked && slot.arrivals_before == arrivals();
  fail(slot, CallError::kTimedOut);
  if (options_.inline_only || !outbox_.connected) return;  // backward Calls end no connection
  if (!is_silent && !is_stuck()) return;
  outbox_.given_up = is_silent ? GivenUp::kSilent : GivenUp::kNoCredits;
  outbox_.disconnect = true;
}

// Whether no Call can go any more, since those that were given up hold every credit.
bool Requester::is_stuck() const noexcept {
  std::uint32_t given_up = 0;
  for (const Slot& slot : slots_) {
    const bool has_ended = slot.error || slot.state == State::kAbandoned;
    if (slot.spent && slot.send_asked && has_ended) ++given_up;
  }
  if (given_up == 0 || given_up < credits_.unanswered()) return false;
  return pulling_ == nullptr ? !credits_.available()
                             : !dones_.allow(credits_.limit(), credits_.unanswered(), true);
}

void Requester::handle_disconnected() {
  read_waiters_.clear();
  for (Slot& slot : slots_) {
    for (Exposure& exposure : slot.exposures) {
      // The provider promises that no tag outlives the connection.
      if (exposure.state == Handle::kLive) exposure.state = Handle::kDead;
    }
    if (slot.state == State::kFree || slot.state == State::kDelivered) continue;
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

// --- Outputs -----------------------------------------------------------------------------------

std::size_t Requester::poll_actions(std::span<Action> room) {
  admit();
  std::size_t used = 0;
  while (!ready_.empty()) {
    Slot& slot = slots_[ready_.front()];
    if (!emit(slot, room, used)) break;
    slot.queued = false;
    (void)ready_.pop();
    admit();
  }
  return used;
}

std::optional<Instant> Requester::poll_timeout() const {
  return next_timeout_;
}

// --- From waiting to sent ----------------------------------------------------------------------

// Lets Calls go while there are credits and, for each, a Receive for its reply (RFC 8166 §3.3.1).
void Requester::admit() {
  const auto has_receive = [this] {
    return std::int64_t{outbox_.receives_posted} >
           std::int64_t{credits_.unanswered()} +
               std::max<std::int64_t>(outbox_.receives_for_calls, 0);
  };
  while (!waiting_.empty() && outbox_.connected && may_go() && has_receive()) {
    Slot& slot = slots_[waiting_.pop()];
    credits_.spend();
    if (pulling_ != nullptr) [[unlikely]]
      dones_.start_call(pulling_[slot.index].by_read);
    slot.spent = true;
    slot.state = slot.plan.segments.empty() ? State::kSending : State::kExposing;
    enqueue(slot);
  }
}

void Requester::enqueue(Slot& slot) {
  if (slot.queued) return;
  slot.queued = true;
  ready_.push(index_of(slot));
}

// Writes the slot's next actions; false when the room is used up before all are out.
bool Requester::emit(Slot& slot, std::span<Action> room, std::size_t& used) {
  if (slot.state == State::kSending) [[likely]]
    return emit_send(slot, room, used);
  switch (slot.state) {
    case State::kExposing:
      return emit_exposures(slot, room, used);
    case State::kPulling:
      if (!emit_pulls(slot, room, used)) return false;
      return slot.state != State::kFencing || emit_fencing(slot, room, used);
    case State::kFencing:
      return emit_fencing(slot, room, used);
    case State::kFree:
    case State::kWaiting:
    case State::kSending:
    case State::kSent:
    case State::kDelivered:
    case State::kAbandoned:
      return true;
  }
  return true;
}

bool Requester::emit_exposures(Slot& slot, std::span<Action> room, std::size_t& used) {
  for (; slot.next < slot.plan.segments.size(); ++slot.next) {
    if (used == room.size()) return false;
    const PlannedSegment& segment = slot.plan.segments[slot.next];
    room[used++] = Expose{
        work(slot, WorkKind::kExpose, slot.next), segment.memory, segment.size, segment.offset,
        segment.kind == ChunkKind::kRead ? Access::kRemoteRead : Access::kRemoteWrite};
    (void)slot.exposures.push_back({SteeringTag{}, 0, Handle::kAsked});
    ++slot.pending;
  }
  return true;
}

PostSend& Requester::post_send(Slot& slot, std::uint32_t header_size, Action& action) {
  auto& send = action.emplace<PostSend>();
  send.id = work(slot, WorkKind::kCallSend);
  send.header_offset = HeaderArena::offset(slot.index);
  send.header_size = header_size;
  send.gather = slot.plan.inline_runs.view();
  ++slot.pending;
  slot.send_asked = true;
  slot.arrivals_before = arrivals();
  slot.state = State::kSent;
  if (Pulling* pulling = pulling_of(slot)) pulling->dones_before = dones_.sent();
  return send;
}

bool Requester::emit_send(Slot& slot, std::span<Action> room, std::size_t& used) {
  if (used == room.size()) return false;
  const auto index = index_of(slot);
  if (slot.plan.is_padded) [[unlikely]] {
    PostSend& send = post_send(slot, encode_padded(slot), room[used++]);
    send.pad_size = slot.plan.pad_size;
    send.pad_before = slot.plan.pad_before;
    return true;
  }
  if (slot.plan.segments.empty()) {
    const bool in_front = slot.header_room != nullptr;
    wire::v1::encode_short(slot.xid, credits_.requested(),
                           in_front ? header_in_front(slot.plan.inline_runs[0], slot.header_room)
                                    : headers_.place(index));
    ++outbox_.counters.short_calls;
    post_send(slot, in_front ? 0 : wire::v1::kHeaderSizeMin, room[used++]);
    return true;
  }
  fill_lists(slot);
  using Body = wire::v1::Body;
  const wire::v1::Header header{slot.xid, wire::v1::kVersion, credits_.requested(),
                                slot.plan.is_long ? Body(wire::v1::NoMsg{}) : wire::v1::Msg{}};
  const auto size = wire::v1::encode(header, lists_, headers_.place(index));
  RPCRDMA_ASSERT(size && *size == slot.plan.header_size, "the header is not as it was planned");
  post_send(slot, static_cast<std::uint32_t>(*size), room[used++]);
  Counters& counters = outbox_.counters;
  if (slot.plan.is_long) ++counters.nomsg_calls;
  if (lists_.has_reply) ++counters.reply_chunk_count;
  counters.write_chunk_count += lists_.writes.size();
  for (const wire::ReadSegment& read : lists_.reads) {
    if (read.position != 0) counters.read_chunk_bytes += read.target.length;
  }
  std::uint32_t position = 0;
  for (const wire::ReadSegment& read : lists_.reads) {
    if (read.position != position) ++counters.read_chunk_count;
    position = read.position;
  }
  return true;
}

// The chunk lists of the Call's header, from its plan and its tags.
void Requester::fill_lists(const Slot& slot) {
  lists_.clear();
  BoundedVector<wire::Segment, wire::kSegmentsPerChunkMax> chunk;
  std::uint32_t chunk_index = 0;
  for (std::size_t i = 0; i < slot.plan.segments.size(); ++i) {
    const PlannedSegment& planned = slot.plan.segments[i];
    const wire::Segment segment{slot.exposures[i].tag, planned.size, slot.exposures[i].address};
    bool fits = true;
    if (planned.kind != ChunkKind::kWrite || planned.chunk != chunk_index) {
      if (!chunk.empty()) fits = lists_.writes.push_back(chunk.view());
      chunk.clear();
      chunk_index = planned.chunk;
    }
    switch (planned.kind) {
      case ChunkKind::kRead:
        fits = fits && lists_.reads.push_back({planned.chunk, segment});
        break;
      case ChunkKind::kWrite:
        fits = fits && chunk.push_back(segment);
        break;
      case ChunkKind::kReply:
        lists_.has_reply = true;
        fits = fits && lists_.reply.push_back(segment);
        break;
    }
    RPCRDMA_ASSERT(fits, "the plan has more segments than a header may have");
  }
  if (!chunk.empty()) {
    const bool fits = lists_.writes.push_back(chunk.view());
    RPCRDMA_ASSERT(fits, "the plan has more Write chunks than a header may have");
  }
}

// --- From the reply to the end -----------------------------------------------------------------

// Marks the handle that the peer's Send invalidated. False: it is not one of this call's.
bool Requester::invalidate(Slot* slot, SteeringTag tag) {
  if (slot == nullptr || !options_.remote_invalidation) return false;
  for (Exposure& exposure : slot->exposures) {
    if (exposure.tag != tag) continue;
    if (exposure.state != Handle::kLive && exposure.state != Handle::kRevoking) continue;
    if (exposure.state == Handle::kLive) exposure.state = Handle::kDead;
    ++outbox_.counters.invalidated_remotely;
    return true;
  }
  return false;
}

void Requester::accept_reply(Instant now, Slot& slot, ReceiveId receive,
                             const wire::v1::Decoded& decoded) {
  if (Pulling* pulling = pulling_of(slot)) {
    dones_.answered(pulling->dones_before);
    const bool is_reply = std::holds_alternative<wire::v1::Msg>(decoded.header.body) ||
                          std::holds_alternative<wire::v1::NoMsg>(decoded.header.body);
    if (is_reply && !lists_.reads.empty()) owe_done(slot);
  }
  if (slot.state == State::kAbandoned || slot.error) {
    take_late_reply(now, slot, decoded);
    return drop(receive);
  }
  if (std::holds_alternative<wire::v1::ErrVers>(decoded.header.body) ||
      std::holds_alternative<wire::v1::ErrChunk>(decoded.header.body)) {
    ++outbox_.counters.err_received;
    credits_.grant(decoded.header.credits);
    drop(receive);
    answered(slot);
    return fail(slot, std::holds_alternative<wire::v1::ErrVers>(decoded.header.body)
                          ? CallError::kVersion
                          : CallError::kChunk);
  }
  const auto* padded = std::get_if<wire::v1::Msgp>(&decoded.header.body);
  if ((padded != nullptr && !take_padding(slot, *padded)) ||
      std::holds_alternative<wire::v1::Done>(decoded.header.body)) {
    ++outbox_.counters.bad_reply_count;  // RFC 8166 §4.5: discard
    return drop(receive);
  }
  answered(slot);
  if (!take_reply(slot, decoded)) {
    ++outbox_.counters.bad_reply_count;
    drop(receive);
    return fail(slot, CallError::kBadReply);
  }
  credits_.grant(decoded.header.credits);  // of a complete reply only
  slot.reply.receive = receive;
  if (is_done_owed(slot)) {
    slot.state = State::kPulling;  // within the call's time
    return enqueue(slot);
  }
  start_fencing(now, slot);
}

void Requester::start_fencing(Instant now, Slot& slot) {
  slot.state = State::kFencing;
  set_deadline(slot, now + options_.fence_timeout);
  fence(slot);
}

// Of a call that gave up on it; what is left is its credit, and what the reply grants: the server
// takes it that this was seen.
void Requester::take_late_reply(Instant now, Slot& slot, const wire::v1::Decoded& decoded) {
  ++outbox_.counters.unknown_xid_count;
  answered(slot);
  credits_.grant(decoded.header.credits);
  if (slot.state != State::kAbandoned) {
    return fence(slot);  // the peer may have invalidated the last handle that was to be revoked
  }
  if (!is_done_owed(slot)) return free_slot(slot);
  pulling_of(slot)->silent = true;
  start_fencing(now, slot);
}

// Checks the reply's chunks against what the call offered; sets slot.reply.
bool Requester::take_reply(Slot& slot, const wire::v1::Decoded& decoded) {
  if (!take_results(slot)) return false;
  std::uint64_t in_reply = 0;
  for (const wire::Segment& segment : lists_.reply) in_reply += segment.length;
  if (!lists_.reads.empty() && !take_read_chunks(slot, in_reply > 0)) return false;
  slot.reply.inline_part = {};
  slot.reply.in_reply_chunk = 0;
  if (is_done_owed(slot) && pulling_of(slot)->plan.in_reply_room > 0) {
    // The reply is at position zero of the Read list.
    if (!std::holds_alternative<wire::v1::NoMsg>(decoded.header.body) || in_reply > 0) return false;
    ++outbox_.counters.nomsg_replies;
    slot.reply.in_reply_chunk = pulling_of(slot)->plan.in_reply_room;
    return slot.reply.in_reply_chunk >= kReplySizeMin;
  }
  if (!std::holds_alternative<wire::v1::NoMsg>(decoded.header.body)) {
    slot.reply.inline_part = decoded.payload;
    if (lists_.empty()) ++outbox_.counters.short_replies;
    return in_reply == 0 && decoded.payload.size() >= kReplySizeMin &&
           first_word(decoded.payload) == static_cast<std::uint32_t>(slot.xid);
  }
  std::uint64_t offered = 0;
  for (const PlannedSegment& segment : slot.plan.segments) {
    if (segment.kind == ChunkKind::kReply) offered += segment.size;
  }
  ++outbox_.counters.nomsg_replies;
  slot.reply.in_reply_chunk = static_cast<std::uint32_t>(in_reply);
  return in_reply >= kReplySizeMin && in_reply <= offered;
}

// The sizes of the Write chunks. All three forms that peers send are taken: every segment with its
// length rewritten, only those used, or no list at all (docs/wire.md).
bool Requester::take_results(Slot& slot) {
  slot.reply.results.clear();
  std::uint64_t offered = 0;
  std::uint32_t chunks = 0;
  const auto close_chunk = [&] {
    std::uint64_t written = 0;
    if (chunks < lists_.writes.size()) {
      for (const wire::Segment& segment : lists_.writes.chunk(chunks)) written += segment.length;
    }
    ++chunks;
    outbox_.counters.write_chunk_bytes += written;
    // RFC 5666 §3.7: the responder may have rounded the length up to whole words.
    if (pulling_ != nullptr && written == xdr::padded(offered)) written = offered;
    return written <= offered && slot.reply.results.push_back(static_cast<std::uint32_t>(written));
  };
  bool open = false;
  for (const PlannedSegment& segment : slot.plan.segments) {
    if (segment.kind != ChunkKind::kWrite) continue;
    if (open && segment.chunk != chunks) {
      if (!close_chunk()) return false;
      offered = 0;
    }
    open = true;
    offered += segment.size;
  }
  if (open && !close_chunk()) return false;
  return lists_.writes.size() <= chunks;
}

void Requester::answered(Slot& slot) {
  if (!slot.spent) return;
  slot.spent = false;
  if (pulling_ != nullptr) [[unlikely]]
    end_call_5666(slot);
  credits_.give_back();
}

// The call ends with an error, once its memory is safe. The first cause is kept.
void Requester::fail(Slot& slot, CallError error) {
  if (slot.state == State::kFree || slot.state == State::kDelivered ||
      slot.state == State::kAbandoned || slot.state == State::kFencing) {
    return;
  }
  // It leaves its queue now: its slot may wait there again as another call.
  if (slot.state == State::kWaiting) remove(waiting_, slot);
  if (slot.state == State::kPulling) stop_pulling(slot);
  slot.error = error;
  start_fencing(now_, slot);
}

void Requester::fence(Slot& slot) {
  if (!outbox_.connected) {
    for (Exposure& exposure : slot.exposures) {
      if (exposure.state == Handle::kLive) exposure.state = Handle::kDead;
    }
    if (Pulling* pulling = pulling_of(slot)) pulling->owes_done = false;
  }
  for (const Exposure& exposure : slot.exposures) {
    if (exposure.state == Handle::kLive) return enqueue(slot);
  }
  if (is_done_owed(slot)) return enqueue(slot);
  finish_if_fenced(slot);
}

bool Requester::emit_fencing(Slot& slot, std::span<Action> room, std::size_t& used) {
  if (is_done_owed(slot) && !emit_done(slot, room, used)) return false;
  return emit_revokes(slot, room, used);
}

bool Requester::emit_revokes(Slot& slot, std::span<Action> room, std::size_t& used) {
  for (std::size_t i = 0; i < slot.exposures.size(); ++i) {
    Exposure& exposure = slot.exposures[i];
    if (exposure.state != Handle::kLive) continue;
    if (used == room.size()) return false;
    room[used++] = Revoke{work(slot, WorkKind::kRevoke, i), exposure.tag};
    exposure.state = Handle::kRevoking;
    ++slot.pending;
    ++outbox_.counters.revoked_locally;
  }
  return true;
}

void Requester::finish_if_fenced(Slot& slot) {
  if (slot.pending > 0) return;
  finish(slot, slot.reply.inline_part);
}

// `inline_part` is the slot's: reading it there right after it was stored would stall.
void Requester::finish(Slot& slot, Bytes inline_part) {
  const Pulling* pulling = pulling_of(slot);
  if (pulling != nullptr && pulling->silent) [[unlikely]]
    return free_slot(slot);
  const CallId id = to_call_id(index_of(slot), slot.generation);
  --in_flight_;
  ++outbox_.counters.calls_ended;
  if (!slot.error) {
    slot.state = State::kDelivered;
    auto& ready = outbox_.events.extend().emplace<ReplyReady>();
    ready.call = id;
    ready.inline_part = inline_part;
    ready.in_reply_chunk = slot.reply.in_reply_chunk;
    ready.results_written = slot.reply.results.view();
    if (pulling != nullptr) [[unlikely]]
      ready.by_read = &pulling->answer;
    return;
  }
  outbox_.events.extend() = CallFailed{id, *slot.error};
  if (slot.spent && slot.send_asked && outbox_.connected) {
    slot.state = State::kAbandoned;  // the peer holds its credit until it answers
  } else {
    answered(slot);
    free_slot(slot);
  }
}

void Requester::free_slot(Slot& slot) {
  slot.state = State::kFree;
  ++slot.generation;
  free_.push(index_of(slot));
}

// --- Small things ------------------------------------------------------------------------------

void Requester::remove(Ring<std::uint16_t>& queue, const Slot& slot) {
  for (std::size_t left = queue.size(); left > 0; --left) {
    const std::uint16_t index = queue.pop();
    if (index != slot.index) queue.push(index);
  }
}

void Requester::set_deadline(Slot& slot, Instant deadline) {
  slot.deadline = deadline;
  if (!next_timeout_ || deadline < *next_timeout_) next_timeout_ = deadline;
}

Requester::Slot* Requester::find(CallId call) {
  const std::uint16_t index = slot_of(call);
  if (index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  return slot.generation == generation_of(call) && slot.state != State::kFree ? &slot : nullptr;
}

Requester::Slot* Requester::find_waiting_for_reply(Xid xid) {
  // Replies mostly come in the order of their Calls, and slots are taken in turn: the next one
  // after the last reply's is tried first.
  std::size_t i = reply_hint_;
  for (std::size_t left = xids_.size(); left > 0; --left) {
    if (++i >= xids_.size()) i = 0;
    if (xids_[i] != static_cast<std::uint32_t>(xid)) continue;
    Slot& slot = slots_[i];
    if (!slot.spent || !slot.send_asked) continue;
    reply_hint_ = i;
    return &slot;
  }
  return nullptr;
}

WorkId Requester::work(const Slot& slot, WorkKind kind, std::size_t part) const {
  return to_id({kind, static_cast<std::uint8_t>(part), index_of(slot), slot.generation});
}

void Requester::drop(ReceiveId receive) {
  outbox_.repost(receive);
}

}  // namespace rpcrdma::engine
