// One Call that this side makes, from start_call() to its end.
#ifndef RPCRDMA_ENGINE_MADE_CALL_H_
#define RPCRDMA_ENGINE_MADE_CALL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/call_chunks.h"
#include "engine/dialect.h"
#include "engine/slot_table.h"
#include "engine/stream_parts.h"
#include "engine/types.h"

namespace rpcrdma::engine {

struct MadeCall : SlotBase {
  enum class State : std::uint8_t {
    kFree,       // start_call takes it
    kWaiting,    // for a credit and a posted Receive; admit() moves it on
    kExposing,   // for its memory's steering tags; handle_done moves it on
    kSending,    // for its Send in another version to complete, if there was one (handle_done),
                 // and for room among the work (poll_work)
    kSent,       // for the reply, the time-out or the end of the connection
    kPulling,    // for RDMA Reads of its reply (RFC 5666); handle_done moves it on
    kFencing,    // for its handles to be revoked and its Send to complete; handle_done moves it on
    kDelivered,  // for release(), which gives the Receive of its reply back
    kAbandoned,  // reported as failed, but the peer may still answer: keeps XID and credit
  };
  State state = State::kFree;
  bool spent = false;                 // holds a credit
  bool send_asked = false;            // its Send was emitted
  std::uint8_t pending = 0;           // work requests not completed
  std::uint32_t arrivals_before = 0;  // messages received on the connection when it was sent
  std::uint32_t sends_before = 0;     // its place among them when its fencing began (LeavingSends)
  Xid xid{};
  std::uint32_t in_reply_chunk = 0;  // of the reply, bytes
  Instant deadline{};                // of the call; in kFencing: for its memory to be safe
  Fragment run{};                    // all of the Call, unless it has `chunks`
  std::byte* header_room = nullptr;  // of the Outgoing
  Bytes inline_part;                 // of the reply
  ReceiveId receive{};               // of the reply
  std::optional<CallError> error;    // set: the call has failed and is being fenced
  CallChunks* chunks = nullptr;

  // Returns whether the peer may reach memory of it that is not being revoked.
  bool is_exposed() const noexcept { return chunks != nullptr && chunks->exposures.any_live(); }
};
static_assert(sizeof(MadeCall) <= 128, "a slot is two cache lines");

// Calls that have ended, but for their credits.
inline std::uint32_t count_given_up(const SlotTable<MadeCall>& calls) noexcept {
  std::uint32_t count = 0;
  for (const MadeCall& call : calls) {
    if (!call.error && call.state != MadeCall::State::kAbandoned) continue;
    if (call.spent && call.send_asked) ++count;
  }
  return count;
}

// Returns whether the Send of a Call is planned, not posted yet, and longer than `size` bytes.
inline bool is_unsent_above(const MadeCall& call, std::uint32_t size) noexcept {
  using enum MadeCall::State;
  const bool is_unsent =
      call.state == kWaiting || call.state == kExposing || call.state == kSending;
  if (!call.used || !is_unsent) return false;
  if (call.chunks == nullptr) return call.run.size + kShortHeaderSizeMax > size;
  const CallPlan& plan = call.chunks->plan;
  return std::max<std::uint64_t>(plan.header_size, kShortHeaderSizeMax) +
             stream_size(plan.inline_runs.view()) >
         size;
}
inline bool any_unsent_above(const SlotTable<MadeCall>& calls, std::uint32_t size) noexcept {
  return std::ranges::any_of(calls,
                             [&](const MadeCall& call) { return is_unsent_above(call, size); });
}

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_MADE_CALL_H_
