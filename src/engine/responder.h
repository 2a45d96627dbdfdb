// The half of a connection that answers Calls.
#ifndef RPCRDMA_ENGINE_RESPONDER_H_
#define RPCRDMA_ENGINE_RESPONDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/ring.h"
#include "engine/action_room.h"
#include "engine/chunk_planner.h"
#include "engine/read_chunks.h"
#include "engine/rfc5666/exposed_replies.h"
#include "engine/rfc5666/profile.h"
#include "engine/shared.h"
#include "engine/slot_table.h"
#include "engine/types.h"

namespace rpcrdma::engine {

// One slot per Call being answered. A Call has its Read chunks pulled into memory that the layer
// above lends, is handed over, is answered by RDMA Writes and one Send, and is reported as done.
// Driven by Connection, which documents the methods.
class Responder final : private ReadSlots::Reader {
 public:
  Responder(const Options& options, Shared& shared, HeaderArena headers);
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  // More than Receives, because a slot may still wait for its Send when its Receive is posted
  // again.
  static std::size_t slot_count(const Options& options) noexcept {
    return options.credits + 16U + rfc5666::exposed_replies_max(options);
  }

  void start_reply(CallId call, const Outgoing& reply);
  void reject(CallId call);
  void drop(CallId call);
  void restart(CallId call);
  void lend(CallId call, Lease memory, std::uint64_t offset);
  void set_credits(std::uint32_t credits);

  void handle_received(ReceiveId receive, const Received& message, Bytes bytes);
  void handle_done(const WorkDone& done, const WorkName& name);
  void handle_time(Instant now) noexcept { now_ = now; }
  void handle_timeout(Instant now);
  void handle_refused_write(const wire::Segment& to);
  void handle_disconnected();

  void poll_actions(ActionRoom& room);
  std::optional<Instant> poll_timeout() const noexcept;

  std::uint64_t chunk_digest(CallId call) const;
  std::uint32_t calls_in_service() const noexcept { return in_service_; }

 private:
  enum class State : std::uint8_t {
    kFree,      // handle_received takes it
    kWanting,   // for lend(), or an answer without it
    kPulling,   // for RDMA Reads: emitted by poll_actions, completed by handle_done
    kServing,   // for start_reply() or reject()
    kReplying,  // for its Writes and its Send: emitted by poll_actions, completed by handle_done
    // In Profile::kRfc5666:
    kExposing,        // for its turn and its handles; handle_exposure moves it on
    kUnacknowledged,  // answered: for RDMA_DONE
    kRevoking,        // for the handles of its reply to be revoked; handle_exposure moves it on
  };
  // What a Call with chunks needs, or a reply of several runs.
  struct Extra {
    std::uint16_t slot = 0;        // whose it is or, when it has been given back, was
    std::uint32_t generation = 0;  // of that slot
    std::uint32_t serial = 0;      // of the Call on the connection; 0: it has no chunks
    bool has_reply_chunk = false;
    bool has_written = false;  // RDMA Writes went out for its reply
    ReadChunks reads;
    BoundedVector<PulledItem, kReadChunksMax> items;
    std::uint16_t chunk = 0;        // the chunk that is wanted or pulled
    std::uint16_t read = 0;         // the next of reads.segments to emit
    std::uint64_t read_offset = 0;  // where it lands in the chunk's memory
    wire::WriteList writes;
    BoundedVector<wire::Segment, wire::kSegmentsPerChunkMax> reply_chunk;
    ReplyPlan reply;
    SegmentFiller filler;
    std::uint16_t write_chunk = 0;  // the Write chunk being filled; then the Reply chunk
    std::optional<SteeringTag> invalidate;
    Padding padding;  // of inline_part, in an RDMA_MSGP
  };
  struct Slot : SlotBase {
    State state = State::kFree;
    bool holds_receive = false;
    bool known_above = false;   // the layer above was told of the call: it gets CallDone
    bool lost = false;          // the connection ended; what is pending is only waited for
    bool by_read = false;       // the requester reads the reply (RFC 5666)
    bool is_padded = false;     // the Call came as RDMA_MSGP (RFC 5666)
    bool has_one_run = false;   // the reply is `run`
    bool success = false;       // the reply is not an error header
    std::uint16_t pending = 0;  // work requests not completed
    ReceiveId receive{};
    Xid xid{};
    std::uint32_t version = 1;
    Bytes inline_part;
    Fragment run{};
    // Encoded in the slot's place; 0: in header_room, in front of the reply's stream.
    std::uint32_t header_size = 0;
    std::byte* header_room = nullptr;  // of the reply's Outgoing
    Extra* extra = nullptr;
  };
  static_assert(sizeof(Slot) <= 128, "a slot is two cache lines");
  struct Waiting {  // a message for which there was no slot
    ReceiveId receive;
    Bytes bytes;
  };

  friend struct SlotProbe;

  void resume_reading(std::uint16_t slot) override { slots_.make_ready(slots_[slot]); }
  Slot& answerable(CallId call);
  Extra& add_extra(Slot& slot);
  void begin(ReceiveId receive, const Received& message);
  bool take_call(Slot& slot, const Received& message);
  void next_chunk(Slot& slot);
  void deliver(Slot& slot, Bytes inline_part);
  void plan(Slot& slot, const Outgoing& reply);
  void start_error(Slot& slot, Kind error);
  void start_sending(Slot& slot, Kind kind);
  void count_reply(const Slot& slot);
  bool emit(Slot& slot, ActionRoom& room);
  bool emit_reads(Slot& slot, ActionRoom& room);
  bool emit_reply(Slot& slot, ActionRoom& room);
  bool emit_writes(Slot& slot, ActionRoom& room);
  void handle_read(Slot& slot);
  static bool is_answered(State state) noexcept;
  void work_posted(Slot& slot);
  void work_done(Slot& slot);
  void finish(Slot& slot);
  void note_refusal(const Slot& slot);
  // In Profile::kRfc5666.
  bool emit_handles(Slot& slot, ActionRoom& room);
  void handle_exposure(Slot& slot, const WorkDone& done, const WorkName& name);
  void send_exposed(Slot& slot);
  bool take_done(Xid xid);
  void start_revoking(Slot& slot);
  void end_exposing(Slot& slot);

  const Options options_;
  Shared& shared_;
  HeaderArena headers_;
  SlotTable<Slot> slots_;
  PartPool<Extra> extras_;
  Ring<Waiting> waiting_;          // bounded by the Receives
  std::uint32_t in_service_ = 0;   // slots in use
  std::uint32_t last_serial_ = 0;  // of Extra::serial
  bool refusal_noted_ = false;     // ChunkRefused went out
  std::uint32_t work_in_flight_ = 0;
  Instant now_{};
  std::optional<Instant> peer_deadline_;  // while work is in flight; each completion moves it on
  std::unique_ptr<rfc5666::ExposedReplies> profile_;  // null but in Profile::kRfc5666
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_RESPONDER_H_
