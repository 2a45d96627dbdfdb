// Reads replies: what the RPC header says, and where the results are.
#ifndef RPCRDMA_RPC_CALL_REPLY_READING_H_
#define RPCRDMA_RPC_CALL_REPLY_READING_H_

#include <optional>
#include <string_view>

#include "engine/types.h"
#include "oncrpc/message.h"
#include "rpc/call/call_table.h"
#include "rpcrdma/error.h"

namespace rpcrdma::rpc {

// Shows the call's authenticator what the header has for it.
void show(const oncrpc::ReplyHeader& header, CallSeal& seal) noexcept;

// Reads the RPC header of the reply to the slot's call, and shows it; on success slot.reader stands
// at the results. `peer`: for the text of an error.
std::optional<Error> read_reply(CallSlot& slot, const engine::ReplyReady& reply,
                                std::string_view peer);

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_REPLY_READING_H_
