// The four words that start a message of any version of RPC-over-RDMA.
#ifndef RPCRDMA_WIRE_PREFIX_H_
#define RPCRDMA_WIRE_PREFIX_H_

#include <cstdint>

#include "base/ids.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::wire {

struct Prefix {
  Xid xid;
  std::uint32_t version;
  std::uint32_t credits;  // Call: requested; reply and error: granted
  std::uint32_t type;     // rdma_proc; its meaning depends on the version, except 4 = error
  bool operator==(const Prefix&) const = default;
};

inline constexpr std::uint32_t kPrefixSize = 16;  // bytes

// Reads the fixed words without judging them. Fails only when the message is shorter than 16 bytes.
Expected<Prefix, xdr::DecodeError> peek(Bytes message);

}  // namespace rpcrdma::wire

#endif  // RPCRDMA_WIRE_PREFIX_H_
