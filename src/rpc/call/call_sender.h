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
    // RFC 8167 §5.3: backward Calls have no other way than inline, in both directions. A reply that
    // is larger becomes an error.
    bool inline_only;
    // The Reply chunk has to hold the results as well as what is left of the reply.
    bool whole_reply_in_chunk;
    // The same, where there is memory for it: a server of RFC 5666 may expose all of a reply in one
    // chunk, whatever the results' rooms are.
    bool whole_reply_if_possible;
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

  // `credential`: of the calls that are sent from now on, as it is then.
  CallSender(const Limits& limits, const Credential& credential, transport::BufferPool& pool,
             CallTable& calls, ConnectionMemory& memory)
      : limits_(limits), credential_(credential), pool_(pool), calls_(calls), memory_(memory) {}

  // Seals the message with an RPC header of its own for this transmission, lends the call's memory
  // and gives it to the engine of the connection; CallTable::started(). What was lent stays with
  // the slot in any case.
  std::optional<Refusal> start(CallSlot& slot, transport::Connection& connection, Instant now);

 private:
  bool build(CallSlot& slot);
  bool lend_reply_room(CallSlot& slot, std::uint64_t size);

  const Limits limits_;
  const Credential& credential_;
  transport::BufferPool& pool_;
  CallTable& calls_;
  ConnectionMemory& memory_;
  // Of the call that is being started.
  BoundedVector<engine::Fragment, engine::kFragmentsMax> stream_;
  BoundedVector<engine::ResultRoom, kBulkItemsMax> rooms_;
  engine::Outgoing outgoing_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_CALL_SENDER_H_
