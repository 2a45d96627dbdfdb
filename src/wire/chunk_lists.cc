#include "wire/chunk_lists.h"

#include <algorithm>

#include "base/assert.h"

namespace rpcrdma::wire {

std::span<const Segment> WriteList::chunk(std::size_t index) const noexcept {
  RPCRDMA_ASSERT(index < counts_.size(), "no such Write chunk");
  std::size_t first = 0;
  for (std::size_t i = 0; i < index; ++i) first += counts_[i];
  return segments_.view().subspan(first, counts_[index]);
}

bool WriteList::push_back(std::span<const Segment> chunk) noexcept {
  // With this bound on each chunk, the flat array has room whenever there is room for a count.
  if (chunk.size() > kSegmentsPerChunkMax) return false;
  if (!counts_.push_back(static_cast<std::uint32_t>(chunk.size()))) return false;
  for (const Segment& segment : chunk) {
    const bool taken = segments_.push_back(segment);
    RPCRDMA_ASSERT(taken, "Write list has room for its counts but not for its segments");
  }
  return true;
}

void WriteList::clear() noexcept {
  counts_.clear();
  segments_.clear();
}

bool WriteList::operator==(const WriteList& other) const noexcept {
  return std::ranges::equal(counts_, other.counts_) &&
         std::ranges::equal(segments_, other.segments_);
}

void ChunkLists::clear() noexcept {
  reads.clear();
  writes.clear();
  has_reply = false;
  reply.clear();
}

bool ChunkLists::operator==(const ChunkLists& other) const noexcept {
  return std::ranges::equal(reads, other.reads) && writes == other.writes &&
         has_reply == other.has_reply && (!has_reply || std::ranges::equal(reply, other.reply));
}

}  // namespace rpcrdma::wire
