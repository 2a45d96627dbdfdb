// Transport characteristics of version two of RPC-over-RDMA (draft-dnoveck-nfsv4-rpcrdma-xcharext):
// what each side of a connection has told the other about itself. See docs/version-two.md.
#ifndef RPCRDMA_CHARACTERISTICS_H_
#define RPCRDMA_CHARACTERISTICS_H_

#include <cstdint>

namespace rpcrdma {

// Calls from the server to the client (XCHAR_BRS), as the client takes them.
enum class BackwardSupport : std::uint8_t {
  kNone,
  kInline,   // without chunks
  kGeneral,  // with chunks
};

// Of one side. The defaults hold until it says something else.
struct Characteristics {
  std::uint32_t receive_size = 4096;  // XCHAR_RBSIZ: bytes of each of its Receives, at least
  bool takes_invalidation = false;    // XCHAR_REQREMINV: of its handles, by replies to its calls
  BackwardSupport backward = BackwardSupport::kInline;
  bool operator==(const Characteristics&) const = default;
};

struct ConnectionCharacteristics {
  Characteristics own, peer;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_CHARACTERISTICS_H_
