// Headers of RPC messages (RFC 5531) as facts of a call, and what of arguments and results their
// first words say.
#ifndef RPCRDMA_EXPLAIN_RPC_WORDS_H_
#define RPCRDMA_EXPLAIN_RPC_WORDS_H_

#include <cstdint>
#include <optional>

#include "explain/facts.h"
#include "rpcrdma/types.h"

namespace rpcrdma::explain {

// The first words of an RPC message, unjudged. nullopt: it is shorter.
struct RpcStart {
  std::uint32_t xid, type;  // 0: CALL, 1: REPLY
};
std::optional<RpcStart> rpc_start(Bytes message) noexcept;

// The fault of an RPC header by RFC 5531.
enum class RpcFault : std::uint8_t { kNone, kShort, kType, kVersion, kCredential, kBadValue };

// Read the header into `call`. Fields that the bytes do not reach stay as they are.
RpcFault read_rpc_call(Bytes message, CallFact& call);
RpcFault read_rpc_reply(Bytes message, CallFact& call);

// Offset of the arguments in a Call, for rules about positions; 0: unknown.
std::size_t arguments_at(Bytes message) noexcept;
// Offset of the results in a reply that was accepted and succeeded; 0: there are none.
std::size_t results_offset(Bytes message) noexcept;

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_RPC_WORDS_H_
