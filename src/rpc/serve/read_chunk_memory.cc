#include "rpc/serve/read_chunk_memory.h"

#include <utility>

#include "rpc/serve/session.h"

namespace rpcrdma::rpc {
namespace {

// Returns the bytes of large buffers that these chunks take.
std::size_t large_size(std::span<const engine::ReadChunk> chunks) noexcept {
  std::size_t size = 0;
  for (const engine::ReadChunk& chunk : chunks) {
    size += transport::BufferPool::large_size(chunk.size);
  }
  return size;
}

// Returns whether a Call of the procedure may have these Read chunks (RFC 8166 §8.1.4): no more,
// and no more bytes, than it has bulk arguments for. `traits`: null if the procedure has
// none.
bool may_bring(const ProcedureTraits* traits, std::span<const engine::ReadChunk> chunks) noexcept {
  static constexpr ProcedureTraits kNone;
  const ProcedureTraits& of = traits == nullptr ? kNone : *traits;
  std::uint64_t count = 0, size = 0;
  for (const engine::ReadChunk& chunk : chunks) {
    if (chunk.position == 0) continue;  // the Call itself, which the engine has measured
    if (chunk.size > xdr::padded(of.bulk_argument_size_max)) return false;
    ++count;
    size += chunk.size;
  }
  const std::uint64_t padding = count * (xdr::kWordSize - 1);
  const bool has_sum = of.bulk_arguments_size_max != ProcedureTraits::kNoBound;
  return count <= of.bulk_arguments_max &&
         (!has_sum || size <= of.bulk_arguments_size_max + padding);
}

}  // namespace

void ReadChunkMemory::handle_wanted(const engine::MemoryWanted& wanted) {
  Context& context = session_.context(wanted.call);
  const bool is_first = !context.active_;
  if (is_first) {
    context.active_ = true;
    context.call_ = wanted.call;
    context.has_long_part_ = wanted.position == 0;
    session_.serving_.note_arrival(context);
    if (session_.was_refused(context, wanted.xid, wanted.inline_part)) {
      return session_.connection_->engine().responder().reject(wanted.call);
    }
  }
  if (wanted.is_early) return handle_early(context, wanted);
  if (wanted.position != 0 && context.is_judged_) return lend_next(context);
  if (wanted.position != 0) {
    if (!judge_chunks(context, wanted)) return;
    if (context.has_long_part_) return reserve_rest(context, wanted);
  }
  take_memory(context, wanted);
}

void ReadChunkMemory::take_memory(Context& context, const engine::MemoryWanted& wanted) {
  // Until the header of a Long Call is accepted, it gets memory for its stream only.
  const std::size_t count = wanted.position == 0 ? 1 : wanted.chunks.size();
  const auto chunks = wanted.chunks.first(count);
  // Calls that came before get memory first, but for what the pool keeps for small buffers.
  const bool must_wait = !queue_.empty() && large_size(chunks) > 0;
  const auto lack = must_wait ? std::optional(Lack::kMemory) : reserve(context, chunks);
  if (!lack) return lend_next(context);
  context.has_had_turn_ = true;
  if (lack == Lack::kMemory && wanted.position == 0 && !wanted.head && is_to_be_judged_early()) {
    return lend_head(context);
  }
  wait_for_memory(context, wanted, count, *lack);
}

// While a Long Call waits, others may use so many sequence numbers that the server no longer takes
// its own (RFC 2203 §5.3.3.1). So its start, which has the header, is read and judged first.
bool ReadChunkMemory::is_to_be_judged_early() const noexcept {
  return session_.serving_.checks_any();
}

// Lends the room of the Call's own reply, which is free until the Call is answered.
void ReadChunkMemory::lend_head(Context& context) {
  const auto room = context.room();
  session_.connection_->engine().responder().lend(context.call_, room.lease, room.offset,
                                                  static_cast<std::uint32_t>(room.memory.size()));
}

void ReadChunkMemory::handle_early(Context& context, const engine::MemoryWanted& wanted) {
  if (!wanted.head) {
    return is_to_be_judged_early()
               ? lend_head(context)
               : session_.connection_->engine().responder().put_off(context.call_);
  }
  const Bytes head = Bytes(context.room().memory).first(wanted.head->size);
  if (!session_.admit(context, head, wanted.xid, wanted)) return;
  context.keep_header(head);
  if (!context.has_had_turn_)
    return session_.connection_->engine().responder().put_off(context.call_);
  take_memory(context, wanted);  // others may have given some back meanwhile
}

// Takes memory for the other chunks of a Long Call whose header was accepted. If there is none, the
// stream is given back and read again later: a waiting call must hold no memory.
void ReadChunkMemory::reserve_rest(Context& context, const engine::MemoryWanted& wanted) {
  context.keep_header(Bytes(context.held_.loans[0].buffer).first(wanted.long_part->size));
  const auto lack = reserve(context, wanted.chunks.subspan(1));
  if (!lack) return lend_next(context);
  context.lent_ = 0;
  session_.connection_->engine().responder().put_off(context.call_);
  wait_for_memory(context, wanted, wanted.chunks.size(), *lack);
}

// Lets the call wait for memory for its first `count` chunks.
void ReadChunkMemory::wait_for_memory(Context& context, const engine::MemoryWanted& wanted,
                                      std::size_t count, Lack lack) {
  context.wanted_ = wanted;
  context.wanted_.chunks = wanted.chunks.first(count);
  // Waiting is useless if no memory can come back that would be enough.
  const bool nothing_is_lent = queue_.empty() && pool_.bytes_in_use() == 0;
  if (lack != Lack::kMemory || nothing_is_lent ||
      !pool_.could_hold(large_size(context.wanted_.chunks))) {
    return refuse_for_memory(context);
  }
  if (queue_.empty()) queue_.note_tried(pool_.buffers_returned());
  context.ticket_ = queue_.enter(share_, context, large_size(context.wanted_.chunks));
  ++waiting_;
  if (CallMeter* const meter = session_.serving_.meter())
    context.waits_since_ = meter->read_clock();
}

// Judges the sizes of the chunks, since nothing is moved for a call that will be refused anyway.
// Returns false if it was answered.
bool ReadChunkMemory::judge_chunks(Context& context, const engine::MemoryWanted& wanted) {
  const Bytes stream = wanted.long_part
                           ? Bytes(context.held_.loans[0].buffer).first(wanted.long_part->size)
                           : wanted.inline_part;
  if (!session_.admit(context, stream, wanted.xid, wanted)) return false;
  // Nothing of a wrapped Call is eligible for direct placement (RFC 8166 §6.1).
  if (!may_bring(context.is_to_be_unwrapped() ? nullptr : context.traits_, wanted.chunks)) {
    session_.serving_.refuse(context, AcceptStatus::kGarbageArgs);
    return false;
  }
  context.is_judged_ = true;
  return true;
}

// Takes memory for these Read chunks. If there is not enough, the call gives all of it back; calls
// that waited with some could wait for each other for ever.
std::optional<ReadChunkMemory::Lack> ReadChunkMemory::reserve(
    Context& context, std::span<const engine::ReadChunk> chunks) {
  for (const engine::ReadChunk& chunk : chunks) {
    if (chunk.size == 0) continue;
    const auto memory = session_.memory_.borrow(context.held_, chunk.size);
    if (memory) continue;
    session_.memory_.return_loans(context.held_);
    return memory.error();
  }
  return std::nullopt;
}

void ReadChunkMemory::lend_next(Context& context) {
  session_.connection_->engine().responder().lend(context.call_,
                                                  context.held_.loans[context.lent_++].lease, 0);
}

// Refuses a Call whose chunks are larger than all memory that there is.
void ReadChunkMemory::refuse_for_memory(Context& context) {
  if (!context.is_judged_) return session_.connection_->engine().responder().reject(context.call_);
  session_.serving_.refuse(context, AcceptStatus::kSystemErr);
}

void ReadChunkMemory::stop_waiting(Context& context, bool is_served) {
  queue_.stop_waiting(std::exchange(context.ticket_, {}), is_served);
  --waiting_;
  if (CallMeter* const meter = session_.serving_.meter()) {
    meter->note_memory_wait(context.metered_, meter->read_clock() - context.waits_since_);
  }
  Context* const next = queue_.first();
  if (next != nullptr) next->want_turn();
}

bool ReadChunkMemory::retry() {
  const std::uint32_t before = waiting_;
  if (session_.connection_->ended()) {
    for (const auto& each : session_.contexts_) {
      if (each == nullptr || !each->ticket_) continue;
      stop_waiting(*each);
      session_.connection_->engine().responder().reject(each->call_);
    }
    return waiting_ < before;
  }
  for (Context* first = queue_.first(); first != nullptr && &first->session_ == &session_;
       first = queue_.first()) {
    const auto lack = reserve(*first, first->wanted_.chunks);
    if (lack == Lack::kMemory && pool_.bytes_in_use() > 0) {
      queue_.note_tried(pool_.buffers_returned());
      break;
    }
    stop_waiting(*first, !lack);
    lack ? refuse_for_memory(*first) : lend_next(*first);
  }
  return waiting_ < before;
}

}  // namespace rpcrdma::rpc
