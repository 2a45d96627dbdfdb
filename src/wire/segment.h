// The records that every version of RPC-over-RDMA shares, and the limits put on lists of them.
#ifndef RPCRDMA_WIRE_SEGMENT_H_
#define RPCRDMA_WIRE_SEGMENT_H_

#include <cstddef>
#include <cstdint>

#include "rpcrdma/steering_tag.h"

namespace rpcrdma::wire {

// RFC 8166 §3.4.2 (plain segment): memory that the peer advertised. 16 bytes on the wire.
struct Segment {
  SteeringTag handle;
  std::uint32_t length;  // bytes
  std::uint64_t offset;  // where it starts, in the terms of the handle; opaque to us
  bool operator==(const Segment&) const = default;
};

// RFC 8166 §3.4.4: an entry of the Read list. 20 bytes on the wire, plus its list discriminator.
struct ReadSegment {
  std::uint32_t position;  // bytes from the start of the unreduced Payload stream
  Segment target;
  bool operator==(const ReadSegment&) const = default;
};

// The fixed capacities of the code; Limits may only be lower.
inline constexpr std::size_t kWriteChunksMax = 8;
inline constexpr std::size_t kSegmentsPerChunkMax = 16;
inline constexpr std::size_t kReadSegmentsMax = 128;

// The limits of a decoder for a peer's message; one more of anything is refused
// (xdr::Errc::kOverLimit).
struct Limits {
  std::uint32_t read_segments = kReadSegmentsMax;           // in the whole Read list
  std::uint32_t write_chunks = kWriteChunksMax;             // in the Write list
  std::uint32_t segments_per_chunk = kSegmentsPerChunkMax;  // in each Write chunk and Reply chunk
};

}  // namespace rpcrdma::wire

#endif  // RPCRDMA_WIRE_SEGMENT_H_
