// The calls of a client, from prepare() to the end of their Reply, in slots that are used again.
#ifndef RPCRDMA_RPC_CALL_CALL_TABLE_H_
#define RPCRDMA_RPC_CALL_CALL_TABLE_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "base/ring.h"
#include "engine/types.h"
#include "engine/xid_index.h"
#include "rpc/call/call_steps.h"
#include "rpc/call/sealing.h"
#include "rpc/connection_memory.h"
#include "rpcrdma/call.h"
#include "rpcrdma/message.h"
#include "rpcrdma/oncrpc.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

enum class CallState : std::uint8_t {
  kFree,      // prepare() takes it
  kPrepared,  // for start(); or for its Call to be destroyed
  kWaiting,   // for a connection, or for its turn on it; its time-out
  kSealing,   // for its step of authentication to end
  kStarted,   // for the engine's last event
  kOpening,   // the reply is here: for its step of authentication to end
  kEnded,     // the reply is here: for its Reply to be destroyed
  kFailed,    // for the blocking caller to take its error
};

inline bool is_under_way(CallState state) noexcept {
  return state >= CallState::kWaiting && state <= CallState::kOpening;
}

struct CallSlot {
  static constexpr std::uint32_t kResultsSizeDefault = 512;  // bytes

  // --- Shown by Call and Reply.
  MessageWriter writer;
  std::array<MutableBytes, kBulkItemsMax> results;
  std::size_t result_count = 0;
  bool results_refused = false;        // place_result() was asked for what it cannot do
  bool is_whole = false;               // the application wrote all of the message
  std::uint32_t results_size_max = 0;  // bytes
  std::chrono::nanoseconds timeout{};
  CallStep step;
  MessageReader reader;

  CallState state = CallState::kFree;
  bool blocking = false;
  bool holds_receive = false;  // the engine's slot is to be released
  Procedure procedure{};
  Xid xid{};
  MutableBytes stream;  // kHeaderRoom, and the arguments: a message room, or of the pool
  bool stream_is_room = false;
  MutableBytes reply_room;       // of the pool
  Instant deadline{};            // of a call that may wait for a connection: as a whole
  std::uint32_t lost_alone = 0;  // connections that were lost with only this call under way
  std::uint32_t link = 0;  // the number of the connection that was lost with it, or sealed for
  ReplyCallback callback;
  std::optional<Error> error;

  // --- Set by the RDMA carrier.
  transport::Connection* connection = nullptr;  // of its id, memory and Receive
  engine::CallId id{};
  LentMemory memory;

  MutableBytes arguments() const noexcept { return stream.subspan(kHeaderRoom); }
  std::span<const MutableBytes> places() const noexcept {
    return std::span(results).first(result_count);
  }
};

class CallTable {
 public:
  // `own`: of the last slot, which the library keeps for a call of its own.
  CallTable(std::size_t calls_max, bool own);
  // Where steps of authentication end that go on elsewhere. Once, before any call.
  void set_ended_steps(EndedSteps& ended) {
    for (CallSlot& slot : slots_) slot.step.init(ended, index_of(slot));
  }

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
  auto begin() noexcept { return slots_.begin(); }
  auto end() noexcept { return slots_.end(); }
  CallSlot& operator[](std::uint32_t index) { return slots_[index]; }
  std::uint32_t index_of(const CallSlot& slot) const noexcept {
    return static_cast<std::uint32_t>(&slot - slots_.data());
  }

  // Returns whether a call that is under way, or prepared by the library, has this XID.
  bool is_in_use(Xid xid);
  void set_xid(CallSlot& slot, Xid xid) {
    slot.xid = xid;
    xids_.set(index_of(slot), xid);
  }

  bool full() const noexcept { return free_.empty(); }
  // The slot that take() will take. Precondition of both: !full().
  std::uint32_t next() const { return free_.back(); }
  void take() { free_.pop_back(); }
  void free(std::uint32_t index) {
    slots_[index].state = CallState::kFree;
    if (!is_own(index)) free_.push_back(index);
  }
  // The library's own call; size() when there is none.
  std::uint32_t own() const noexcept { return own_; }
  bool is_own(std::uint32_t index) const noexcept { return index == own_; }
  bool own_is_free() const noexcept { return slots_[own_].state == CallState::kFree; }
  bool own_is_under_way() const noexcept {
    return own_ < size() && is_under_way(slots_[own_].state);
  }

  // Calls `cancel(slot)` for each call that is being sealed and has no time left. Returns the
  // earliest deadline of the others; nullopt: there are no others.
  template <class Cancel>
  Deadline cancel_sealing(Instant now, Cancel&& cancel) {
    Deadline next;
    for (CallSlot& slot : slots_) {
      if (slot.state != CallState::kSealing) continue;
      if (slot.deadline > now) {
        next = earlier(next, slot.deadline);
      } else {
        cancel(slot);
      }
    }
    return next;
  }

  // Over TCP, a call is known by its XID alone.
  void started(CallSlot& slot) noexcept { slot.state = CallState::kStarted; }
  // Returns the call that was sent with this XID and has not ended.
  std::optional<std::uint32_t> find(Xid xid);
  // Over RDMA, the engine knows the call by this id, until its last event.
  void started(CallSlot& slot, engine::CallId id) {
    slot.id = id;
    slot_of_call_[engine::slot_of(id)] = index_of(slot);
    slot.state = CallState::kStarted;
  }
  std::uint32_t find(engine::CallId id) const;
  bool any_started() const noexcept;
  bool any_holds_receive() const noexcept;
  bool holds_receive_of(const transport::Connection* connection) const noexcept;

  // --- Calls that wait for a connection.
  std::uint32_t waiting() const noexcept { return waiting_; }
  void wait(CallSlot& slot) noexcept {
    slot.state = CallState::kWaiting;
    ++waiting_;
  }
  // Any of them leaves: it is started, or fails.
  void leave() noexcept { --waiting_; }
  // In the order of their XIDs. Precondition: some wait.
  CallSlot& oldest_waiting();
  // The only one that waits and was lost with the connection of this number; null: there are
  // several, or none.
  CallSlot* only_one_lost_with(std::uint32_t link);
  // The first time limit among them.
  Deadline deadline() const;

 private:
  std::vector<CallSlot> slots_;
  std::vector<std::uint32_t> slot_of_call_;  // by the engine's slot: which call used it last
  std::vector<std::uint32_t> free_;  // the one freed last is taken first, as in engine::SlotTable
  engine::XidIndex xids_;            // of slots_
  const std::uint32_t own_;
  std::uint32_t waiting_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_CALL_TABLE_H_
