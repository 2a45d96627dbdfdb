#include "wire/chunk_lists.h"

#include <algorithm>

namespace rpcrdma::wire {

bool WriteList::push_back(std::span<const Segment> chunk) noexcept {
  if (chunk.size() > kSegmentsPerChunkMax || !begin_chunk()) return false;
  for (const Segment& segment : chunk) (void)add(segment);  // its number was checked
  return true;
}

bool WriteList::operator==(const WriteList& other) const noexcept {
  return std::ranges::equal(counts_, other.counts_) &&
         std::ranges::equal(segments_, other.segments_);
}

bool ChunkLists::operator==(const ChunkLists& other) const noexcept {
  return std::ranges::equal(reads, other.reads) && writes == other.writes &&
         has_reply == other.has_reply && (!has_reply || std::ranges::equal(reply, other.reply));
}

}  // namespace rpcrdma::wire
