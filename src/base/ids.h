// Strong identifiers that more than one module speaks of; SteeringTag is public.
#ifndef RPCRDMA_BASE_IDS_H_
#define RPCRDMA_BASE_IDS_H_

#include <cstdint>

namespace rpcrdma {

enum class Xid : std::uint32_t {};  // RFC 5531 §9: names one Call of one requester

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_IDS_H_
