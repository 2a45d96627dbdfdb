#include "iwarp/stream_state.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace rpcrdma::iwarp {
namespace {

bool refuses_read(Fault fault) noexcept {
  return fault >= Fault::kProtectionInvalidStag && fault <= Fault::kProtectionUnspecified &&
         fault != Fault::kProtectionCannotInvalidate;
}

}  // namespace

StreamState::StreamState(const StreamOptions& given, RandomSource& random, BlockPool* shared)
    : own_blocks(shared == nullptr ? std::make_unique<BlockPool>() : nullptr),
      blocks(shared == nullptr ? *own_blocks : *shared),
      options(given),
      receives(given.queue_depth),
      sends(given.queue_depth),
      reads(static_cast<std::size_t>(given.ord) + 1),
      split_reads(given.queue_depth),
      responses(static_cast<std::size_t>(given.ird) + 1),
      revokes(given.queue_depth),
      completions(static_cast<std::size_t>(given.queue_depth) * 3),
      tags(given.exposures + given.ord + 1U, random) {}

std::uint32_t& StreamState::outstanding(WorkKind kind) noexcept {
  switch (kind) {
    case WorkKind::kReceive:
      return receives_outstanding;
    case WorkKind::kSend:
    case WorkKind::kWrite:
    case WorkKind::kRead:
      return sends_outstanding;
    case WorkKind::kExpose:
    case WorkKind::kRevoke:
      return controls_outstanding;
  }
  return controls_outstanding;
}

Completion* StreamState::complete(WorkKind kind, std::uint64_t id, Status status, bool signaled) {
  if (!signaled && status == Status::kOk) {
    --outstanding(kind);
    return nullptr;
  }
  // Filled in place: built elsewhere and copied it costs store-forwarding stalls.
  Completion& completion = completions.extend();
  completion.id = id;
  completion.kind = kind;
  completion.status = status;
  completion.size = 0;
  completion.tag.reset();
  completion.address = 0;
  return &completion;
}

std::size_t StreamState::poll(std::span<Completion> out) {
  const std::size_t count = std::min(out.size(), completions.size());
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = completions.front();
    drop_completion();
  }
  return count;
}

void StreamState::drop_completion() {
  --outstanding(completions.front().kind);
  completions.drop();
}

void StreamState::fail(Fault fault, Bytes bad) {
  if (phase != Phase::kOpen) return;
  phase = Phase::kTerminating;
  cause = {Cause::By::kOurCheck, fault, to_string(fault)};
  terminate_ulpdu_size = encode_terminate(fault, bad, terminate.data());
}

void StreamState::forget(SteeringTag tag) {
  if (tags.remove(tag)) --exposed;
}

void StreamState::finish_revokes(std::uint64_t sent_total) {
  while (!revokes.empty() && revokes.front().sent_end <= sent_total) {
    const PendingRevoke revoke = revokes.pop();
    complete(WorkKind::kRevoke, revoke.id, Status::kOk, revoke.signaled);
  }
}

void StreamState::flush_reads() {
  // A Terminate that refuses a Read of ours names its sink; if it is too short for that, it is the
  // oldest one, since Read Requests are served in order. A refused piece is the end of its Read.
  bool refused = cause.by == Cause::By::kTerminate && !refused_write && refuses_read(cause.fault);
  bool is_piece_refused = false;
  while (!reads.empty()) {
    const ReadInFlight read = reads.pop();
    bool hit = refused && (!refused_sink || *refused_sink == read.sink_tag);
    if (hit) refused = false;
    if (read.internal) continue;
    hit = hit || std::exchange(is_piece_refused, false);
    if (!read.is_last) {
      is_piece_refused = hit;
      continue;
    }
    complete(WorkKind::kRead, read.id, hit ? Status::kRemoteAccess : Status::kFlushed, true);
  }
  while (!split_reads.empty()) {
    const bool hit = std::exchange(is_piece_refused, false);  // of the first, the only one begun
    complete(WorkKind::kRead, split_reads.pop().id, hit ? Status::kRemoteAccess : Status::kFlushed,
             true);
  }
}

void StreamState::close(const Cause& why) {
  if (phase == Phase::kClosed) return;
  if (cause.by == Cause::By::kNobody) cause = why;
  phase = Phase::kClosed;
  terminate_ulpdu_size = 0;
  while (!receives.empty()) {
    ReceiveWork work = receives.pop();
    receive_spans.release(work.into);
    const Status status = receive_too_small ? Status::kLocalError : Status::kFlushed;
    receive_too_small = false;
    complete(WorkKind::kReceive, work.id, status, true);
  }
  flush_reads();
  while (!sends.empty()) {
    SendWork work = sends.pop();
    send_spans.release(work.from);
    if (work.in_flight) continue;  // was completed with `reads`
    complete(work.kind, work.id, Status::kFlushed, true);
  }
  while (!revokes.empty()) {
    const PendingRevoke revoke = revokes.pop();
    complete(WorkKind::kRevoke, revoke.id, Status::kFlushed, true);
  }
  responses.clear();
  tags.clear();
  exposed = 0;
}

}  // namespace rpcrdma::iwarp
