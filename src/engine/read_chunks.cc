#include "engine/read_chunks.h"

#include <utility>

#include "rpcrdma/xdr.h"

namespace rpcrdma::engine {

bool sort_read_chunks(std::span<const wire::ReadSegment> list, const Options& options,
                      ReadChunks& result) {
  auto& segments = result.segments;
  result.chunks.clear();
  if (!segments.assign(list)) return false;
  // Insertion, because it is stable, needs no memory and has nothing to do in an ordered list.
  for (std::size_t i = 1; i < segments.size(); ++i) {
    for (std::size_t j = i; j > 0 && segments[j].position < segments[j - 1].position; --j) {
      std::swap(segments[j], segments[j - 1]);
    }
  }
  for (std::size_t i = 0; i < segments.size();) {
    const std::uint32_t position = segments[i].position;
    if (position % xdr::kWordSize != 0) return false;
    const std::size_t first = i;
    std::uint64_t size = 0;
    for (; i < segments.size() && segments[i].position == position; ++i) {
      size += segments[i].target.length;
    }
    const std::uint64_t size_max =
        position == 0 ? options.long_call_size_max : options.read_chunk_size_max;
    if (size > size_max) return false;
    if (!result.chunks.push_back({position,
                                  static_cast<std::uint32_t>(size),
                                  static_cast<std::uint16_t>(first),
                                  static_cast<std::uint16_t>(i - first),
                                  {}})) {
      return false;
    }
  }
  return true;
}

bool positions_fit(const ReadChunks& reads, std::uint64_t inline_size) {
  const std::uint64_t stream_size = reads.has_position_zero() ? reads.chunks[0].size : inline_size;
  std::uint64_t chunk_bytes = 0;  // in chunks so far, padded
  std::uint64_t end = 0;          // of the chunk before, in the unreduced stream
  for (const ReadChunk& chunk : reads.chunks) {
    if (chunk.position == 0) continue;
    if (chunk.position < end || chunk.position - chunk_bytes > stream_size) return false;
    chunk_bytes += xdr::padded(chunk.size);
    end = chunk.position + xdr::padded(chunk.size);
  }
  return true;
}

}  // namespace rpcrdma::engine
