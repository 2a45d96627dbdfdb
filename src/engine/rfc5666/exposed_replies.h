// Profile::kRfc5666, the half that answers Calls: replies that the requester reads, until its
// RDMA_DONE (RFC 5666 §3.8, §11).
#ifndef RPCRDMA_ENGINE_RFC5666_EXPOSED_REPLIES_H_
#define RPCRDMA_ENGINE_RFC5666_EXPOSED_REPLIES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ring.h"
#include "engine/action_room.h"
#include "engine/chunk_planner.h"
#include "engine/exposure_set.h"
#include "engine/rfc5666/read_reply_planner.h"
#include "engine/shared.h"
#include "engine/work_id.h"

namespace rpcrdma::engine::rfc5666 {

// What Responder asks and tells about the reply in one of its slots.
class ExposedReplies {
 public:
  ExposedReplies(const Options& options, Shared& shared, std::size_t slots);

  // Plans a reply by Read chunks. `reply_segments`: of the Reply chunk that the Call offered, which
  // comes back unused. False: there is no such way either.
  bool plan(std::uint16_t slot, std::span<const Fragment> stream,
            std::optional<std::size_t> reply_segments, ReplyPlan& plan);
  // The planned reply is to be exposed. False: as many others are as may be, and it waits in turn.
  // Holding it back, not granting nothing, is how the requester keeps going (RFC 5666 §11).
  bool start(std::uint16_t slot);
  // Emits the next Exposes, or Revokes; adds to `posted` for each. False: the room is full.
  bool emit_exposures(std::uint16_t slot, std::uint32_t generation, ActionRoom& room,
                      std::uint32_t& posted);
  bool emit_revokes(std::uint16_t slot, std::uint32_t generation, ActionRoom& room,
                    std::uint32_t& posted);
  // `lost`: the connection has ended.
  void handle_done(std::uint16_t slot, const WorkDone& done, const WorkName& name, bool lost);
  bool is_asked(std::uint16_t slot) const noexcept;  // for a handle of each run
  bool failed(std::uint16_t slot) const noexcept { return replies_[slot].failed; }
  bool any_live(std::uint16_t slot) const noexcept { return replies_[slot].handles.any_live(); }
  bool all_dead(std::uint16_t slot) const noexcept { return replies_[slot].handles.all_dead(); }
  // The Read list of the reply's header.
  void list(std::uint16_t slot, wire::ChunkLists& lists) const;

  // The RDMA_DONE has come while its Send is not known to be complete.
  bool take_early_done(std::uint16_t slot) noexcept;
  // Its Send is complete. True: the RDMA_DONE has come already; else the reply waits for it.
  bool sent(std::uint16_t slot, Instant now);
  // Its memory is no longer exposed. The slot of a reply whose turn it is now, if one waits.
  std::optional<std::uint16_t> ended(std::uint16_t slot);
  bool any() const noexcept { return exposed_ > 0; }

  // How many of the given replies have waited too long for their RDMA_DONE; `waits(slot)` says
  // which wait.
  template <class Waits>
  std::uint32_t expire(Instant now, Waits&& waits);
  std::optional<Instant> next_deadline() const noexcept { return next_deadline_; }
  void handle_disconnected() noexcept {
    waiting_.clear();
    next_deadline_.reset();
  }

 private:
  struct OneReply {
    ExposedRuns runs;
    ExposureSet handles;        // of runs
    bool counted = false;       // among exposed_
    bool failed = false;        // there is no handle for some run
    bool acknowledged = false;  // RDMA_DONE came before the Send was complete
    Instant deadline{};
  };

  const Options& options_;
  Shared& shared_;
  std::vector<OneReply> replies_;         // by slot
  std::uint32_t exposed_ = 0;             // exposed or being so, at most exposed_replies_max
  Ring<std::uint16_t> waiting_;           // for their turn
  std::optional<Instant> next_deadline_;  // none is earlier
};

template <class Waits>
std::uint32_t ExposedReplies::expire(Instant now, Waits&& waits) {
  if (!next_deadline_ || *next_deadline_ > now) return 0;
  next_deadline_.reset();
  std::uint32_t expired = 0;
  for (std::uint16_t slot = 0; slot < replies_.size(); ++slot) {
    if (!waits(slot)) continue;
    const Instant deadline = replies_[slot].deadline;
    if (deadline <= now) {
      ++expired;
    } else if (!next_deadline_ || deadline < *next_deadline_) {
      next_deadline_ = deadline;
    }
  }
  return expired;
}

}  // namespace rpcrdma::engine::rfc5666

#endif  // RPCRDMA_ENGINE_RFC5666_EXPOSED_REPLIES_H_
