#include "engine/rfc5666/exposed_replies.h"

#include <utility>

#include "base/assert.h"
#include "engine/rfc5666/profile.h"

namespace rpcrdma::engine::rfc5666 {

ExposedReplies::ExposedReplies(const Options& options, Shared& shared, Host& host,
                               std::size_t slots)
    : options_(options), shared_(shared), host_(host), replies_(slots), waiting_(slots) {}

std::unique_ptr<ExposedReplies> ExposedReplies::make_if_chosen(const Options& options,
                                                               Shared& shared, Host& host,
                                                               std::size_t slots) {
  if (!is_chosen(options)) return nullptr;
  return std::make_unique<ExposedReplies>(options, shared, host, slots);
}

bool ExposedReplies::started(std::uint16_t slot, Xid xid, std::span<const Fragment> stream,
                             std::optional<std::size_t> reply_segments, ReplyPlan& plan) {
  if (exposed_replies_max(options_) == 0) return false;
  OneReply& reply = replies_[slot];
  plan_read_reply(stream, reply_segments, options_, shared_.link, plan, reply.runs);
  if (plan.form == ReplyForm::kErrChunk) return false;
  reply.xid = xid;
  reply.handles.clear();
  reply.failed = reply.acknowledged = false;
  if (exposed_ >= exposed_replies_max(options_)) {
    reply.stage = Stage::kWaiting;
    waiting_.push(slot);
  } else {
    reply.stage = Stage::kExposing;
    ++exposed_;
    host_.resume(slot);
  }
  return true;
}

bool ExposedReplies::emit(std::uint16_t slot, std::uint32_t generation, WorkRoom& room,
                          std::uint32_t& posted) {
  OneReply& reply = replies_[slot];
  const auto id = [&](WorkKind kind, std::size_t part) {
    return to_id({kind, static_cast<std::uint8_t>(part), slot, generation});
  };
  if (reply.stage == Stage::kRevoking) {
    return reply.handles.revoke_live([&](std::size_t part, SteeringTag tag) {
      if (room.full()) return false;
      room.add<work::Revoke>(id(WorkKind::kReplyRevoke, part)).tag = tag;
      ++posted;
      ++shared_.counters.revoked_locally;
      return true;
    });
  }
  while (reply.stage == Stage::kExposing && reply.handles.size() < reply.runs.size()) {
    const std::size_t next = reply.handles.size();
    const ExposedRun& run = reply.runs[next];
    if (run.size == 0) {
      reply.handles.skip();
      continue;
    }
    if (room.full()) return false;
    auto& expose = room.add<work::Expose>(id(WorkKind::kReplyExpose, next));
    expose.memory = {run.memory, run.size, run.offset};
    expose.access = work::RemoteAccess::kRead;
    reply.handles.ask();
    ++posted;
  }
  return true;
}

void ExposedReplies::done(std::uint16_t slot, const Completion& done, const WorkName& name,
                          bool is_last) {
  OneReply& reply = replies_[slot];
  if (name.kind == WorkKind::kReplyRevoke) {
    reply.handles.revoked(name.part);
  } else if (!reply.handles.take_handle(name.part, done, shared_.connected)) {
    reply.failed = true;
  }
  if (!is_last || !shared_.connected) return;
  if (reply.stage == Stage::kRevoking && reply.handles.all_dead()) return revoke(slot);
  if (reply.stage != Stage::kExposing || reply.handles.size() < reply.runs.size()) return;
  if (reply.failed) return revoke(slot);
  reply.stage = Stage::kListed;
  host_.send_exposed(slot);
}

void ExposedReplies::list(std::uint16_t slot, wire::ChunkLists& lists) const {
  const OneReply& reply = replies_[slot];
  for (std::size_t i = 0; i < reply.runs.size(); ++i) {
    const ExposedRun& run = reply.runs[i];
    const bool fits = lists.reads.push_back({run.position, reply.handles.segment(i, run.size)});
    RPCRDMA_ASSERT(fits, "a reply has more runs than a header may name");
  }
}

void ExposedReplies::sent(std::uint16_t slot, Instant now) {
  OneReply& reply = replies_[slot];
  if (reply.acknowledged) return revoke(slot);
  reply.stage = Stage::kUnacknowledged;
  reply.deadline = now + options_.rfc5666.done_timeout;
  if (!next_deadline_ || reply.deadline < *next_deadline_) next_deadline_ = reply.deadline;
}

bool ExposedReplies::acknowledged(Xid xid) {
  if (exposed_ == 0) return false;
  for (std::uint16_t slot = 0; slot < replies_.size(); ++slot) {
    OneReply& reply = replies_[slot];
    if (reply.xid != xid) continue;
    if (reply.stage == Stage::kUnacknowledged) {
      revoke(slot);
      return true;
    }
    // Its Send may have arrived before we hear that it is complete.
    if (reply.stage == Stage::kSending && !std::exchange(reply.acknowledged, true)) return true;
  }
  return false;
}

// Revokes what is live, or ends the reply where nothing is.
void ExposedReplies::revoke(std::uint16_t slot) {
  OneReply& reply = replies_[slot];
  reply.stage = Stage::kRevoking;
  if (reply.handles.any_live()) return host_.resume(slot);
  if (!reply.handles.all_dead()) return;
  if (!reply.failed) return host_.finish_exposed(slot);
  ended(slot);
  host_.fail_exposed(slot);
}

void ExposedReplies::ended(std::uint16_t slot) {
  const Stage stage = std::exchange(replies_[slot].stage, Stage::kNone);
  if (stage == Stage::kNone || stage == Stage::kWaiting) return;
  --exposed_;
  if (waiting_.empty()) return;
  const std::uint16_t next = waiting_.pop();
  replies_[next].stage = Stage::kExposing;
  ++exposed_;
  host_.resume(next);
}

void ExposedReplies::handle_timeout(Instant now) {
  if (!next_deadline_ || *next_deadline_ > now) return;
  next_deadline_.reset();
  for (const OneReply& reply : replies_) {
    if (reply.stage != Stage::kUnacknowledged) continue;
    if (reply.deadline <= now) {
      ++shared_.counters.timed_out;
      shared_.give_up(GivenUp::kUnconfirmed);
    } else if (!next_deadline_ || reply.deadline < *next_deadline_) {
      next_deadline_ = reply.deadline;
    }
  }
}

void ExposedReplies::handle_disconnected() noexcept {
  waiting_.clear();
  next_deadline_.reset();
}

}  // namespace rpcrdma::engine::rfc5666
