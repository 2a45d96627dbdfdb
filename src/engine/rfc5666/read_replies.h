// Profile::kRfc5666, the half that makes Calls: replies whose data it reads, each confirmed by an
// RDMA_DONE (RFC 5666 §3.8), and Calls with aligned data (§3.9).
#ifndef RPCRDMA_ENGINE_RFC5666_READ_REPLIES_H_
#define RPCRDMA_ENGINE_RFC5666_READ_REPLIES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/call_chunks.h"
#include "engine/chunk_planner.h"
#include "engine/credits_v1.h"
#include "engine/rfc5666/done_credits.h"
#include "engine/rfc5666/padding.h"
#include "engine/rfc5666/read_reply_planner.h"
#include "engine/shared.h"
#include "engine/slot_table.h"
#include "engine/work_room.h"

namespace rpcrdma::engine::rfc5666 {

// Handles replies by RDMA Read for Requester, one for each slot, which is `call` where it is given.
class ReadReplies {
 public:
  // Receives the progress of the reply in a slot. resume(): emit_reads() has something to emit.
  class Host : public ReadSlots::Reader {
   public:
    virtual void complete_reading(std::uint16_t slot) = 0;
    virtual void fail_reading(std::uint16_t slot) = 0;

   protected:
    ~Host() = default;
  };

  ReadReplies(const Options& options, Shared& shared, HeaderArena headers, Host& host);
  // Returns null but in Profile::kRfc5666.
  static std::unique_ptr<ReadReplies> make_if_chosen(const Options& options, Shared& shared,
                                                     HeaderArena headers, Host& host);

  // --- The Call.
  // Returns whether credits allow the Call in the slot to be sent.
  bool may_go(std::uint16_t slot, const CreditsV1& credits) const noexcept;
  // Returns whether no Call can be sent, since those that were given up hold every credit.
  bool is_stuck(const CreditsV1& credits) const noexcept;
  Expected<void, StartError> started(std::uint16_t slot, const Outgoing& call, CallPlan& plan);
  void admitted(std::uint16_t slot) noexcept;  // it has spent its credit
  // Notes that the Call's Send is emitted; encodes the header and the zeros if the Send is padded.
  std::optional<HeaderPadding> sent(std::uint16_t slot, Xid xid, std::uint32_t credits);

  // --- The reply.
  // A message came for it that is no error of its form, also when the call was given up.
  void heard(std::uint16_t slot, const Received& message);
  // Takes the padding of the reply. False: this reply may not be padded, since it has chunks.
  bool take_padding(std::uint16_t slot, const Received& message) noexcept;
  // Plans the Reads of the Read list in Shared::lists and sets the sizes of results that come by
  // them; `in_reply_room` gets the bytes of the reply itself that come to the memory of
  // Outgoing::reply_room. False: it does not fit what the call has room for. `room_is_taken`: the
  // peer has written the reply to the Reply chunk, so nothing is read to there.
  bool take_read_chunks(std::uint16_t slot, bool room_is_taken, Results& results,
                        std::uint32_t& in_reply_room);
  const ReadAnswer* answer(std::uint16_t slot) const noexcept { return &calls_[slot].answer; }

  // Adds to `posted` for each Read. False: the room is full.
  bool emit_reads(const SlotBase& call, WorkRoom& room, std::uint8_t& posted);
  // A Read is complete.
  void handle_read(std::uint16_t slot, const Completion& done);
  // Ends the call while its reply is read; Reads that are under way still complete.
  void stop_reading(std::uint16_t slot);

  // --- Its end.
  // Returns whether an RDMA_DONE is still to be emitted: the peer keeps the reply's memory until
  // then.
  bool owes_done(std::uint16_t slot) const noexcept {
    return calls_[slot].owes_done && shared_.connected;
  }
  // Emits the RDMA_DONE that is owed, once no Read of the reply is under way, and counts its Send
  // in `posted`. False: the room is full.
  bool emit_done(const SlotBase& call, Xid xid, std::uint32_t credits, WorkRoom& room,
                 std::uint8_t& posted);
  // The call had been given up before its reply came: its end is no event. silence() returns
  // whether an RDMA_DONE is owed for it.
  bool is_silent(std::uint16_t slot) const noexcept { return calls_[slot].silent; }
  bool silence(std::uint16_t slot) noexcept {
    calls_[slot].silent = true;
    return owes_done(slot);
  }
  void credit_returned(std::uint16_t slot) noexcept { dones_.end_call(calls_[slot].by_read); }

 private:
  struct OneCall {
    bool by_read = false;  // the reply may have Read chunks
    bool owes_done = false;
    bool silent = false;
    std::optional<PaddedCall> padded;
    BoundedVector<ResultRoom, kExposuresMax> results;
    std::optional<ResultRoom> reply_room;
    std::uint32_t dones_before = 0;  // sent before the Call
    ReadAnswer answer;
    Pull plan;
    std::uint16_t next = 0;           // of plan.reads: to be emitted
    std::uint16_t reads_pending = 0;  // emitted, not completed
  };

  const Options& options_;
  Shared& shared_;
  HeaderArena headers_;
  Host& host_;
  std::vector<OneCall> calls_;  // by slot
  DoneCredits dones_;
};

}  // namespace rpcrdma::engine::rfc5666

#endif  // RPCRDMA_ENGINE_RFC5666_READ_REPLIES_H_
