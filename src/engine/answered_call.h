// Holds the state of a Call that a responder is answering.
#ifndef RPCRDMA_ENGINE_ANSWERED_CALL_H_
#define RPCRDMA_ENGINE_ANSWERED_CALL_H_

#include <algorithm>
#include <cstdint>

#include "engine/chunked_call.h"
#include "engine/slot_table.h"
#include "engine/types.h"

namespace rpcrdma::engine {

enum class CallState : std::uint8_t {
  kFree,      // handle_received takes it
  kQueued,    // for its turn to ask for memory: Pulls
  kWanting,   // for lend(), or an answer without it
  kPulling,   // for RDMA Reads: emitted by poll_work, completed by handle_done
  kServing,   // for start_reply() or reject()
  kReplying,  // for its Writes and its Send: emitted by poll_work, completed by handle_done
  kExposed,   // for ExposedReplies (RFC 5666), before its Send and after it
};

// Returns whether the layer above has answered the call, or does not have to.
constexpr bool is_answered(CallState state) noexcept {
  return state != CallState::kFree && state != CallState::kWanting && state != CallState::kServing;
}

struct AnsweredCall : SlotBase {
  CallState state = CallState::kFree;
  bool holds_receive = false;
  bool known_above = false;  // the layer above knows the call, and gets CallDone
  bool lost = false;         // the connection ended; what is pending is only waited for
  bool by_read = false;      // the requester reads the reply (RFC 5666)
  bool is_padded = false;    // the Call came as RDMA_MSGP (RFC 5666)
  bool has_one_run = false;  // the reply is `run`
  bool success = false;      // the reply is not an error header
  bool is_watched = false;   // the peer has its time to take the reply
  Dialect dialect = Dialect::kV1;
  std::uint16_t pending = 0;  // work requests not completed
  ReceiveId receive{};
  Xid xid{};
  std::uint32_t version = 1;
  Bytes inline_part;
  Fragment run{};
  // Encoded in the slot's place; 0: in header_room, in front of the reply's stream.
  std::uint32_t header_size = 0;
  std::byte* header_room = nullptr;  // of the reply's Outgoing
  ChunkedCall* chunked = nullptr;
};
static_assert(sizeof(AnsweredCall) <= 128, "a slot is two cache lines");

// Returns whether no call waits for this side, by a look at each: the layer above asks where a host
// has more connections than others.
inline bool all_wait_for_peer(const SlotTable<AnsweredCall>& calls) noexcept {
  return std::ranges::all_of(
      calls, [](const AnsweredCall& call) { return !call.used || is_answered(call.state); });
}

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_ANSWERED_CALL_H_
