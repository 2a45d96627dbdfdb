// The seam below the life of a call (CallFlow): what RDMA, TCP and the connections of a server's
// sessions do in their own ways, which is how a message leaves and how its reply comes.
#ifndef RPCRDMA_RPC_CALL_CARRIER_H_
#define RPCRDMA_RPC_CALL_CARRIER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/types.h"
#include "rpc/call/call_table.h"
#include "rpcrdma/error.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// Carries the messages of a flow's calls over one connection at a time. Each call that send() has
// taken ends by one call of CallFlow::handle_reply(), lose() or fail(), inside of a round.
class Carrier {
 public:
  // --- Messages.
  // Gives a slot memory for kHeaderRoom bytes and the arguments. Returns false if there is none.
  virtual bool lend_stream(CallSlot& slot, std::size_t arguments_size) = 0;
  // Writes the RPC header of the call's seal and sends the message; the call ends within
  // slot.timeout from now. Returns why it cannot; the call has not been sent then.
  virtual std::optional<Error> send(CallSlot& slot) = 0;
  // The application's memory is its own again: the call has ended, or waits for a connection.
  virtual void take_back(CallSlot& slot) = 0;
  // Frees all that a slot holds; of a call that is sent once more only what its reply has brought.
  virtual void free(CallSlot& slot, bool keeps_call) = 0;

  // --- The connection.
  virtual bool is_up() const noexcept = 0;      // calls may be sent
  virtual bool has_ended() const noexcept = 0;  // or there is none
  // Calls that were sent and have not ended.
  virtual std::uint32_t calls_in_flight() const noexcept = 0;
  virtual std::string_view peer() const noexcept = 0;
  virtual Error explain(engine::CallError error) const = 0;
  virtual Instant clock() const = 0;

 protected:
  ~Carrier() = default;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_CARRIER_H_
