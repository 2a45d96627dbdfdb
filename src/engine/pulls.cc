#include "engine/pulls.h"

#include <chrono>

namespace rpcrdma::engine {

bool Pulls::begin(AnsweredCall& call) {
  if (call.chunked->puller.wanted(call.chunked->offered) == nullptr) return false;
  if (PullWindow::is_small(call.chunked->offered)) {
    window_.claim(call.chunked->claim, call.chunked->offered);
    return ask(call);
  }
  call.state = CallState::kQueued;
  window_.wait(call.index);
  go_on();
  return true;
}

void Pulls::go_on() {
  while (!shared_.disconnect && window_.anybody_waits() && window_.has_room(shared_.reads.max())) {
    AnsweredCall& call = slots_[window_.next()];
    window_.claim(call.chunked->claim, call.chunked->offered);
    ask(call);
  }
}

bool Pulls::ask(AnsweredCall& call) {
  ChunkedCall& chunked = *call.chunked;
  const ReadChunk* chunk = chunked.puller.wanted(chunked.offered);
  if (chunk == nullptr) return false;
  call.state = CallState::kWanting;
  call.known_above = true;
  shared_.events.extend() = MemoryWanted{slots_.id(call),
                                         call.xid,
                                         chunk->position,
                                         chunk->size,
                                         call.inline_part,
                                         chunked.puller.long_part(chunked.offered),
                                         chunked.offered.chunks().view()};
  return true;
}

void Pulls::lend(AnsweredCall& call, Lease memory, std::uint64_t offset, Instant now) {
  call.chunked->puller.lend(call.chunked->offered, memory, offset);
  call.state = CallState::kPulling;
  window_.start(call.chunked->claim, now);
}

void Pulls::restart(AnsweredCall& call) {
  call.chunked->puller.restart();
  window_.claim(call.chunked->claim, call.chunked->offered);
}

bool Pulls::chunk_done(AnsweredCall& call, Instant now) {
  if (!call.chunked->puller.finish_chunk(call.chunked->offered)) return false;
  window_.stop(call.chunked->claim, now);
  if (ask(call)) return false;
  window_.release(call.chunked->claim);
  return true;
}

bool Pulls::is_late(Instant now) noexcept {
  if (!window_.is_due(now)) return false;
  window_.forget_deadline();
  for (AnsweredCall& call : slots_) {
    if (call.state != CallState::kPulling || !call.chunked->claim.deadline) continue;
    Instant& deadline = *call.chunked->claim.deadline;
    // This side may have been away, with what the peer has served meanwhile still to be looked at.
    constexpr std::chrono::milliseconds kPunctual{100};
    constexpr std::chrono::seconds kGrace{1};
    if (deadline <= now && now - deadline <= kPunctual) return true;
    if (deadline <= now) deadline = now + kGrace;
    window_.note(deadline);
  }
  return false;
}

void Pulls::handle_disconnected() noexcept {
  window_.forget_waiting();
  window_.forget_deadline();
}

}  // namespace rpcrdma::engine
