// The chunk lists of a Transport header, in every version of RPC-over-RDMA.
#ifndef RPCRDMA_WIRE_CHUNK_LISTS_H_
#define RPCRDMA_WIRE_CHUNK_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "base/bounded_vector.h"
#include "wire/segment.h"

namespace rpcrdma::wire {

// Several counted arrays of segments (a Write list), kept flat.
class WriteList {
 public:
  std::size_t size() const noexcept { return counts_.size(); }  // chunks
  bool empty() const noexcept { return counts_.empty(); }
  // Precondition: index < size(). The view dies with the next change of the list.
  std::span<const Segment> chunk(std::size_t index) const noexcept {
    RPCRDMA_ASSERT(index < counts_.size(), "no such Write chunk");
    std::size_t first = 0;
    for (std::size_t i = 0; i < index; ++i) first += counts_[i];
    return segments_.view().subspan(first, counts_[index]);
  }
  // False, and unchanged, when the chunk does not fit.
  [[nodiscard]] bool push_back(std::span<const Segment> chunk) noexcept;
  // Append one more chunk, which is empty, and one more segment of the last chunk. False, and
  // unchanged, if it does not fit.
  [[nodiscard]] bool begin_chunk() noexcept { return counts_.push_back(0); }
  [[nodiscard]] bool add(const Segment& segment) noexcept {
    if (counts_.back() == kSegmentsPerChunkMax) return false;
    segments_.extend() = segment;  // has room whenever there is room for a count
    ++counts_.back();
    return true;
  }
  void clear() noexcept {
    counts_.clear();
    segments_.clear();
  }
  bool operator==(const WriteList& other) const noexcept;

 private:
  BoundedVector<std::uint32_t, kWriteChunksMax> counts_;
  BoundedVector<Segment, kWriteChunksMax * kSegmentsPerChunkMax> segments_;
};

// RFC 8166 §3.4.3: the three lists of a MSG, NOMSG or MSGP. All empty in other messages.
struct ChunkLists {
  BoundedVector<ReadSegment, kReadSegmentsMax> reads;  // in list order
  WriteList writes;
  bool has_reply = false;  // a Reply chunk is present (it may have no segments)
  BoundedVector<Segment, kSegmentsPerChunkMax> reply;

  bool empty() const noexcept { return reads.empty() && writes.empty() && !has_reply; }
  void clear() noexcept {
    reads.clear();
    writes.clear();
    has_reply = false;
    reply.clear();
  }
  bool operator==(const ChunkLists& other) const noexcept;
};

}  // namespace rpcrdma::wire

#endif  // RPCRDMA_WIRE_CHUNK_LISTS_H_
