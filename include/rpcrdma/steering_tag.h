// The name under which a peer may reach memory.
#ifndef RPCRDMA_STEERING_TAG_H_
#define RPCRDMA_STEERING_TAG_H_

#include <cstdint>

namespace rpcrdma {

enum class SteeringTag : std::uint32_t {};  // names advertised memory; on the wire: "handle"

}  // namespace rpcrdma

#endif  // RPCRDMA_STEERING_TAG_H_
