// Calls that wait for a connection.
#ifndef RPCRDMA_RPC_CALL_WAITING_CALLS_H_
#define RPCRDMA_RPC_CALL_WAITING_CALLS_H_

#include "rpc/call/call_table.h"
#include "rpcrdma/error.h"

namespace rpcrdma::rpc {

class CallFlow;

// The time of a call counts from its start, however long it waits.
class WaitingCalls {
 public:
  explicit WaitingCalls(CallFlow& flow) noexcept : flow_(flow) {}

  void add(CallSlot& slot);
  // Sends them, the oldest first, as far as the policy lets it.
  void send();
  // Fails those whose time is over, or all.
  void fail(bool all);
  // Fails one.
  void fail(CallSlot& slot, Error error);
  // Returns the call that waits and was alone under way on the connection that was lost; null: it
  // was not alone, or had a whole message, which does not wait.
  CallSlot* take_lost_alone();

 private:
  CallFlow& flow_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_WAITING_CALLS_H_
