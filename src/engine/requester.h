// The half of a connection that makes Calls.
#ifndef RPCRDMA_ENGINE_REQUESTER_H_
#define RPCRDMA_ENGINE_REQUESTER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ring.h"
#include "engine/chunk_planner.h"
#include "engine/credits_v1.h"
#include "engine/done_credits.h"
#include "engine/outbox.h"
#include "engine/read_reply_planner.h"
#include "engine/types.h"
#include "engine/work_id.h"
#include "wire/v1/header.h"

namespace rpcrdma::engine {

// One slot per Call. A Call waits for a credit, has its memory exposed, is sent, is answered (or
// fails), has its memory fenced, and is reported. Driven by Connection, which documents the
// methods.
//
// In Profile::kRfc5666 a reply may have Read chunks: between its coming and the fencing they are
// read, and an RDMA_DONE tells the peer (requester_pull.cc).
class Requester {
 public:
  Requester(const Options& options, Outbox& outbox, HeaderArena headers);
  Requester(const Requester&) = delete;
  Requester& operator=(const Requester&) = delete;

  Expected<CallId, StartError> start_call(Instant now, Xid xid, const Outgoing& call,
                                          std::chrono::nanoseconds timeout);
  void cancel(Instant now, CallId call);
  void release(CallId call);

  // Whether the message is an RDMA_ERROR for a Call that waits for its answer.
  bool is_error_for_call(Bytes message);

  void handle_time(Instant now) noexcept { now_ = now; }
  void handle_connected(const Negotiated& negotiated);
  void handle_received(Instant now, ReceiveId receive, Bytes message,
                       std::optional<SteeringTag> invalidated);
  void handle_done(const WorkDone& done, const WorkName& name);
  void handle_timeout(Instant now);
  void handle_disconnected();

  std::size_t poll_actions(std::span<Action> room);
  std::optional<Instant> poll_timeout() const;

  std::uint32_t calls_in_flight() const noexcept { return in_flight_; }
  std::size_t calls_waiting() const noexcept { return waiting_.size(); }
  const CreditsV1& credits() const noexcept { return credits_; }

 private:
  enum class State : std::uint8_t {
    kFree,       // start_call takes it
    kWaiting,    // for a credit and a posted Receive; admit() moves it on
    kExposing,   // for its memory's steering tags; handle_done moves it on
    kSending,    // for room among the actions; poll_actions moves it on
    kSent,       // for the reply, the time-out or the end of the connection
    kPulling,    // for RDMA Reads of its reply; handle_done moves it on
    kFencing,    // for its handles to be revoked and its Send to complete; handle_done moves it on
    kDelivered,  // for release(), which gives the Receive of its reply back
    kAbandoned,  // reported as failed, but the peer may still answer: keeps XID and credit
  };
  enum class Handle : std::uint8_t { kNone, kAsked, kLive, kRevoking, kDead };
  struct Exposure {
    SteeringTag tag;
    std::uint64_t address;
    Handle state;
  };
  // What a slot has besides in Profile::kRfc5666.
  struct Pulling {
    bool by_read = false;    // the reply may have Read chunks
    bool owes_done = false;  // it had some
    bool silent = false;     // the call had been given up before: its end is no event
    BoundedVector<ResultRoom, kExposuresMax> results;
    std::optional<ResultRoom> reply_room;
    std::uint32_t dones_before = 0;  // sent before the Call
    ReadAnswer answer;               // what ReplyReady says of it
    Pull plan;
    std::uint16_t next = 0, pending = 0;  // of plan.reads: to be emitted; emitted, not completed
  };
  struct Reply {
    ReceiveId receive;
    Bytes inline_part;
    std::uint32_t in_reply_chunk;
    BoundedVector<std::uint32_t, wire::kWriteChunksMax> results;
  };
  struct Slot {
    State state = State::kFree;
    bool queued = false;       // in ready_
    bool spent = false;        // holds a credit
    bool send_asked = false;   // its PostSend was emitted
    std::uint8_t pending = 0;  // work requests not completed
    std::uint8_t next = 0;     // next exposure to ask for
    std::uint16_t index = 0;   // of itself in slots_
    std::uint32_t generation = 0;
    Xid xid{};
    std::uint32_t arrivals_before = 0;  // messages received on the connection when it was sent
    Instant deadline{};                 // of the call; in kFencing: for its memory to be safe
    CallPlan plan;
    std::byte* header_room = nullptr;  // of the Outgoing, when the plan begins with its first run
    BoundedVector<Exposure, kExposuresMax> exposures;
    Reply reply;
    std::optional<CallError> error;  // set: the call has failed and is being fenced
  };

  Slot* find(CallId call);
  Slot* find_waiting_for_reply(Xid xid);
  static std::uint16_t index_of(const Slot& slot) noexcept { return slot.index; }
  WorkId work(const Slot& slot, WorkKind kind, std::size_t part = 0) const;
  void admit();
  void enqueue(Slot& slot);
  bool emit(Slot& slot, std::span<Action> room, std::size_t& used);
  bool emit_exposures(Slot& slot, std::span<Action> room, std::size_t& used);
  bool emit_send(Slot& slot, std::span<Action> room, std::size_t& used);
  bool emit_fencing(Slot& slot, std::span<Action> room, std::size_t& used);
  bool emit_revokes(Slot& slot, std::span<Action> room, std::size_t& used);
  void fail(Slot& slot, CallError error);
  void fence(Slot& slot);
  void finish_if_fenced(Slot& slot);
  void finish(Slot& slot, Bytes inline_part);
  void free_slot(Slot& slot);
  void answered(Slot& slot);
  void accept_reply(Instant now, Slot& slot, ReceiveId receive, const wire::v1::Decoded& decoded);
  void time_out(Slot& slot);
  bool is_stuck() const noexcept;
  std::uint32_t arrivals() const noexcept {
    return static_cast<std::uint32_t>(outbox_.counters.messages_received);
  }
  void set_deadline(Slot& slot, Instant deadline);
  static void remove(Ring<std::uint16_t>& queue, const Slot& slot);
  bool take_reply(Slot& slot, const wire::v1::Decoded& decoded);
  bool take_results(Slot& slot);
  bool invalidate(Slot* slot, SteeringTag tag);
  void drop(ReceiveId receive);
  void fill_lists(const Slot& slot);
  Pulling* pulling_of(const Slot& slot) noexcept {
    return pulling_ == nullptr ? nullptr : &pulling_[slot.index];
  }
  // Whether the first of waiting_ may go.
  bool may_go() noexcept { return pulling_ == nullptr ? credits_.available() : may_go_5666(); }
  bool may_go_5666() noexcept;
  void end_call_5666(const Slot& slot) noexcept;
  bool is_done_owed(const Slot& slot) const noexcept {
    return pulling_ != nullptr && pulling_[slot.index].owes_done;
  }
  void note_pulling(Slot& slot, const Outgoing& call);
  void owe_done(Slot& slot);
  bool take_read_chunks(Slot& slot, bool room_is_taken);
  bool emit_pulls(Slot& slot, std::span<Action> room, std::size_t& used);
  bool emit_done(Slot& slot, std::span<Action> room, std::size_t& used);
  bool take_padding(Slot& slot, const wire::v1::Msgp& message);
  std::uint32_t encode_padded(const Slot& slot);
  void handle_pulled(Slot& slot, const WorkDone& done);
  void stop_pulling(Slot& slot);
  void take_late_reply(Instant now, Slot& slot, const wire::v1::Decoded& decoded);
  void start_fencing(Instant now, Slot& slot);
  bool take_short_reply(Instant now, ReceiveId receive, Bytes message);
  // On the path of each Call; in requester.cc only.
  [[gnu::always_inline]] inline PostSend& post_send(Slot& slot, std::uint32_t header_size,
                                                    Action& action);

  const Options options_;
  Outbox& outbox_;
  HeaderArena headers_;
  Negotiated negotiated_;
  CreditsV1 credits_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> xids_;  // of slots_, apart for a fast search; meaning only if in use
  std::size_t reply_hint_ = 0;       // the slot of the last reply
  Ring<std::uint16_t> free_, waiting_, ready_;
  std::unique_ptr<Pulling[]> pulling_;  // by slot; null but in Profile::kRfc5666
  DoneCredits dones_;
  Ring<std::uint16_t> read_waiters_;
  std::uint32_t reads_in_flight_ = 0;
  Instant now_{};                        // may be early
  wire::v1::ChunkLists lists_;           // scratch of decode and encode
  std::uint32_t in_flight_ = 0;          // started and not ended
  std::optional<Instant> next_timeout_;  // no deadline is earlier
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_REQUESTER_H_
