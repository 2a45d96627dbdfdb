// Profile::kRfc5666: replies by Read chunks, RDMA_DONE (RFC 5666 §3.8) and RDMA_MSGP (§3.9).
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "engine/requester.h"

namespace rpcrdma::engine {
namespace {

constexpr std::uint32_t kDoneSize = 16;  // bytes
// In a slot's place of the header arena, behind any header: a Call's may still be on its way out.
constexpr std::uint32_t kDoneOffset = HeaderArena::kSizeMax;
static_assert(kDoneOffset + kDoneSize <= HeaderArena::kPlaceSize);

}  // namespace

bool Requester::may_go_5666() noexcept {
  const std::uint16_t first = waiting_.front();
  return dones_.allow(credits_.limit(), credits_.unanswered(), pulling_[first].by_read);
}

void Requester::end_call_5666(const Slot& slot) noexcept {
  dones_.end_call(pulling_[slot.index].by_read);
}

void Requester::note_pulling(Slot& slot, const Outgoing& call) {
  Pulling& pulling = *pulling_of(slot);
  pulling.by_read = may_be_answered_by_read(call, options_, negotiated_);
  pulling.owes_done = pulling.silent = false;
  const bool fits = pulling.results.assign(call.results);
  RPCRDMA_ASSERT(fits, "the plan has more results than segments");
  pulling.reply_room = call.reply_room;
  pulling.answer = {};
  pulling.plan.items.clear();
  pulling.plan.reads.clear();
  pulling.plan.in_reply_room = 0;
  pulling.next = pulling.pending = 0;
}

// RFC 5666 §3.8: whatever becomes of the call, the peer keeps the reply's memory until it is told.
void Requester::owe_done(Slot& slot) {
  pulling_of(slot)->owes_done = true;
  dones_.owe();
}

// Plans the Reads of a reply; false when its Read list does not fit what the call has room for.
// `room_is_taken`: the peer has written the reply to the Reply chunk, so nothing is read to there.
bool Requester::take_read_chunks(Slot& slot, bool room_is_taken) {
  if (pulling_ == nullptr || negotiated_.reads_in_flight_max == 0) return false;
  Pulling& pulling = *pulling_of(slot);
  const auto spare = room_is_taken ? std::nullopt : pulling.reply_room;
  if (!plan_pull(lists_.reads.view(), pulling.results.view(), spare, pulling.plan)) return false;
  ++outbox_.counters.read_replies;
  if (pulling.plan.items.empty()) return true;
  pulling.answer.items = pulling.plan.items.view();
  // A result has one way to come.
  if (!slot.reply.results.empty()) return false;
  return slot.reply.results.assign(pulling.plan.sizes.view());
}

// Whether the reply may be an RDMA_MSGP; with chunks it may not.
bool Requester::take_padding(Slot& slot, const wire::v1::Msgp& message) {
  if (pulling_ == nullptr || !lists_.empty()) return false;
  pulling_of(slot)->answer.padding = padding_of(message, options_);
  return true;
}

bool Requester::emit_pulls(Slot& slot, std::span<Action> room, std::size_t& used) {
  Pulling& pulling = *pulling_of(slot);
  for (; pulling.next < pulling.plan.reads.size(); ++pulling.next) {
    if (reads_in_flight_ >= negotiated_.reads_in_flight_max) {
      read_waiters_.push(index_of(slot));
      return true;
    }
    if (used == room.size()) return false;
    const PlannedRead& read = pulling.plan.reads[pulling.next];
    room[used++] = RdmaRead{work(slot, WorkKind::kPull), read.from, read.to, read.to_offset};
    ++slot.pending;
    ++pulling.pending;
    ++reads_in_flight_;
  }
  if (pulling.pending == 0) start_fencing(now_, slot);  // there was nothing to read
  return true;
}

void Requester::handle_pulled(Slot& slot, const WorkDone& done) {
  Pulling& pulling = *pulling_of(slot);
  --pulling.pending;
  --reads_in_flight_;
  if (!read_waiters_.empty()) enqueue(slots_[read_waiters_.pop()]);
  if (done.status != WorkStatus::kOk) {
    outbox_.disconnect = true;  // it must not be taken for read
    fail(slot, CallError::kConnectionLost);
  }
  if (slot.state == State::kFencing) return fence(slot);
  if (pulling.pending == 0 && pulling.next == pulling.plan.reads.size()) {
    start_fencing(now_, slot);
  }
}

// What is under way still ends; its turn, if it has one that it did not take, is the next one's.
void Requester::stop_pulling(Slot& slot) {
  drop(slot.reply.receive);
  remove(read_waiters_, slot);
  if (!read_waiters_.empty() && reads_in_flight_ < negotiated_.reads_in_flight_max) {
    enqueue(slots_[read_waiters_.pop()]);
  }
}

// When no RDMA Read of the reply is under way any more.
bool Requester::emit_done(Slot& slot, std::span<Action> room, std::size_t& used) {
  Pulling& pulling = *pulling_of(slot);
  if (pulling.pending > 0) return true;
  if (used == room.size()) return false;
  const wire::v1::Header header{slot.xid, wire::v1::kVersion, credits_.requested(),
                                wire::v1::Done{}};
  lists_.clear();
  const auto size =
      wire::v1::encode(header, lists_, headers_.place(slot.index).subspan(kDoneOffset));
  RPCRDMA_ASSERT(size && *size == kDoneSize, "RDMA_DONE is a bare prefix");
  auto& send = room[used++].emplace<PostSend>();
  send.id = work(slot, WorkKind::kDoneSend);
  send.header_offset = HeaderArena::offset(slot.index) + kDoneOffset;
  send.header_size = kDoneSize;
  ++slot.pending;
  pulling.owes_done = false;
  dones_.send();
  ++outbox_.counters.dones_sent;
  return true;
}

// The header, and the zeros behind it.
std::uint32_t Requester::encode_padded(const Slot& slot) {
  lists_.clear();
  const wire::v1::Header header{
      slot.xid, wire::v1::kVersion, credits_.requested(),
      wire::v1::Msgp{negotiated_.padding_alignment, slot.plan.pad_threshold}};
  const MutableBytes place = headers_.place(slot.index);
  const auto size = wire::v1::encode(header, lists_, place);
  RPCRDMA_ASSERT(size && *size == slot.plan.header_size, "the header is not as it was planned");
  std::memset(place.data() + *size, 0, slot.plan.pad_size);
  ++outbox_.counters.padded_calls;
  return slot.plan.header_size;
}

}  // namespace rpcrdma::engine
