// The Read chunks of a received Call, put into order and judged: pure functions, no state.
#ifndef RPCRDMA_ENGINE_READ_CHUNKS_H_
#define RPCRDMA_ENGINE_READ_CHUNKS_H_

#include <cstdint>
#include <span>

#include "base/bounded_vector.h"
#include "engine/types.h"
#include "wire/segment.h"

namespace rpcrdma::engine {

struct ReadChunks {
  BoundedVector<wire::ReadSegment, wire::kReadSegmentsMax> segments;  // by position
  BoundedVector<ReadChunk, kReadChunksMax> chunks;                    // by position

  bool has_position_zero() const noexcept { return !chunks.empty() && chunks[0].position == 0; }
};

// Sorts the Read list into chunks. Peers need not list chunks in order (RFC 8166 §3.4.5); the order
// of the segments inside a chunk is kept. False: a position is no multiple of four, or a chunk, or
// their number, is larger than `options` allow.
bool sort_read_chunks(std::span<const wire::ReadSegment> list, const Options& options,
                      ReadChunks& result);

// Whether each chunk begins where the stream, with the chunks before it put in, has come to or gets
// to. `inline_size`: bytes of the stream behind the header, unless it is the chunk at position
// zero.
bool positions_fit(const ReadChunks& reads, std::uint64_t inline_size);

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_READ_CHUNKS_H_
