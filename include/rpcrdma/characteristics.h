// Transport characteristics of version two of RPC-over-RDMA (draft-dnoveck-nfsv4-rpcrdma-xcharext):
// what each side of a connection has told the other about itself. See docs/version-two.md.
#ifndef RPCRDMA_CHARACTERISTICS_H_
#define RPCRDMA_CHARACTERISTICS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "rpcrdma/types.h"

namespace rpcrdma {

// Calls from the server to the client (XCHAR_BRS), as the client takes them.
enum class BackwardSupport : std::uint8_t {
  kNone,
  kInline,   // without chunks
  kGeneral,  // with chunks
};

// The characteristics of one side. The defaults hold until that side announces something else.
struct Characteristics {
  std::uint32_t receive_size = 4096;  // XCHAR_RBSIZ: bytes of each of its Receives, at least
  bool takes_invalidation = false;    // XCHAR_REQREMINV: of its handles, by replies to its calls
  BackwardSupport backward = BackwardSupport::kInline;
  bool operator==(const Characteristics&) const = default;
};

// The outcome of a request to the peer to change one of its characteristics.
enum class ChangeResult : std::uint8_t {
  kGranted,   // it is as was asked for
  kOther,     // it changed, or not, to another value than was asked for
  kRejected,  // it stays as it was, or the peer does not have such requests
  kLost,      // the connection ended first; the next one begins with the defaults
};

// Runs inside Client::progress(), or any call that makes it, once.
using ChangeCallback = std::function<void(ChangeResult result)>;

// The largest size of any characteristic's value, as XDR encodes it, bytes.
inline constexpr std::size_t kCharacteristicSizeMax = 32;

// A characteristic of the application's own, from the range for experiments. Both sides register
// the same type. Its functions run on the thread of the client or server, in the middle of its
// work, and must not use it.
struct CharacteristicType {
  std::uint32_t id;                // 0xffffff00 or above
  std::vector<std::byte> initial;  // of each side until it says something else, as XDR encodes it
  // Returns whether these bytes are a value of the type; null: all are. A peer that announces other
  // bytes is answered BAD_HEADER.
  std::function<bool(Bytes value)> is_value;
  // The policy of change: returns whether this side accepts the value that the peer requests; null:
  // it accepts none.
  std::function<bool(Bytes value)> grants;
  // Called when the peer has announced a new value; may be null. Not called when a connection is
  // made again, although it begins with `initial`.
  std::function<void(Bytes value)> on_change;
};

struct ConnectionCharacteristics {
  Characteristics own, peer;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_CHARACTERISTICS_H_
