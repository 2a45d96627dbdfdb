// Why a call cannot be made, or was not understood, in the words of its caller.
#ifndef RPCRDMA_RPC_CALL_CALL_CAUSES_H_
#define RPCRDMA_RPC_CALL_CALL_CAUSES_H_

#include <cstdint>
#include <string>

#include "rpc/call/call_table.h"

namespace rpcrdma::rpc {

// Says why the arguments or places of a call were refused when they were written.
std::string cause_of_refusal(const CallSlot& call);
// Names each bound of a call that may have been too low, with its value, after the server has
// answered ERR_CHUNK (RFC 8166 §4.5.3), which says no more. `reads_served_max`: of the connection,
// if there is one still.
std::string cause_of_chunk_error(const CallSlot& call, std::uint32_t reads_served_max);

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_CALL_CAUSES_H_
