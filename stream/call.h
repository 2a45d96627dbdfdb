// The server's side of RPC over a stream: Calls opened and replies put together (RFC 5531 §9). No
// I/O; every byte of a Call is a peer's.
#ifndef RPCRDMA_STREAM_CALL_H_
#define RPCRDMA_STREAM_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"

namespace rpcrdma::stream {

inline constexpr std::uint32_t kRpcVersion = 2;

struct OpenedCall {
  std::uint32_t xid;
  std::uint32_t rpc_version;  // what follows is there when this is kRpcVersion
  Procedure procedure{};
  Bytes arguments{};  // a view into the record
};

// nullopt: no Call, or one that is cut off; there is no answer to it. The credential is read over:
// what is served by this does not ask who calls.
std::optional<OpenedCall> open_call(Bytes record);

// A whole record, with its header: the reply to an accepted Call. `body`: the results of kSuccess;
// the lowest and the highest version of kProgMismatch; else empty.
std::vector<std::byte> accepted_record(std::uint32_t xid, AcceptStatus status, Bytes body = {});
// The same for a Call of another version of RPC.
std::vector<std::byte> rpc_mismatch_record(std::uint32_t xid);

}  // namespace rpcrdma::stream

#endif  // RPCRDMA_STREAM_CALL_H_
