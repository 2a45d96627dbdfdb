// The half of a connection that makes Calls.
#ifndef RPCRDMA_ENGINE_REQUESTER_H_
#define RPCRDMA_ENGINE_REQUESTER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "engine/call_chunks.h"
#include "engine/call_gate.h"
#include "engine/chunk_planner.h"
#include "engine/leaving_sends.h"
#include "engine/made_call.h"
#include "engine/rfc5666/read_replies.h"
#include "engine/shared.h"
#include "engine/slot_table.h"
#include "engine/types.h"
#include "engine/version_offer.h"
#include "engine/work_room.h"
#include "engine/xid_index.h"

namespace rpcrdma::engine {

// One slot per Call. A Call waits for a credit, has its memory exposed, is sent, is answered (or
// fails), has its memory fenced, and is reported.
class Requester final : private rfc5666::ReadReplies::Host {
 public:
  Requester(const Options& options, Shared& shared, HeaderArena headers);
  Requester(const Requester&) = delete;
  Requester& operator=(const Requester&) = delete;

  // The spans in `call` are copied; the memory is lent until ReplyReady or CallFailed. `timeout`
  // counts from now. The XID must differ from those of all calls under way.
  Expected<CallId, StartError> start_call(Instant now, Xid xid, const Outgoing& call,
                                          std::chrono::nanoseconds timeout);
  // Fails the call with kCanceled once its memory is fenced; no effect on a call that has ended.
  void cancel(Instant now, CallId call);
  // Gives the views of ReplyReady back: its Receive is posted again.
  void release(CallId call);

  // Calls that have not ended, and those of them that wait for a credit or for a Receive to be
  // posted.
  std::uint32_t calls_in_flight() const noexcept { return in_flight_; }
  std::size_t calls_waiting() const noexcept { return gate_.waiting(); }
  const CreditsV1& credits() const noexcept { return gate_.credits(); }

 private:
  using State = MadeCall::State;
  using Slot = MadeCall;
  friend class Connection;  // drives it
  friend struct SlotProbe;

  // Returns whether a Call with this XID waits for its answer.
  bool waits_for(Xid xid) { return find_waiting_for_reply(xid) != nullptr; }
  // Returns whether a Call is planned, and not sent yet, whose Send has more than `size` bytes.
  bool sends_above(std::uint32_t size) const noexcept { return any_unsent_above(slots_, size); }
  void handle_time(Instant now) noexcept { now_ = now; }
  void handle_received(Instant now, ReceiveId receive, const Received& message,
                       std::optional<SteeringTag> invalidated);
  void handle_done(const Completion& done, const WorkName& name);
  void handle_timeout(Instant now);
  void handle_disconnected();
  void poll_work(WorkRoom& room);
  Deadline poll_timeout() const { return next_timeout_; }

  void resume(std::uint16_t slot) override { slots_.make_ready(slots_[slot]); }
  void complete_reading(std::uint16_t slot) override;
  void fail_reading(std::uint16_t slot) override;
  Expected<void, StartError> plan(Slot& slot, const Outgoing& call);
  Slot* find_waiting_for_reply(Xid xid);
  void admit();
  bool emit(Slot& slot, WorkRoom& room);
  bool emit_send(Slot& slot, WorkRoom& room);
  bool emit_fencing(Slot& slot, WorkRoom& room);
  bool take_short_reply(Instant now, ReceiveId receive, const Received& message);
  void send_again(Slot& slot, const Received& refusal, std::uint32_t header_size);
  void accept_reply(Instant now, Slot& slot, ReceiveId receive, const Received& message);
  void take_late_reply(Instant now, Slot& slot, const Received& message);
  bool take_reply(Slot& slot, const Received& message);
  void handle_exposed(Slot& slot, const Completion& done, std::size_t part);
  void time_out(Slot& slot);
  void fail(Slot& slot, CallError error);
  void start_fencing(Instant now, Slot& slot);
  void fence(Slot& slot);
  void finish(Slot& slot, Bytes inline_part);
  void answered(Slot& slot);
  void free_slot(Slot& slot);
  void set_deadline(Slot& slot, Instant deadline);

  const Options options_;
  Shared& shared_;
  HeaderArena headers_;
  std::unique_ptr<rfc5666::ReadReplies> profile_;  // null but in Profile::kRfc5666
  CallGate gate_;
  SlotTable<Slot> slots_;
  PartPool<CallChunks> chunks_;
  XidIndex xids_;                // of slots_
  Instant now_{};                // may be early
  std::uint32_t in_flight_ = 0;  // started and not ended
  Deadline next_timeout_;        // no deadline is earlier
  LeavingSends sends_;
  VersionOffer offer_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_REQUESTER_H_
