// Profile::kRfc5666, the half that answers Calls: replies that the requester reads, until its
// RDMA_DONE (RFC 5666 §3.8, §11).
#ifndef RPCRDMA_ENGINE_RFC5666_EXPOSED_REPLIES_H_
#define RPCRDMA_ENGINE_RFC5666_EXPOSED_REPLIES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "base/ring.h"
#include "engine/chunk_planner.h"
#include "engine/exposure_set.h"
#include "engine/rfc5666/read_reply_planner.h"
#include "engine/shared.h"
#include "engine/work_id.h"
#include "engine/work_room.h"

namespace rpcrdma::engine::rfc5666 {

// One reply for each slot of Responder, which it belongs to from started() on until one of the
// functions of Host has been called, and again from sent() on.
class ExposedReplies {
 public:
  // Receives the progress of the reply in a slot. resume(): emit() has something to emit.
  class Host : public ReadSlots::Reader {
   public:
    virtual void send_exposed(std::uint16_t slot) = 0;    // list() has its Read list
    virtual void fail_exposed(std::uint16_t slot) = 0;    // its memory cannot be exposed
    virtual void finish_exposed(std::uint16_t slot) = 0;  // read, confirmed and revoked

   protected:
    ~Host() = default;
  };

  ExposedReplies(const Options& options, Shared& shared, Host& host, std::size_t slots);
  // Returns null but in Profile::kRfc5666.
  static std::unique_ptr<ExposedReplies> make_if_chosen(const Options& options, Shared& shared,
                                                        Host& host, std::size_t slots);

  // Plans a reply by Read chunks. `reply_segments`: of the Reply chunk that the Call offered, which
  // comes back unused. False: there is no such way either. Else it waits while as many others are
  // exposed as may be: holding it back, not granting nothing, is how the requester keeps going (RFC
  // 5666 §11).
  bool started(std::uint16_t slot, Xid xid, std::span<const Fragment> stream,
               std::optional<std::size_t> reply_segments, ReplyPlan& plan);
  // Emits Exposes or Revokes; adds to `posted` for each. False: the room is full.
  bool emit(std::uint16_t slot, std::uint32_t generation, WorkRoom& room, std::uint32_t& posted);
  // Handles the completion of an Expose or a Revoke. `is_last`: the slot has no other work under
  // way.
  void done(std::uint16_t slot, const Completion& done, const WorkName& name, bool is_last);
  void list(std::uint16_t slot, wire::ChunkLists& lists) const;
  void posted(std::uint16_t slot) noexcept { replies_[slot].stage = Stage::kSending; }  // its Send
  // Handles the completion of its Send.
  void sent(std::uint16_t slot, Instant now);
  // An RDMA_DONE came. False: for no reply that waits for one.
  bool acknowledged(Xid xid);
  // The call is over, for whatever reason. Another reply may be exposed then.
  void ended(std::uint16_t slot);

  // Ends the connection, and so the peer's rights to the memory, when a reply has waited too long
  // for its RDMA_DONE.
  void handle_timeout(Instant now);
  Deadline next_deadline() const noexcept { return next_deadline_; }
  void handle_disconnected() noexcept;

 private:
  enum class Stage : std::uint8_t {
    kNone,
    kWaiting,         // for its turn
    kExposing,        // for its handles
    kListed,          // for its Send to be posted
    kSending,         // for its Send to complete
    kUnacknowledged,  // for RDMA_DONE
    kRevoking,        // for its handles to be revoked
  };
  struct OneReply {
    Stage stage = Stage::kNone;
    bool failed = false;        // there is no handle for some run
    bool acknowledged = false;  // RDMA_DONE came before the Send was complete
    Xid xid{};
    Instant deadline{};
    ExposedRuns runs;
    ExposureSet handles;  // of runs
  };
  void revoke(std::uint16_t slot);

  const Options& options_;
  Shared& shared_;
  Host& host_;
  std::vector<OneReply> replies_;  // by slot
  std::uint32_t exposed_ = 0;      // beyond kWaiting, at most exposed_replies_max
  Ring<std::uint16_t> waiting_;
  Deadline next_deadline_;  // none is earlier
};

}  // namespace rpcrdma::engine::rfc5666

#endif  // RPCRDMA_ENGINE_RFC5666_EXPOSED_REPLIES_H_
