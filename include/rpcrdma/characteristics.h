// Transport characteristics of version two of RPC-over-RDMA (draft-dnoveck-nfsv4-rpcrdma-xcharext):
// what each side of a connection has told the other about itself. See docs/version-two.md.
#ifndef RPCRDMA_CHARACTERISTICS_H_
#define RPCRDMA_CHARACTERISTICS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

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

// What became of a request to the peer to change one of its characteristics.
enum class ChangeResult : std::uint8_t {
  kGranted,   // it is as was asked for
  kOther,     // it changed, or not, to another value than was asked for
  kRejected,  // it stays as it was, or the peer does not have such requests
  kLost,      // the connection ended first; the next one begins with the defaults
};

// Runs inside Client::progress(), or any call that makes it, once.
using ChangeCallback = std::function<void(ChangeResult result)>;

// Of any characteristic's value, as XDR encodes it, bytes.
inline constexpr std::size_t kCharacteristicSizeMax = 32;

struct ConnectionCharacteristics {
  Characteristics own, peer;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_CHARACTERISTICS_H_
