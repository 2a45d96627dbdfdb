#include "engine/rfc5666/exposed_replies.h"

#include "base/assert.h"
#include "engine/rfc5666/profile.h"
#include "engine/work_id.h"

namespace rpcrdma::engine::rfc5666 {

ExposedReplies::ExposedReplies(const Options& options, Shared& shared, std::size_t slots)
    : options_(options), shared_(shared), replies_(slots), waiting_(slots) {}

bool ExposedReplies::plan(std::uint16_t slot, std::span<const Fragment> stream,
                          std::optional<std::size_t> reply_segments, ReplyPlan& plan) {
  if (exposed_replies_max(options_) == 0) return false;
  plan_read_reply(stream, reply_segments, options_, shared_.link, plan, replies_[slot].runs);
  return plan.form != ReplyForm::kErrChunk;
}

bool ExposedReplies::start(std::uint16_t slot) {
  OneReply& reply = replies_[slot];
  reply.handles.clear();
  reply.failed = reply.acknowledged = false;
  reply.counted = exposed_ < exposed_replies_max(options_);
  if (reply.counted) {
    ++exposed_;
  } else {
    waiting_.push(slot);
  }
  return reply.counted;
}

bool ExposedReplies::emit_exposures(std::uint16_t slot, std::uint32_t generation, ActionRoom& room,
                                    std::uint32_t& posted) {
  OneReply& reply = replies_[slot];
  while (reply.handles.size() < reply.runs.size()) {
    const std::size_t next = reply.handles.size();
    const ExposedRun& run = reply.runs[next];
    if (run.size == 0) {
      reply.handles.skip();
      continue;
    }
    if (room.full()) return false;
    room.add(
        Expose{to_id({WorkKind::kReplyExpose, static_cast<std::uint8_t>(next), slot, generation}),
               run.memory, run.size, run.offset, Access::kRemoteRead});
    reply.handles.ask();
    ++posted;
  }
  return true;
}

bool ExposedReplies::emit_revokes(std::uint16_t slot, std::uint32_t generation, ActionRoom& room,
                                  std::uint32_t& posted) {
  return replies_[slot].handles.revoke_live([&](std::size_t part, SteeringTag tag) {
    if (room.full()) return false;
    room.add(Revoke{
        to_id({WorkKind::kReplyRevoke, static_cast<std::uint8_t>(part), slot, generation}), tag});
    ++posted;
    ++shared_.counters.revoked_locally;
    return true;
  });
}

void ExposedReplies::handle_done(std::uint16_t slot, const WorkDone& done, const WorkName& name,
                                 bool lost) {
  OneReply& reply = replies_[slot];
  if (name.kind == WorkKind::kReplyRevoke) {
    reply.handles.revoked(name.part);
  } else if (!reply.handles.take_handle(name.part, done, !lost)) {
    reply.failed = true;
  }
}

bool ExposedReplies::is_asked(std::uint16_t slot) const noexcept {
  return replies_[slot].handles.size() == replies_[slot].runs.size();
}

void ExposedReplies::list(std::uint16_t slot, wire::ChunkLists& lists) const {
  const OneReply& reply = replies_[slot];
  for (std::size_t i = 0; i < reply.runs.size(); ++i) {
    const ExposedRun& run = reply.runs[i];
    const bool fits = lists.reads.push_back({run.position, reply.handles.segment(i, run.size)});
    RPCRDMA_ASSERT(fits, "a reply has more runs than a header may name");
  }
}

bool ExposedReplies::take_early_done(std::uint16_t slot) noexcept {
  return !std::exchange(replies_[slot].acknowledged, true);
}

bool ExposedReplies::sent(std::uint16_t slot, Instant now) {
  OneReply& reply = replies_[slot];
  if (reply.acknowledged) return true;
  reply.deadline = now + options_.rfc5666.done_timeout;
  if (!next_deadline_ || reply.deadline < *next_deadline_) next_deadline_ = reply.deadline;
  return false;
}

std::optional<std::uint16_t> ExposedReplies::ended(std::uint16_t slot) {
  OneReply& reply = replies_[slot];
  if (!std::exchange(reply.counted, false)) return std::nullopt;
  --exposed_;
  if (waiting_.empty()) return std::nullopt;
  const std::uint16_t next = waiting_.pop();
  replies_[next].counted = true;
  ++exposed_;
  return next;
}

}  // namespace rpcrdma::engine::rfc5666
