// Recognises a Call with chunks that is made again, for RefusedCalls.
#ifndef RPCRDMA_RPC_SERVE_CALL_NAME_H_
#define RPCRDMA_RPC_SERVE_CALL_NAME_H_

#include <cstdint>

#include "base/ids.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// Names a Call by what stays the same when it is made again: the host, the XID, the positions and
// lengths of its chunks
// (`chunks`), and of its inline part, which a Long Call has not, the procedure, the caller and the
// start of the arguments. Under RPCSEC_GSS the sequence number and all checksums differ in each
// transmission: the caller is the context then, and wrapped arguments count without what changes
// with the number, or not at all if they are enciphered. Never zero.
std::uint64_t name_of_call(std::uint64_t host, std::uint64_t chunks, Xid xid,
                           Bytes inline_part) noexcept;

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_CALL_NAME_H_
