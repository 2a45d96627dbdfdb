// The two specifications of RPC-over-RDMA version 1.
#ifndef RPCRDMA_PROFILE_H_
#define RPCRDMA_PROFILE_H_

#include <cstdint>

namespace rpcrdma {

// The specification of RPC-over-RDMA version 1 that a connection follows. Nothing on the wire
// indicates it: set both ends to the same value.
enum class Profile : std::uint8_t {
  kRfc8166,
  // The original RFC 5666: a server may answer by Read chunks, which the client fetches and
  // confirms with RDMA_DONE (§3.8); the client aligns data inside messages (RDMA_MSGP, §3.9); the
  // Connection Configuration Protocol (§6) negotiates message sizes instead of RFC 8797.
  kRfc5666,
};
// Where the padding of RDMA_MSGP counts from; RFC 5666 §3.9 can be read both ways.
enum class PaddingBase : std::uint8_t {
  kBuffer,  // the start of the Send: aligned if the receiver's buffer is aligned
  kStream,  // the start of the RPC message
};

}  // namespace rpcrdma

#endif  // RPCRDMA_PROFILE_H_
