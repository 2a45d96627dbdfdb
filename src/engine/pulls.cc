#include "engine/pulls.h"

#include <chrono>

namespace rpcrdma::engine {

bool Pulls::begin(AnsweredCall& call) {
  if (call.chunked->puller.wanted(call.chunked->offered) == nullptr) return false;
  if (PullWindow::is_small(call.chunked->offered)) {
    window_.claim(call.chunked->claim, call.chunked->offered);
    return ask(call);
  }
  // A Long Call may have to be judged before its turn: the layer above has its word on that.
  if (call.chunked->offered.has_position_zero() && !may_begin()) return ask(call, true);
  wait_turn(call);
  return true;
}

void Pulls::wait_turn(AnsweredCall& call) {
  call.state = CallState::kQueued;
  window_.wait(call.index);
  go_on();
}

void Pulls::begin_waiting() {
  while (!shared_.disconnect && window_.anybody_waits() && window_.has_room(shared_.reads.max())) {
    AnsweredCall& call = slots_[window_.next()];
    window_.claim(call.chunked->claim, call.chunked->offered);
    ask(call);
  }
}

bool Pulls::ask(AnsweredCall& call, bool is_early) {
  ChunkedCall& chunked = *call.chunked;
  const ReadChunk* chunk = chunked.puller.wanted(chunked.offered);
  if (chunk == nullptr) return false;
  call.state = CallState::kWanting;
  call.known_above = true;
  const bool has_head = chunked.puller.has_head(chunked.offered);
  shared_.events.extend() = MemoryWanted{slots_.id(call),
                                         call.xid,
                                         chunk->position,
                                         chunk->size,
                                         call.inline_part,
                                         has_head ? std::optional(chunk->data) : std::nullopt,
                                         is_early,
                                         chunked.puller.long_part(chunked.offered),
                                         chunked.offered.chunks().view()};
  return true;
}

void Pulls::lend_head(AnsweredCall& call, Lease memory, std::uint64_t offset, std::uint32_t size,
                      Instant now) {
  const OfferedChunks& offered = call.chunked->offered;
  call.chunked->puller.lend_head(call.chunked->offered, memory, offset, size);
  call.state = CallState::kPulling;
  window_.claim_head(call.chunked->claim, offered, offered.chunks()[0].data.size);
  window_.start(call.chunked->claim, now);
}

void Pulls::lend(AnsweredCall& call, Lease memory, std::uint64_t offset, Instant now) {
  if (!call.chunked->claim.is_held) window_.claim(call.chunked->claim, call.chunked->offered);
  call.chunked->puller.lend(call.chunked->offered, memory, offset);
  call.state = CallState::kPulling;
  window_.start(call.chunked->claim, now);
}

void Pulls::put_off(AnsweredCall& call) {
  if (!call.chunked->puller.may_restart(call.chunked->offered)) return wait_turn(call);
  call.chunked->puller.restart();
  window_.claim(call.chunked->claim, call.chunked->offered);
}

bool Pulls::chunk_done(AnsweredCall& call, Instant now) {
  if (!call.chunked->puller.finish_chunk(call.chunked->offered)) return false;
  window_.stop(call.chunked->claim, now);
  const bool is_head = call.chunked->puller.has_head(call.chunked->offered);
  if (is_head && call.chunked->claim.has_turn) {
    window_.claim(call.chunked->claim, call.chunked->offered);
  } else if (is_head) {
    window_.release(call.chunked->claim);
  }
  if (ask(call, is_head)) return false;
  window_.release(call.chunked->claim);
  return true;
}

bool Pulls::is_late(Instant now) noexcept {
  if (!window_.is_due(now)) return false;
  window_.forget_deadline();
  for (AnsweredCall& call : slots_) {
    if (call.state != CallState::kPulling || !call.chunked->claim.deadline) continue;
    PullWindow::Claim& claim = call.chunked->claim;
    if (has_peer_let_pass(claim.deadline, claim.had_grace, now)) return true;
    window_.note(*claim.deadline);
  }
  return false;
}

void Pulls::handle_disconnected() noexcept {
  window_.forget_waiting();
  window_.forget_deadline();
}

}  // namespace rpcrdma::engine
