// The half of a connection that answers Calls.
#ifndef RPCRDMA_ENGINE_RESPONDER_H_
#define RPCRDMA_ENGINE_RESPONDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/ring.h"
#include "engine/answered_call.h"
#include "engine/chunk_planner.h"
#include "engine/chunked_call.h"
#include "engine/peer_watch.h"
#include "engine/pulls.h"
#include "engine/recent_writes.h"
#include "engine/reply_watch.h"
#include "engine/rfc5666/exposed_replies.h"
#include "engine/rfc5666/profile.h"
#include "engine/shared.h"
#include "engine/slot_table.h"
#include "engine/types.h"
#include "engine/work_room.h"

namespace rpcrdma::engine {

// One slot per Call being answered. A Call has its Read chunks pulled into memory that the layer
// above lends, is handed over, is answered by RDMA Writes and one Send, and is reported as done.
class Responder final : private rfc5666::ExposedReplies::Host {
 public:
  Responder(const Options& options, Shared& shared, HeaderArena headers);
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  // More than Receives, because a slot may still wait for its Send when its Receive is posted
  // again.
  static std::size_t slot_count(const Options& options) noexcept {
    return options.credits + 16U + rfc5666::exposed_replies_max(options);
  }

  // Answers CallReceived, or MemoryWanted without pulling the chunk. A reply that fits nothing that
  // the Call provided goes out as ERR_CHUNK. The memory of the reply, and all that was lent to the
  // call, is the caller's again at CallDone.
  void start_reply(CallId call, const Outgoing& reply);
  // Answers CallReceived or MemoryWanted with ERR_CHUNK: the Call's stream is not what its header
  // says, or there is no memory for it.
  void reject(CallId call);
  // Ends the Call without an answer, but for a reply of version 2: BAD_HEADER.
  void drop(CallId call, DropReason why);
  // Answers an early MemoryWanted, which comes again at the Call's turn. And that of a Long Call's
  // other chunk: its stream is given back, and read again when lend() gives memory for position 0,
  // for which it waits now.
  void put_off(CallId call);
  // Answers MemoryWanted: `memory` holds the size asked for from `offset` on. Or, with a
  // `head_size` for a Long Call's own chunk, so many bytes: its start is read, and an early
  // MemoryWanted follows.
  void lend(CallId call, Lease memory, std::uint64_t offset, std::uint32_t head_size = 0);
  // Grants so many credits from the next reply on, 1 … Options::credits (more and fewer are taken
  // as those). Fewer take nothing back: the Receives of Calls that the peer may still have sent
  // stay posted, one fewer with each reply.
  void set_credits(std::uint32_t credits);

  // Returns a digest of the positions and lengths of all chunks of a Call that is in service: the
  // same when the Call is made again, whose handles and addresses are others.
  std::uint64_t chunk_digest(CallId call) const;
  // Returns since when all Calls wait for the peer alone, to serve our Reads or to take our
  // replies, and none has moved; nullopt: some call waits for this side, or there is none.
  std::optional<Instant> waits_for_peer_since() const noexcept;
  // Calls that came and are not done.
  std::uint32_t calls_in_service() const noexcept { return in_service_; }

 private:
  using State = CallState;
  using Slot = AnsweredCall;
  struct Waiting {  // a message for which there was no slot
    ReceiveId receive;
    Bytes bytes;
  };

  friend class Connection;  // drives it
  friend struct SlotProbe;

  void handle_received(ReceiveId receive, const Received& message, Bytes bytes);
  void handle_done(const Completion& done, const WorkName& name);
  void handle_time(Instant now) noexcept { now_ = now; }
  void handle_timeout(Instant now);
  void handle_refused_write(const RefusedWrite& refused);
  void handle_disconnected();
  void poll_work(WorkRoom& room);
  Deadline poll_timeout() const noexcept;
  // Returns whether some call has work that is not posted yet: perhaps a reply, of any size.
  bool has_unsent() const noexcept { return slots_.has_ready(); }

  void resume(std::uint16_t slot) override { slots_.make_ready(slots_[slot]); }
  void send_exposed(std::uint16_t slot) override;
  void fail_exposed(std::uint16_t slot) override;
  void finish_exposed(std::uint16_t slot) override { finish(slots_[slot]); }
  Slot& answerable(CallId call);
  ChunkedCall& add_chunked(Slot& slot);
  void begin(ReceiveId receive, const Received& message);
  bool take_call(Slot& slot, const Received& message);
  void deliver(Slot& slot, Bytes inline_part);
  void plan(Slot& slot, const Outgoing& reply);
  void start_error(Slot& slot, Kind error);
  void start_sending(Slot& slot, Kind kind);
  bool emit(Slot& slot, WorkRoom& room);
  bool emit_reads(Slot& slot, WorkRoom& room);
  bool emit_reply(Slot& slot, WorkRoom& room);
  void work_posted(Slot& slot, std::uint32_t count);
  void finish(Slot& slot);
  void note_refusal(CallId call);

  const Options options_;
  Shared& shared_;
  HeaderArena headers_;
  SlotTable<Slot> slots_;
  Pulls pulls_;
  PartPool<ChunkedCall> chunked_;
  RecentWrites recent_writes_;
  Ring<Waiting> waiting_;         // bounded by the Receives
  std::uint32_t in_service_ = 0;  // slots in use
  bool refusal_noted_ = false;    // ChunkRefused went out
  PeerWatch peer_;
  ReplyWatch results_;
  Instant now_{};
  Instant last_move_{};  // a Call came, was passed on or answered, got memory, or ended
  std::unique_ptr<rfc5666::ExposedReplies> profile_;  // null but in Profile::kRfc5666
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_RESPONDER_H_
