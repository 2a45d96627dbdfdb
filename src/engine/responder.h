// The half of a connection that answers Calls.
#ifndef RPCRDMA_ENGINE_RESPONDER_H_
#define RPCRDMA_ENGINE_RESPONDER_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ring.h"
#include "engine/chunk_planner.h"
#include "engine/outbox.h"
#include "engine/read_reply_planner.h"
#include "engine/types.h"
#include "engine/work_id.h"
#include "wire/v1/header.h"

namespace rpcrdma::engine {

enum class RpcMessageType : std::uint8_t { kCall, kReply, kUnknown };  // RFC 5531 §9, msg_type

// One slot per Call being answered. A Call has its Read chunks pulled into memory that the layer
// above lends, is handed over, is answered by RDMA Writes and one Send, and is reported as done.
// Driven by Connection, which documents the methods.
//
// In Profile::kRfc5666 a reply that fits nowhere else is exposed: its handles go into its Read
// list, and it is done when the requester's RDMA_DONE has come and they are revoked
// (responder_expose.cc).
class Responder {
 public:
  // Headers use the places of the arena from `first_place` on.
  Responder(const Options& options, Outbox& outbox, HeaderArena headers, std::size_t first_place);
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  // More than Receives, because a slot may still wait for its Send when its Receive is posted
  // again.
  static std::size_t slot_count(const Options& options) noexcept {
    return options.credits + 16U + exposed_replies_max(options);
  }
  // Receives besides those that are granted, so that no RDMA_DONE finds none.
  static std::uint32_t exposed_replies_max(const Options& options) noexcept {
    return options.profile == Profile::kRfc5666 ? options.rfc5666.exposed_replies_max : 0;
  }

  void start_reply(CallId call, const Outgoing& reply);
  void reject(CallId call);
  void drop(CallId call);
  void restart(CallId call);
  void lend(CallId call, Lease memory, std::uint64_t offset);
  void set_credits(std::uint32_t credits);
  // Before anything else: a Receive that is not posted until a larger grant wants it.
  void withhold(ReceiveId receive);
  std::uint32_t credits() const noexcept { return credits_; }

  // Those withheld whose messages were read; each once, until it is posted again.
  std::size_t poll_withheld(std::span<ReceiveId> room);

  // What the RPC message behind the header is; looked at without being taken.
  RpcMessageType rpc_message_type(Bytes message);

  void handle_connected(const Negotiated& negotiated) { negotiated_ = negotiated; }
  void handle_received(ReceiveId receive, Bytes message);
  void handle_done(const WorkDone& done, const WorkName& name);
  void handle_time(Instant now) noexcept { now_ = now; }
  void handle_timeout(Instant now);
  void handle_refused_write(const wire::Segment& to);
  void handle_disconnected();

  std::size_t poll_actions(std::span<Action> room);

  std::uint64_t chunk_digest(CallId call) const;
  std::optional<Instant> poll_timeout() const noexcept {
    if (!peer_deadline_ || !next_done_deadline_) {
      return peer_deadline_ ? peer_deadline_ : next_done_deadline_;
    }
    return std::min(*peer_deadline_, *next_done_deadline_);
  }

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
  struct Slot {
    State state = State::kFree;
    bool queued = false;  // in ready_
    bool holds_receive = false;
    bool known_above = false;  // the layer above was told of the call: it gets CallDone
    bool lost = false;         // the connection ended; what is pending is only waited for
    bool has_reply_chunk = false;
    bool is_short = false;     // the Call has no chunks
    bool has_written = false;  // RDMA Writes went out for its reply
    bool by_read = false;      // the reply has an Exposed in use
    bool is_padded = false;    // the Call came as RDMA_MSGP
    std::uint16_t index = 0;   // of itself in slots_
    std::uint32_t generation = 0;
    std::uint32_t serial = 0;   // of its Call on the connection, which it keeps when it is free
    std::uint16_t pending = 0;  // work requests not completed
    ReceiveId receive{};
    Xid xid{};
    std::uint32_t version = 1;
    Bytes inline_part;
    BoundedVector<wire::ReadSegment, wire::kReadSegmentsMax> reads;  // by position
    BoundedVector<ReadChunk, kReadChunksMax> chunks;                 // by position
    std::uint16_t chunk = 0;        // the chunk that is wanted or pulled
    std::uint16_t read = 0;         // the next of reads to emit
    std::uint64_t read_offset = 0;  // where it lands in the chunk's memory
    BoundedVector<PulledItem, kReadChunksMax> items;
    wire::v1::WriteList writes;
    BoundedVector<wire::Segment, wire::kSegmentsPerChunkMax> reply_chunk;
    ReplyPlan reply;
    SegmentFiller filler;
    std::uint16_t write_chunk = 0;  // the Write chunk being filled; then the Reply chunk
    // Encoded in the slot's place; 0: in header_room, in front of the reply's stream.
    std::uint32_t header_size = 0;
    std::byte* header_room = nullptr;  // of the reply's Outgoing
    std::optional<SteeringTag> invalidate;
    bool success = false;  // the reply is not an error header
    Padding padding;       // of inline_part, if is_padded
  };
  enum class Handle : std::uint8_t { kNone, kAsked, kLive, kRevoking, kDead };
  struct ExposedHandle {
    SteeringTag tag;
    std::uint64_t address;
    Handle state;
  };
  // A reply that the peer reads, of the slot with the same index.
  struct Exposed {
    ExposedRuns runs;
    std::array<ExposedHandle, kFragmentsMax> handles;  // of runs
    std::uint16_t next = 0;                            // of runs: to be exposed
    bool counted = false;                              // among exposed_
    bool failed = false;                               // there is no handle for some run
    bool acknowledged = false;                         // RDMA_DONE came before the Send was done
    Instant deadline{};
  };
  struct Received {
    ReceiveId receive;
    Bytes message;
  };

  Slot* find(CallId call);
  static std::uint16_t index_of(const Slot& slot) noexcept { return slot.index; }
  WorkId work(const Slot& slot, WorkKind kind) const;
  void begin(const Received& received);
  bool take_short_call(Slot& slot, Bytes message);
  bool take_call(Slot& slot, const wire::v1::Decoded& decoded);
  bool sort_reads(Slot& slot);
  static bool check_positions(const Slot& slot, std::uint64_t inline_size, bool is_long);
  void next_chunk(Slot& slot);
  void deliver(Slot& slot, Bytes inline_part);
  using Body = wire::v1::Body;
  void start_error(Slot& slot, const Body& error);
  void start_sending(Slot& slot, const Body& body, bool success);
  std::optional<SteeringTag> only_handle(const Slot& slot) const;
  void enqueue(Slot& slot);
  bool emit(Slot& slot, std::span<Action> room, std::size_t& used);
  bool emit_reads(Slot& slot, std::span<Action> room, std::size_t& used);
  bool emit_writes(Slot& slot, std::span<Action> room, std::size_t& used);
  bool next_write(Slot& slot, SegmentFiller::Piece& piece);
  static bool is_answered(State state) noexcept;
  void start_exposing(Slot& slot);
  bool emit_exposures(Slot& slot, std::span<Action> room, std::size_t& used);
  bool emit_revokes(Slot& slot, std::span<Action> room, std::size_t& used);
  void handle_exposure(Slot& slot, const WorkDone& done, const WorkName& name);
  void send_exposed(Slot& slot);
  void await_done(Slot& slot);
  bool take_done(Xid xid);
  void start_revoking(Slot& slot);
  void handle_revoked(Slot& slot);
  void end_exposing(Slot& slot);
  void check_done_deadlines(Instant now);
  void work_posted(Slot& slot);
  void work_done(Slot& slot);
  void count_reply(const Slot& slot);
  void give_receive_back(Slot& slot);
  void repost(ReceiveId receive);
  void finish(Slot& slot);
  void note_refusal(const Slot& slot);

  const Options options_;
  Outbox& outbox_;
  HeaderArena headers_;
  std::size_t first_place_;
  Negotiated negotiated_;
  std::uint32_t credits_;   // granted in each reply
  std::uint32_t possible_;  // Calls that the peer may have sent and that have no reply: >= credits_
  Ring<ReceiveId> withheld_;  // Options::credits - possible_ of them
  std::size_t polled_ = 0;    // of withheld_, by poll_withheld()
  std::vector<Slot> slots_;
  Ring<std::uint16_t> free_, ready_, read_waiters_;
  Ring<Received> received_;     // messages that wait for a slot; bounded by the Receives
  wire::v1::ChunkLists lists_;  // scratch of decode and encode
  std::uint32_t reads_in_flight_ = 0;
  std::uint32_t in_service_ = 0;      // slots not free
  std::uint32_t last_serial_ = 0;     // of Slot::serial
  bool refusal_noted_ = false;        // ChunkRefused went out
  std::uint32_t work_in_flight_ = 0;  // Reads and Sends
  Instant now_{};
  std::optional<Instant>
      peer_deadline_;  // while there is work in flight; moved on by each completion
  // Of Profile::kRfc5666, behind what each Call touches.
  std::vector<Exposed> exposed_of_;  // by slot; empty but in Profile::kRfc5666
  std::uint32_t exposed_ = 0;        // replies exposed or being so, at most exposed_replies_max
  Ring<std::uint16_t> exposure_waiters_;
  std::optional<Instant> next_done_deadline_;  // none is earlier
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_RESPONDER_H_
