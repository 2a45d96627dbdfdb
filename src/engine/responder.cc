#include "engine/responder.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "wire/prefix.h"

namespace rpcrdma::engine {
namespace {

std::span<const Fragment> items_of_chunk(const ReplyPlan& plan, std::uint16_t chunk) {
  const auto items = plan.items.view();
  std::size_t first = 0;
  while (first < items.size() && items[first].item != chunk + 1) ++first;
  std::size_t end = first;
  while (end < items.size() && items[end].item == chunk + 1) ++end;
  return items.subspan(first, end - first);
}

}  // namespace

Responder::Responder(const Options& options, Outbox& outbox, HeaderArena headers,
                     std::size_t first_place)
    : options_(options),
      outbox_(outbox),
      headers_(headers),
      first_place_(first_place),
      credits_(options.credits),
      possible_(options.credits),
      withheld_(options.credits),
      slots_(slot_count(options)),
      free_(slots_.size()),
      ready_(slots_.size()),
      read_waiters_(slots_.size()),
      received_(options.credits),
      exposed_of_(exposed_replies_max(options) > 0 ? slots_.size() : 0),
      exposure_waiters_(exposed_of_.size()) {
  for (Slot& slot : slots_) {
    slot.index = static_cast<std::uint16_t>(&slot - slots_.data());
    free_.push(slot.index);
  }
}

// --- Commands ----------------------------------------------------------------------------------

void Responder::start_reply(CallId call, const Outgoing& reply) {
  Slot* slot = find(call);
  // A Call that asks for memory may be answered as it is: its chunks are then left where they are.
  RPCRDMA_ASSERT(
      slot != nullptr && (slot->state == State::kServing || slot->state == State::kWanting),
      "a reply to no call in service");
  if (slot->lost) return finish(*slot);
  slot->header_room = reply.header_room;
  plan_reply(reply.stream, slot->writes, slot->has_reply_chunk, slot->reply_chunk.view(), options_,
             negotiated_, slot->reply, lists_);
  if (slot->reply.form == ReplyForm::kErrChunk && reply.may_be_read && !exposed_of_.empty() &&
      slot->writes.empty()) {
    const auto segments =
        slot->has_reply_chunk ? std::optional(slot->reply_chunk.size()) : std::nullopt;
    plan_read_reply(reply.stream, segments, options_, negotiated_, slot->reply,
                    exposed_of_[slot->index].runs);
    if (slot->reply.form != ReplyForm::kErrChunk) return start_exposing(*slot);
  }
  switch (slot->reply.form) {
    case ReplyForm::kErrChunk:
      // RFC 8166 §4.5.3: the reply fits into nothing that the Call provided.
      start_error(*slot, wire::v1::ErrChunk{});
      break;
    case ReplyForm::kMsg:
      start_sending(*slot, wire::v1::Msg{}, true);
      break;
    case ReplyForm::kNoMsg:
      start_sending(*slot, wire::v1::NoMsg{}, true);
      break;
  }
}

void Responder::reject(CallId call) {
  Slot* slot = find(call);
  RPCRDMA_ASSERT(
      slot != nullptr && (slot->state == State::kServing || slot->state == State::kWanting),
      "reject() of no call in service");
  if (slot->lost) return finish(*slot);
  start_error(*slot, wire::v1::ErrChunk{});
}

void Responder::drop(CallId call) {
  Slot* slot = find(call);
  RPCRDMA_ASSERT(
      slot != nullptr && (slot->state == State::kServing || slot->state == State::kWanting),
      "drop() of no call in service");
  ++outbox_.counters.unknown_xid_count;
  slot->holds_receive = false;
  slot->inline_part = {};
  repost(slot->receive);  // no reply goes out, so the grant does not change
  finish(*slot);
}

void Responder::restart(CallId call) {
  Slot* slot = find(call);
  RPCRDMA_ASSERT(slot != nullptr && slot->state == State::kWanting && slot->chunk > 0 &&
                     slot->chunks[0].position == 0,
                 "restart() of no Long Call that waits for memory");
  slot->chunk = 0;
}

void Responder::lend(CallId call, Lease memory, std::uint64_t offset) {
  Slot* slot = find(call);
  RPCRDMA_ASSERT(slot != nullptr && slot->state == State::kWanting, "lend() that nobody asked for");
  if (slot->lost) return finish(*slot);
  ReadChunk& chunk = slot->chunks[slot->chunk];
  chunk.data = {memory, chunk.size, offset, 0};
  slot->read = chunk.first;
  slot->read_offset = offset;
  slot->state = State::kPulling;
  enqueue(*slot);
}

void Responder::set_credits(std::uint32_t credits) {
  if (options_.credits == 0) return;  // this half is not in use
  // RFC 5666 §3.8: with one credit a client could not make a Call before its RDMA_DONE is known to
  // have come.
  const std::uint32_t credits_min = exposed_of_.empty() ? 1 : std::min(2U, options_.credits);
  credits_ = std::clamp(credits, credits_min, options_.credits);
  // More are posted before they are granted (RFC 8166 §3.3.1).
  for (; possible_ < credits_; ++possible_) {
    repost(withheld_.pop());
    if (polled_ > 0) --polled_;
  }
}

std::size_t Responder::poll_withheld(std::span<ReceiveId> room) {
  std::size_t count = 0;
  while (count < room.size() && polled_ < withheld_.size()) {
    room[count++] = withheld_.at(polled_++);
  }
  return count;
}

void Responder::withhold(ReceiveId receive) {
  withheld_.push(receive);
  credits_ = --possible_;
}

// --- Inputs ------------------------------------------------------------------------------------

RpcMessageType Responder::rpc_message_type(Bytes message) {
  Bytes payload;
  if (wire::v1::is_short(message)) [[likely]] {
    payload = message.subspan(wire::v1::kHeaderSizeMin);
  } else {
    const auto decoded = wire::v1::decode(message, options_.limits, lists_);
    if (!decoded) return RpcMessageType::kUnknown;
    const wire::v1::Body& body = decoded->header.body;
    const bool is_padded =
        options_.profile == Profile::kRfc5666 && std::holds_alternative<wire::v1::Msgp>(body);
    if (!is_padded && !std::holds_alternative<wire::v1::Msg>(body)) return RpcMessageType::kUnknown;
    payload = decoded->payload;
  }
  if (payload.size() < 2 * xdr::kWordSize ||
      xdr::load_word(payload.data()) != xdr::load_word(message.data())) {
    return RpcMessageType::kUnknown;
  }
  switch (xdr::load_word(payload.data() + xdr::kWordSize)) {
    case 0:
      return RpcMessageType::kCall;
    case 1:
      return RpcMessageType::kReply;
    default:
      return RpcMessageType::kUnknown;
  }
}

void Responder::handle_received(ReceiveId receive, Bytes message) {
  --outbox_.receives_for_calls;
  const auto prefix = wire::peek(message);
  if (!prefix) {
    ++outbox_.counters.short_message_count;
    return repost(receive);
  }
  const auto type = static_cast<wire::v1::Type>(prefix->type);
  if (type == wire::v1::Type::kDone && prefix->version == wire::v1::kVersion &&
      take_done(prefix->xid)) {
    ++outbox_.counters.dones_received;
    return repost(receive);
  }
  // RFC 8166 §4.5: a responder discards RDMA_ERROR, whatever its version says, and RDMA_DONE.
  if (type == wire::v1::Type::kError ||
      (type == wire::v1::Type::kDone && prefix->version == wire::v1::kVersion)) {
    ++outbox_.counters.stray_error_count;
    return repost(receive);
  }
  if (outbox_.receives_for_calls < 0) {
    // More Calls than granted: it has taken a Receive that was there for one of its replies.
    ++outbox_.counters.credit_overruns;
    outbox_.disconnect = true;
    return repost(receive);
  }
  if (free_.empty()) return received_.push({receive, message});
  begin({receive, message});
}

void Responder::handle_done(const WorkDone& done, const WorkName& name) {
  Slot& slot = slots_.at(name.slot);
  // A reply's Send names memory of the peer's only to invalidate it.
  const bool by_chunk = name.kind != WorkKind::kReplySend || slot.invalidate;
  if (done.status == WorkStatus::kRefused && by_chunk && slot.generation == name.generation) {
    note_refusal(slot);
  }
  // Its Send, or the end of the connection, tells all. When the connection ends before its Send was
  // posted, it may be flushed behind the end of its call.
  if (name.kind == WorkKind::kWrite) return;
  RPCRDMA_ASSERT(slot.generation == name.generation, "a completion for work that was not posted");
  work_done(slot);
  if (name.kind == WorkKind::kReplyExpose || name.kind == WorkKind::kReplyRevoke) {
    return handle_exposure(slot, done, name);
  }
  if (name.kind == WorkKind::kRead) {
    --reads_in_flight_;
    if (!read_waiters_.empty()) enqueue(slots_[read_waiters_.pop()]);
  }
  if (done.status != WorkStatus::kOk) {
    // Work that fails ends the connection (RFC 8166 §4.5.4): the peer's memory was not as told.
    slot.lost = true;
    outbox_.disconnect = true;
  }
  if (slot.pending > 0) return;
  if (slot.lost) {
    // While it is in service or asked for memory, the layer above still has to give its word.
    if (is_answered(slot.state)) finish(slot);
    return;
  }
  if (slot.state == State::kPulling) {
    const ReadChunk& chunk = slot.chunks[slot.chunk];
    if (slot.read == chunk.first + chunk.count) {
      ++slot.chunk;
      next_chunk(slot);
    }
  } else if (slot.state == State::kReplying) {
    if (slot.by_read) return await_done(slot);
    finish(slot);
  }
}

// Whether the layer above has given its word, or is not asked for any.
bool Responder::is_answered(State state) noexcept {
  switch (state) {
    case State::kPulling:
    case State::kReplying:
    case State::kExposing:
    case State::kUnacknowledged:
    case State::kRevoking:
      return true;
    case State::kFree:
    case State::kWanting:
    case State::kServing:
      return false;
  }
  return false;
}

void Responder::handle_timeout(Instant now) {
  check_done_deadlines(now);
  if (!peer_deadline_ || *peer_deadline_ > now) return;
  peer_deadline_.reset();
  outbox_.disconnect = true;
}

void Responder::handle_disconnected() {
  peer_deadline_.reset();
  while (!received_.empty()) outbox_.repost(received_.pop().receive);
  read_waiters_.clear();
  exposure_waiters_.clear();
  next_done_deadline_.reset();
  for (Slot& slot : slots_) {
    if (slot.state == State::kFree) continue;
    slot.lost = true;
    if (slot.pending == 0 && is_answered(slot.state)) finish(slot);
  }
}

// The peer is watched while it has anything of ours to do.
void Responder::work_posted(Slot& slot) {
  ++slot.pending;
  if (work_in_flight_++ == 0) peer_deadline_ = now_ + options_.peer_timeout;
}

void Responder::work_done(Slot& slot) {
  RPCRDMA_ASSERT(slot.pending > 0, "a completion for work that was not posted");
  --slot.pending;
  peer_deadline_.reset();
  if (--work_in_flight_ > 0 && outbox_.connected) peer_deadline_ = now_ + options_.peer_timeout;
}

std::size_t Responder::poll_actions(std::span<Action> room) {
  std::size_t used = 0;
  while (!ready_.empty()) {
    Slot& slot = slots_[ready_.front()];
    if (!emit(slot, room, used)) break;
    slot.queued = false;
    (void)ready_.pop();
  }
  return used;
}

// --- A Call comes in ---------------------------------------------------------------------------

void Responder::begin(const Received& received) {
  const std::byte* const prefix = received.message.data();
  Slot& slot = slots_[free_.pop()];
  slot.receive = received.receive;
  slot.holds_receive = true;
  slot.serial = ++last_serial_;
  slot.known_above = slot.lost = slot.has_reply_chunk = slot.success = slot.has_written =
      slot.is_short = slot.by_read = slot.is_padded = false;
  slot.pending = slot.chunk = slot.read = slot.write_chunk = 0;
  slot.xid = Xid{xdr::load_word(prefix)};
  slot.version = xdr::load_word(prefix + xdr::kWordSize);
  slot.inline_part = {};
  slot.reads.clear();
  slot.chunks.clear();
  slot.items.clear();
  slot.writes.clear();
  slot.reply_chunk.clear();
  slot.reply.stream.clear();
  slot.reply.items.clear();
  slot.filler = {};
  slot.invalidate.reset();
  ++in_service_;
  ++outbox_.counters.calls_started;
  if (slot.version != wire::v1::kVersion) {
    return start_error(slot, wire::v1::ErrVers{wire::v1::kVersion, wire::v1::kVersion});
  }
  if (wire::v1::is_short(received.message)) [[likely]] {
    if (!take_short_call(slot, received.message)) return start_error(slot, wire::v1::ErrChunk{});
    return deliver(slot, received.message.subspan(wire::v1::kHeaderSizeMin));
  }
  // RFC 8167 §5.3: a backward Call has no chunks.
  if (options_.inline_only) return start_error(slot, wire::v1::ErrChunk{});
  const auto decoded = wire::v1::decode(received.message, options_.limits, lists_);
  if (!decoded || !take_call(slot, *decoded)) return start_error(slot, wire::v1::ErrChunk{});
  next_chunk(slot);
}

// A Call without any chunk; false when there is none, or it names another XID.
bool Responder::take_short_call(Slot& slot, Bytes message) {
  ++outbox_.counters.short_calls;
  slot.is_short = true;
  slot.inline_part = message.subspan(wire::v1::kHeaderSizeMin);
  return slot.inline_part.size() >= xdr::kWordSize &&
         xdr::load_word(slot.inline_part.data()) == static_cast<std::uint32_t>(slot.xid);
}

// Takes over what the header says; false when it makes no sense (RFC 8166 §4.5.2).
bool Responder::take_call(Slot& slot, const wire::v1::Decoded& decoded) {
  const bool is_long = std::holds_alternative<wire::v1::NoMsg>(decoded.header.body);
  if (const auto* padded = std::get_if<wire::v1::Msgp>(&decoded.header.body)) {
    // RFC 5666 §3.9 says nothing of chunks in it.
    if (options_.profile != Profile::kRfc5666 || !lists_.empty()) return false;
    slot.padding = padding_of(*padded, options_);
    slot.is_padded = true;
    ++outbox_.counters.padded_calls;
  } else if (!is_long && !std::holds_alternative<wire::v1::Msg>(decoded.header.body)) {
    return false;
  }
  slot.inline_part = decoded.payload;
  slot.writes = lists_.writes;
  slot.has_reply_chunk = lists_.has_reply;
  if (!slot.reply_chunk.assign(lists_.reply.view())) return false;
  if (!slot.reads.assign(lists_.reads.view()) || !sort_reads(slot)) return false;
  const bool has_position_zero = !slot.chunks.empty() && slot.chunks[0].position == 0;
  // A message is inline or in a Position-Zero Read chunk, never both and never neither.
  if (is_long != has_position_zero || is_long != decoded.payload.empty()) return false;
  // Nor is it empty: there would be no memory that holds it.
  if (is_long && slot.chunks[0].size == 0) return false;
  if (!check_positions(slot, decoded.payload.size(), is_long)) return false;
  if (!slot.chunks.empty() && negotiated_.reads_in_flight_max == 0) return false;
  Counters& counters = outbox_.counters;
  if (is_long) ++counters.nomsg_calls;
  counters.read_chunk_count += slot.chunks.size() - (is_long ? 1U : 0U);
  if (lists_.empty()) ++counters.short_calls;
  if (is_long) return true;
  xdr::Reader reader(decoded.payload);
  return reader.u32("xid") == static_cast<std::uint32_t>(slot.xid) && reader.ok();
}

// Brings the Read segments into order of position, keeping the list's order inside a chunk, and
// cuts them into chunks. Peers need not list chunks in order (RFC 8166 §3.4.5).
bool Responder::sort_reads(Slot& slot) {
  // Insertion, because it is stable, needs no memory and has nothing to do in an ordered list.
  for (std::size_t i = 1; i < slot.reads.size(); ++i) {
    for (std::size_t j = i; j > 0 && slot.reads[j].position < slot.reads[j - 1].position; --j) {
      std::swap(slot.reads[j], slot.reads[j - 1]);
    }
  }
  for (std::size_t i = 0; i < slot.reads.size();) {
    const std::uint32_t position = slot.reads[i].position;
    if (position % 4 != 0) return false;
    const std::size_t first = i;
    std::uint64_t size = 0;
    for (; i < slot.reads.size() && slot.reads[i].position == position; ++i) {
      size += slot.reads[i].target.length;
    }
    const std::uint64_t size_max =
        position == 0 ? options_.long_call_size_max : options_.read_chunk_size_max;
    if (size > size_max) return false;
    if (!slot.chunks.push_back({position,
                                static_cast<std::uint32_t>(size),
                                static_cast<std::uint16_t>(first),
                                static_cast<std::uint16_t>(i - first),
                                {}})) {
      return false;
    }
  }
  return true;
}

// Each chunk must begin where the stream, with the chunks before it put in, has come to or gets to.
bool Responder::check_positions(const Slot& slot, std::uint64_t inline_size, bool is_long) {
  std::uint64_t chunk_bytes = 0;  // in chunks so far, padded
  const std::uint64_t stream_size = is_long ? slot.chunks[0].size : inline_size;
  std::uint64_t end = 0;  // of the chunk before, in the unreduced stream
  for (const ReadChunk& chunk : slot.chunks) {
    if (chunk.position == 0) continue;
    if (chunk.position < end || chunk.position - chunk_bytes > stream_size) return false;
    chunk_bytes += xdr::padded(chunk.size);
    end = chunk.position + xdr::padded(chunk.size);
  }
  return true;
}

// Asks for the next Read chunk's memory, or hands the Call over when all are here.
void Responder::next_chunk(Slot& slot) {
  while (slot.chunk < slot.chunks.size() && slot.chunks[slot.chunk].size == 0) {
    slot.chunks[slot.chunk].data = {Lease{}, 0, 0, 0};
    ++slot.chunk;
  }
  if (slot.chunk == slot.chunks.size()) return deliver(slot, slot.inline_part);
  const ReadChunk& chunk = slot.chunks[slot.chunk];
  const bool is_long = slot.chunks[0].position == 0;
  std::optional<Fragment> long_part;
  if (is_long && slot.chunk > 0) long_part = slot.chunks[0].data;
  slot.state = State::kWanting;
  slot.known_above = true;
  outbox_.events.extend() = MemoryWanted{to_call_id(index_of(slot), slot.generation),
                                         slot.xid,
                                         chunk.position,
                                         chunk.size,
                                         slot.inline_part,
                                         long_part,
                                         slot.chunks.view()};
}

// `inline_part` is the slot's: reading it there right after it was stored would stall.
void Responder::deliver(Slot& slot, Bytes inline_part) {
  std::optional<Fragment> long_part;
  for (const ReadChunk& chunk : slot.chunks) {
    outbox_.counters.read_chunk_bytes += chunk.position != 0 ? chunk.size : 0;
    if (chunk.position == 0) {
      long_part = chunk.data;
    } else {
      (void)slot.items.push_back({chunk.position, chunk.data});  // as many as chunks
    }
  }
  slot.state = State::kServing;
  slot.known_above = true;
  auto& received = outbox_.events.extend().emplace<CallReceived>();
  received.call = to_call_id(index_of(slot), slot.generation);
  received.xid = slot.xid;
  received.inline_part = inline_part;
  if (slot.is_padded) [[unlikely]]
    received.padding = &slot.padding;
  if (long_part) received.long_part = long_part;
  received.items = slot.items.view();
  received.has_chunks = !slot.is_short;
}

// --- A reply goes out --------------------------------------------------------------------------

void Responder::start_error(Slot& slot, const Body& error) {
  slot.reply.stream.clear();
  slot.reply.items.clear();
  lists_.clear();
  if (std::holds_alternative<wire::v1::ErrVers>(error)) {
    ++outbox_.counters.err_vers_sent;
  } else {
    ++outbox_.counters.err_chunk_sent;
  }
  start_sending(slot, error, false);
}

// Encodes the header (lists_ holds its chunks), posts the Receive again before the Send that grants
// a credit for it (RFC 8166 §3.3.1), and queues the Writes and the Send.
void Responder::start_sending(Slot& slot, const Body& body, bool success) {
  // An error header echoes the version that it answers (RFC 8166 §4.5.1).
  const MutableBytes place = headers_.place(first_place_ + slot.index);
  if (lists_.empty() && std::holds_alternative<wire::v1::Msg>(body)) {
    const bool in_front = slot.header_room != nullptr;
    wire::v1::encode_short(
        slot.xid, credits_,
        in_front ? header_in_front(slot.reply.stream[0], slot.header_room) : place);
    slot.header_size = in_front ? 0 : wire::v1::kHeaderSizeMin;
  } else {
    const wire::v1::Header header{slot.xid, success ? wire::v1::kVersion : slot.version, credits_,
                                  body};
    const auto size = wire::v1::encode(header, lists_, place);
    RPCRDMA_ASSERT(size.has_value(), "a reply's header was planned to fit");
    slot.header_size = static_cast<std::uint32_t>(*size);
  }
  slot.success = success;
  slot.invalidate.reset();
  if (success && !slot.is_short) slot.invalidate = only_handle(slot);
  slot.state = State::kReplying;
  if (success) count_reply(slot);
  give_receive_back(slot);
  enqueue(slot);
}

// The handle that the Send may invalidate: when the requester takes it and one handle is all that
// the Call advertised. Some peers check only the first, so several are left to the requester.
std::optional<SteeringTag> Responder::only_handle(const Slot& slot) const {
  if (!negotiated_.remote_invalidation) return std::nullopt;
  std::optional<SteeringTag> handle;
  bool single = true;
  const auto see = [&](const wire::Segment& segment) {
    if (handle && *handle != segment.handle) single = false;
    handle = segment.handle;
  };
  for (const wire::ReadSegment& read : slot.reads) see(read.target);
  for (std::size_t i = 0; i < slot.writes.size(); ++i) {
    for (const wire::Segment& segment : slot.writes.chunk(i)) see(segment);
  }
  for (const wire::Segment& segment : slot.reply_chunk) see(segment);
  return single ? handle : std::nullopt;
}

void Responder::count_reply(const Slot& slot) {
  Counters& counters = outbox_.counters;
  if (slot.by_read) {
    ++counters.read_replies;
  } else if (slot.reply.form == ReplyForm::kNoMsg) {
    ++counters.nomsg_replies;
    ++counters.reply_chunk_count;
  } else if (slot.writes.empty()) {
    ++counters.short_replies;
  }
  std::uint16_t last = 0;
  for (const Fragment& run : slot.reply.items) {
    counters.write_chunk_bytes += run.size;
    if (run.item != last) ++counters.write_chunk_count;
    last = run.item;
  }
}

void Responder::enqueue(Slot& slot) {
  if (slot.queued) return;
  slot.queued = true;
  ready_.push(index_of(slot));
}

bool Responder::emit(Slot& slot, std::span<Action> room, std::size_t& used) {
  switch (slot.state) {
    case State::kPulling:
      return slot.lost || emit_reads(slot, room, used);
    case State::kReplying:
      return slot.lost || emit_writes(slot, room, used);
    case State::kExposing:
      return slot.lost || emit_exposures(slot, room, used);
    case State::kRevoking:
      return slot.lost || emit_revokes(slot, room, used);
    case State::kFree:
    case State::kWanting:
    case State::kServing:
    case State::kUnacknowledged:
      return true;
  }
  return true;
}

bool Responder::emit_reads(Slot& slot, std::span<Action> room, std::size_t& used) {
  const ReadChunk& chunk = slot.chunks[slot.chunk];
  // A Call came when there might be some; a peer that takes none any more serves them all the same.
  const std::uint32_t reads_max = std::max(negotiated_.reads_in_flight_max, 1U);
  for (; slot.read < chunk.first + chunk.count; ++slot.read) {
    const wire::Segment& from = slot.reads[slot.read].target;
    if (from.length == 0) continue;
    if (reads_in_flight_ >= reads_max) {
      read_waiters_.push(index_of(slot));
      return true;
    }
    if (used == room.size()) return false;
    room[used++] = RdmaRead{work(slot, WorkKind::kRead), from, chunk.data.memory, slot.read_offset};
    slot.read_offset += from.length;
    work_posted(slot);
    ++reads_in_flight_;
  }
  return true;
}

// The next piece for a Write chunk, or for the Reply chunk behind them.
bool Responder::next_write(Slot& slot, SegmentFiller::Piece& piece) {
  for (; slot.write_chunk < slot.writes.size(); ++slot.write_chunk, slot.filler = {}) {
    const auto source = items_of_chunk(slot.reply, slot.write_chunk);
    if (slot.filler.next(source, slot.writes.chunk(slot.write_chunk), piece)) return true;
  }
  return slot.success && !slot.by_read && slot.reply.form == ReplyForm::kNoMsg &&
         slot.filler.next(slot.reply.stream.view(), slot.reply_chunk.view(), piece);
}

bool Responder::emit_writes(Slot& slot, std::span<Action> room, std::size_t& used) {
  if (slot.pending > 0) return true;  // all is out
  while (slot.success) {
    if (used == room.size()) return false;
    SegmentFiller::Piece piece{};
    if (!next_write(slot, piece)) break;
    room[used++] = RdmaWrite{work(slot, WorkKind::kWrite), piece.from, piece.from_offset, piece.to};
    slot.has_written = true;
  }
  if (used == room.size()) return false;
  const bool carries_stream = slot.success && slot.reply.form == ReplyForm::kMsg;
  const auto gather = carries_stream ? slot.reply.stream.view() : std::span<const Fragment>{};
  auto& send = room[used++].emplace<PostSend>();
  send.id = work(slot, WorkKind::kReplySend);
  send.header_offset = HeaderArena::offset(first_place_ + index_of(slot));
  send.header_size = slot.header_size;
  send.gather = gather;
  send.follows_writes = slot.has_written;
  if (slot.invalidate) send.invalidate = *slot.invalidate;
  work_posted(slot);
  return true;
}

// --- The end -----------------------------------------------------------------------------------

void Responder::give_receive_back(Slot& slot) {
  if (!slot.holds_receive) return;
  slot.holds_receive = false;
  slot.inline_part = {};
  if (possible_ > credits_) {
    // The reply that goes out now takes one Call from those that the peer may have sent.
    --possible_;
    return withheld_.push(slot.receive);
  }
  repost(slot.receive);
}

void Responder::repost(ReceiveId receive) {
  ++outbox_.receives_for_calls;
  outbox_.repost(receive);
}

void Responder::finish(Slot& slot) {
  const CallId id = to_call_id(index_of(slot), slot.generation);
  give_receive_back(slot);
  if (slot.by_read) end_exposing(slot);
  if (slot.known_above) {
    auto& done = outbox_.events.extend().emplace<CallDone>();
    done.call = id;
    done.replied = slot.success && !slot.lost;
  }
  slot.state = State::kFree;
  ++slot.generation;
  free_.push(index_of(slot));
  --in_service_;
  ++outbox_.counters.calls_ended;
  // Not when the connection is about to end: what the slots held may tell why.
  if (!received_.empty() && !outbox_.disconnect) begin(received_.pop());
}

// A transfer that the peer refused; Calls after the first have no part in the end.
void Responder::note_refusal(const Slot& slot) {
  if (refusal_noted_) return;
  refusal_noted_ = true;
  outbox_.events.extend() = ChunkRefused{to_call_id(slot.index, slot.generation)};
}

// A Write is complete when it is on its way, and a Send that was copied is as well: the Call whose
// memory it was may be done. Its slot still has its chunks, unless another Call has taken it.
void Responder::handle_refused_write(const wire::Segment& to) {
  const auto holds_it = [&](const wire::Segment& segment) {
    return segment.handle == to.handle && to.offset - segment.offset <= segment.length;
  };
  const Slot* newest = nullptr;
  for (const Slot& slot : slots_) {
    bool is_hit = std::ranges::any_of(slot.reply_chunk, holds_it);
    for (std::size_t i = 0; i < slot.writes.size(); ++i) {
      is_hit = is_hit || std::ranges::any_of(slot.writes.chunk(i), holds_it);
    }
    if (is_hit && (newest == nullptr || slot.serial > newest->serial)) newest = &slot;
  }
  if (newest != nullptr) note_refusal(*newest);
}

std::uint64_t Responder::chunk_digest(CallId call) const {
  const Slot& slot = slots_.at(slot_of(call));
  std::uint64_t digest = 0;
  const auto add = [&digest](std::uint64_t value) {
    digest = (digest ^ value) * 0x9e3779b97f4a7c15U;
    digest ^= digest >> 32U;
  };
  if (slot.is_short) return digest;
  for (const wire::ReadSegment& read : slot.reads) {
    add(std::uint64_t{read.position} << 32U | read.target.length);
  }
  for (std::size_t i = 0; i < slot.writes.size(); ++i) {
    add(i);
    for (const wire::Segment& segment : slot.writes.chunk(i)) add(segment.length);
  }
  if (slot.has_reply_chunk) add(wire::kWriteChunksMax);
  for (const wire::Segment& segment : slot.reply_chunk) add(segment.length);
  return digest;
}

Responder::Slot* Responder::find(CallId call) {
  const std::uint16_t index = slot_of(call);
  if (index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  return slot.generation == generation_of(call) && slot.state != State::kFree ? &slot : nullptr;
}

WorkId Responder::work(const Slot& slot, WorkKind kind) const {
  return to_id({kind, 0, index_of(slot), slot.generation});
}

}  // namespace rpcrdma::engine
