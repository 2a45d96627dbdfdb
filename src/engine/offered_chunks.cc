#include "engine/offered_chunks.h"

#include <algorithm>
#include <utility>

#include "rpcrdma/xdr.h"

namespace rpcrdma::engine {

void OfferedChunks::clear() noexcept {
  reads_.clear();
  chunks_.clear();
  writes_.clear();
  has_reply_chunk_ = false;
  reply_chunk_.clear();
}

bool OfferedChunks::take(const wire::ChunkLists& lists, const Options& options) {
  writes_ = lists.writes;
  has_reply_chunk_ = lists.has_reply;
  if (!reply_chunk_.assign(lists.reply.view()) || !reads_.assign(lists.reads.view())) return false;
  // Insertion, because it is stable, needs no memory and has nothing to do in an ordered list.
  for (std::size_t i = 1; i < reads_.size(); ++i) {
    for (std::size_t j = i; j > 0 && reads_[j].position < reads_[j - 1].position; --j) {
      std::swap(reads_[j], reads_[j - 1]);
    }
  }
  return cut_into_chunks(options);
}

bool OfferedChunks::cut_into_chunks(const Options& options) {
  for (std::size_t i = 0; i < reads_.size();) {
    const std::uint32_t position = reads_[i].position;
    if (position % xdr::kWordSize != 0) return false;
    const std::size_t first = i;
    std::uint64_t size = 0;
    for (; i < reads_.size() && reads_[i].position == position; ++i) {
      size += reads_[i].target.length;
    }
    const std::uint64_t size_max =
        position == 0 ? options.long_call_size_max : options.read_chunk_size_max;
    if (size > size_max) return false;
    if (!chunks_.push_back({position,
                            static_cast<std::uint32_t>(size),
                            static_cast<std::uint16_t>(first),
                            static_cast<std::uint16_t>(i - first),
                            {}})) {
      return false;
    }
  }
  return true;
}

bool OfferedChunks::positions_fit(std::uint64_t inline_size) const noexcept {
  const std::uint64_t stream_size = has_position_zero() ? chunks_[0].size : inline_size;
  std::uint64_t chunk_bytes = 0;  // in chunks so far, padded
  std::uint64_t end = 0;          // of the chunk before, in the unreduced stream
  for (const ReadChunk& chunk : chunks_) {
    if (chunk.position == 0) continue;
    if (chunk.position < end || chunk.position - chunk_bytes > stream_size) return false;
    chunk_bytes += xdr::padded(chunk.size);
    end = chunk.position + xdr::padded(chunk.size);
  }
  return true;
}

std::optional<SteeringTag> OfferedChunks::only_handle() const noexcept {
  std::optional<SteeringTag> handle;
  bool is_single = true;
  const auto see = [&](const wire::Segment& segment) {
    if (handle && *handle != segment.handle) is_single = false;
    handle = segment.handle;
  };
  for (const wire::ReadSegment& read : reads_) see(read.target);
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    for (const wire::Segment& segment : writes_.chunk(i)) see(segment);
  }
  for (const wire::Segment& segment : reply_chunk_) see(segment);
  return is_single ? handle : std::nullopt;
}

std::uint64_t OfferedChunks::digest() const noexcept {
  std::uint64_t digest = 0;
  const auto add = [&digest](std::uint64_t value) {
    digest = (digest ^ value) * 0x9e3779b97f4a7c15U;
    digest ^= digest >> 32U;
  };
  for (const wire::ReadSegment& read : reads_) {
    add(std::uint64_t{read.position} << 32U | read.target.length);
  }
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    add(i);
    for (const wire::Segment& segment : writes_.chunk(i)) add(segment.length);
  }
  if (has_reply_chunk_) add(wire::kWriteChunksMax);
  for (const wire::Segment& segment : reply_chunk_) add(segment.length);
  return digest;
}

}  // namespace rpcrdma::engine
