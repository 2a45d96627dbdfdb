// Calls under construction: their slots, their memory and their XIDs.
#ifndef RPCRDMA_RPC_CALL_PREPARED_CALLS_H_
#define RPCRDMA_RPC_CALL_PREPARED_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rpc/call/call_table.h"
#include "rpcrdma/call.h"
#include "rpcrdma/error.h"
#include "rpcrdma/oncrpc.h"

namespace rpcrdma::rpc {

class CallFlow;

class PreparedCalls {
 public:
  PreparedCalls(CallFlow& flow, std::uint32_t first_xid) noexcept
      : flow_(flow), last_xid_(first_xid) {}

  // Returns a call with room for so many bytes of arguments.
  Expected<Call, Error> prepare(const Procedure& procedure, std::size_t arguments_size);
  // The same for a whole message, whose XID is the application's and which nothing seals.
  Expected<Call, Error> prepare_message(std::size_t size);
  // Prepares the library's own call; `is_message`: as a whole message.
  CallSlot& prepare_own(const Procedure& procedure, bool is_message);
  // Returns why the call cannot be sent as it was written; nullopt: it can.
  std::optional<Error> check(CallSlot& slot);
  // The slot is free.
  void note_free(const CallSlot& slot) noexcept {
    if (slot.is_whole) --messages_;
  }

  // Returns an XID that no call has.
  [[gnu::always_inline]] Xid draw_xid() {
    do {
      ++last_xid_;
    } while (messages_ > 0 && is_in_use(Xid{last_xid_}));
    return Xid{last_xid_};
  }
  // Returns the XID, or another one if a message of the application's has it by now.
  Xid free_xid(Xid xid) { return messages_ > 0 && is_in_use(xid) ? draw_xid() : xid; }
  std::uint32_t last_xid() const noexcept { return last_xid_; }
  void set_last_xid(std::uint32_t xid) noexcept { last_xid_ = xid; }

 private:
  [[gnu::always_inline]] inline void init(CallSlot& slot, const Procedure& procedure);
  bool is_in_use(Xid xid);
  void set_message(CallSlot& slot) noexcept {
    slot.is_whole = true;
    ++messages_;
  }

  CallFlow& flow_;
  std::uint32_t last_xid_;
  std::uint32_t messages_ = 0;  // slots whose XIDs are the application's
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_PREPARED_CALLS_H_
