// Profile::kRfc5666: replies that the requester reads, until its RDMA_DONE (RFC 5666 §3.8, §11).
#include <algorithm>

#include "base/assert.h"
#include "engine/responder.h"

namespace rpcrdma::engine {

// The reply is planned. It waits while as many others are exposed as may be: holding it back, not
// granting nothing, is how the requester keeps going (RFC 5666 §11).
void Responder::start_exposing(Slot& slot) {
  Exposed& exposed = exposed_of_[slot.index];
  exposed.handles.fill({});
  exposed.next = 0;
  exposed.counted = exposed.failed = exposed.acknowledged = false;
  slot.by_read = true;
  slot.state = State::kExposing;
  if (exposed_ >= exposed_replies_max(options_)) return exposure_waiters_.push(slot.index);
  exposed.counted = true;
  ++exposed_;
  enqueue(slot);
}

bool Responder::emit_exposures(Slot& slot, std::span<Action> room, std::size_t& used) {
  Exposed& exposed = exposed_of_[slot.index];
  for (; exposed.next < exposed.runs.size(); ++exposed.next) {
    const ExposedRun& run = exposed.runs[exposed.next];
    ExposedHandle& handle = exposed.handles[exposed.next];
    if (run.size == 0) {
      handle.state = Handle::kDead;
      continue;
    }
    if (used == room.size()) return false;
    room[used++] = Expose{to_id({WorkKind::kReplyExpose, static_cast<std::uint8_t>(exposed.next),
                                 slot.index, slot.generation}),
                          run.memory, run.size, run.offset, Access::kRemoteRead};
    handle.state = Handle::kAsked;
    work_posted(slot);
  }
  return true;
}

void Responder::handle_exposure(Slot& slot, const WorkDone& done, const WorkName& name) {
  Exposed& exposed = exposed_of_[slot.index];
  ExposedHandle& handle = exposed.handles.at(name.part);
  if (name.kind == WorkKind::kReplyRevoke) {
    handle.state = Handle::kDead;
  } else if (done.status == WorkStatus::kOk && done.handle) {
    handle = {*done.handle, done.address, slot.lost ? Handle::kDead : Handle::kLive};
  } else {
    handle.state = Handle::kDead;
    exposed.failed = true;
  }
  if (slot.pending > 0) return;
  if (slot.lost) return finish(slot);
  if (slot.state == State::kRevoking) return handle_revoked(slot);
  if (exposed.next < exposed.runs.size()) return;
  if (exposed.failed) return start_revoking(slot);
  send_exposed(slot);
}

void Responder::send_exposed(Slot& slot) {
  const Exposed& exposed = exposed_of_[slot.index];
  lists_.clear();
  for (std::size_t i = 0; i < exposed.runs.size(); ++i) {
    const ExposedRun& run = exposed.runs[i];
    const bool fits = lists_.reads.push_back(
        {run.position, {exposed.handles[i].tag, run.size, exposed.handles[i].address}});
    RPCRDMA_ASSERT(fits, "a reply has more runs than a header may name");
  }
  if (slot.has_reply_chunk) {
    return_reply_chunk(lists_, slot.reply_chunk.view(), 0, options_.return_form);
  }
  const bool is_long = slot.reply.form == ReplyForm::kNoMsg;
  start_sending(slot, is_long ? Body(wire::v1::NoMsg{}) : wire::v1::Msg{}, true);
}

// The reply is out.
void Responder::await_done(Slot& slot) {
  Exposed& exposed = exposed_of_[slot.index];
  if (exposed.acknowledged) return start_revoking(slot);
  slot.state = State::kUnacknowledged;
  exposed.deadline = now_ + options_.rfc5666.done_timeout;
  if (!next_done_deadline_ || exposed.deadline < *next_done_deadline_) {
    next_done_deadline_ = exposed.deadline;
  }
}

// False: it is for no reply that waits for one.
bool Responder::take_done(Xid xid) {
  if (exposed_ == 0) return false;
  for (Slot& slot : slots_) {
    if (!slot.by_read || slot.xid != xid || slot.lost) continue;
    Exposed& exposed = exposed_of_[slot.index];
    if (slot.state == State::kUnacknowledged) {
      start_revoking(slot);
      return true;
    }
    // Its Send may have arrived before we hear that it is done.
    if (slot.state == State::kReplying && slot.pending > 0 && !exposed.acknowledged) {
      exposed.acknowledged = true;
      return true;
    }
  }
  return false;
}

void Responder::start_revoking(Slot& slot) {
  slot.state = State::kRevoking;
  const Exposed& exposed = exposed_of_[slot.index];
  const auto is_live = [](const ExposedHandle& handle) { return handle.state == Handle::kLive; };
  if (std::ranges::none_of(exposed.handles, is_live)) return handle_revoked(slot);
  enqueue(slot);
}

bool Responder::emit_revokes(Slot& slot, std::span<Action> room, std::size_t& used) {
  Exposed& exposed = exposed_of_[slot.index];
  for (std::size_t i = 0; i < exposed.runs.size(); ++i) {
    ExposedHandle& handle = exposed.handles[i];
    if (handle.state != Handle::kLive) continue;
    if (used == room.size()) return false;
    room[used++] = Revoke{
        to_id({WorkKind::kReplyRevoke, static_cast<std::uint8_t>(i), slot.index, slot.generation}),
        handle.tag};
    handle.state = Handle::kRevoking;
    work_posted(slot);
    ++outbox_.counters.revoked_locally;
  }
  return true;
}

void Responder::handle_revoked(Slot& slot) {
  const Exposed& exposed = exposed_of_[slot.index];
  const auto is_dead = [](const ExposedHandle& handle) {
    return handle.state == Handle::kDead || handle.state == Handle::kNone;
  };
  if (!std::ranges::all_of(exposed.handles, is_dead)) return;
  if (!exposed.failed) return finish(slot);
  // The provider could not expose all of it: there is no way for this reply.
  end_exposing(slot);
  start_error(slot, wire::v1::ErrChunk{});
}

// Its memory is no longer exposed: another reply may be.
void Responder::end_exposing(Slot& slot) {
  slot.by_read = false;
  Exposed& exposed = exposed_of_[slot.index];
  if (!exposed.counted) return;
  exposed.counted = false;
  --exposed_;
  if (exposure_waiters_.empty()) return;
  Slot& next = slots_[exposure_waiters_.pop()];
  exposed_of_[next.index].counted = true;
  ++exposed_;
  enqueue(next);
}

void Responder::check_done_deadlines(Instant now) {
  if (!next_done_deadline_ || *next_done_deadline_ > now) return;
  next_done_deadline_.reset();
  for (const Slot& slot : slots_) {
    if (slot.state != State::kUnacknowledged) continue;
    const Instant deadline = exposed_of_[slot.index].deadline;
    if (deadline <= now) {
      ++outbox_.counters.timed_out;
      outbox_.disconnect = true;  // which ends the peer's rights to the memory
    } else if (!next_done_deadline_ || deadline < *next_done_deadline_) {
      next_done_deadline_ = deadline;
    }
  }
}

}  // namespace rpcrdma::engine
