// The chunks that a received Call offers, put into order and judged.
#ifndef RPCRDMA_ENGINE_OFFERED_CHUNKS_H_
#define RPCRDMA_ENGINE_OFFERED_CHUNKS_H_

#include <cstdint>
#include <optional>

#include "base/bounded_vector.h"
#include "engine/types.h"
#include "wire/chunk_lists.h"

namespace rpcrdma::engine {

class OfferedChunks {
 public:
  void clear() noexcept;
  // Takes the lists of a Call's header. The Read list is sorted into chunks: peers need not list
  // them in order (RFC 8166 §3.4.5); the order of the segments inside a chunk is kept. False: a
  // position is no multiple of four, or a chunk, or their number, is larger than `options` allow.
  bool take(const wire::ChunkLists& lists, const Options& options);

  // Returns whether the Call itself is in a Read chunk.
  bool has_position_zero() const noexcept { return !chunks_.empty() && chunks_[0].position == 0; }
  // Returns whether each Read chunk begins at a position that the stream, with the chunks before it
  // inserted, reaches. `inline_size`: bytes of the stream behind the header, unless it is at
  // position zero.
  bool positions_fit(std::uint64_t inline_size) const noexcept;

  // Return the chunks in the order of their positions; the data of each is set when memory was lent
  // for it.
  BoundedVector<ReadChunk, kReadChunksMax>& chunks() noexcept { return chunks_; }
  const BoundedVector<ReadChunk, kReadChunksMax>& chunks() const noexcept { return chunks_; }
  const wire::Segment& read(std::size_t index) const noexcept { return reads_[index].target; }
  const wire::WriteList& writes() const noexcept { return writes_; }
  bool has_reply_chunk() const noexcept { return has_reply_chunk_; }  // it may have no segments
  std::span<const wire::Segment> reply_chunk() const noexcept { return reply_chunk_.view(); }
  // Nothing that a reply could be put into.
  bool takes_no_reply() const noexcept { return writes_.empty() && !has_reply_chunk_; }

  // The one handle that all segments have, if they have one: the Send of the reply may invalidate
  // it. Some peers check only the first, so several are left to the requester.
  std::optional<SteeringTag> only_handle() const noexcept;
  // Digests positions and lengths: the same for a Call that is made again with other handles.
  std::uint64_t digest() const noexcept;

 private:
  bool cut_into_chunks(const Options& options);

  BoundedVector<wire::ReadSegment, wire::kReadSegmentsMax> reads_;  // by position
  BoundedVector<ReadChunk, kReadChunksMax> chunks_;                 // of reads_
  wire::WriteList writes_;
  bool has_reply_chunk_ = false;
  BoundedVector<wire::Segment, wire::kSegmentsPerChunkMax> reply_chunk_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_OFFERED_CHUNKS_H_
