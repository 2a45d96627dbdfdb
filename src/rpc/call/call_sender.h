// From a prepared call to the engine.
#ifndef RPCRDMA_RPC_CALL_CALL_SENDER_H_
#define RPCRDMA_RPC_CALL_CALL_SENDER_H_

#include <cstdint>
#include <optional>

#include "base/bounded_vector.h"
#include "engine/types.h"
#include "rpc/call/call_table.h"
#include "rpc/connection_memory.h"
#include "transport/buffer_pool.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

class CallSender {
 public:
  struct Limits {
    // Results come in the reply's stream, wherever that is: the memory of places is not lent.
    // Backward Calls need that, whose client may go while they are under way.
    bool no_places;
    // The Reply chunk has to hold the results as well as what is left of the reply.
    bool whole_reply_in_chunk;
    // The same, where there is memory for it: a server of RFC 5666 may expose all of a reply in one
    // chunk, whatever the results' rooms are.
    bool whole_reply_if_possible;
    // RFC 5666 §3.9: who takes RDMA_MSGP looks for fill bytes in front of counted items only.
    bool counted_items_only;
  };
  // Why a call was not started.
  struct Refusal {
    enum class Kind : std::uint8_t {
      kEngine,          // see `error`
      kNoRegistration,  // its memory cannot be registered
      kNoReplyMemory,   // the pool has no room for its reply
    };
    Kind kind;
    engine::StartError error{};
  };

  // `growth`: by how many bytes results may grow that are wrapped; nullopt: nothing is wrapped.
  CallSender(const Limits& limits, std::optional<std::uint32_t> growth, transport::BufferPool& pool,
             CallTable& calls, ConnectionMemory& memory)
      : limits_(limits), growth_(growth), pool_(pool), calls_(calls), memory_(memory) {}

  // Writes the RPC header that the call's seal has for this transmission, lends the call's memory
  // and gives it to the engine of the connection; CallTable::started(). The memory stays
  // with the slot in any case.
  std::optional<Refusal> start(CallSlot& slot, transport::Connection& connection, Instant now);

 private:
  std::uint64_t rest_max(const CallSlot& slot) const noexcept;
  bool build(CallSlot& slot);
  bool build_wrapped(CallSlot& slot, const engine::Fragment& header);
  bool add_behind(CallSlot& slot, const ConnectionMemory::Place& place, Bytes data);
  bool lend_reply_room(CallSlot& slot, std::uint64_t size);

  const Limits limits_;
  const std::optional<std::uint32_t> growth_;
  transport::BufferPool& pool_;
  CallTable& calls_;
  ConnectionMemory& memory_;
  // These describe the call that is being started.
  BoundedVector<engine::Fragment, engine::kFragmentsMax> stream_;
  BoundedVector<engine::ResultRoom, kBulkItemsMax> rooms_;
  engine::Outgoing outgoing_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_CALL_SENDER_H_
