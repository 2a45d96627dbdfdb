// A message's runs, and the sizes of what a header says of them: what the planners share.
#ifndef RPCRDMA_ENGINE_STREAM_PARTS_H_
#define RPCRDMA_ENGINE_STREAM_PARTS_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "base/bounded_vector.h"
#include "engine/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::engine {

inline std::uint64_t stream_size(std::span<const Fragment> stream) {
  std::uint64_t size = 0;
  for (const Fragment& run : stream) size += run.size;
  return size;
}

// Bytes of the item that starts at stream[first], and the index behind it.
struct ItemExtent {
  std::uint64_t size;
  std::size_t end;
};
inline ItemExtent item_extent(std::span<const Fragment> stream, std::size_t first) {
  ItemExtent extent{0, first};
  while (extent.end < stream.size() && stream[extent.end].item == stream[first].item) {
    extent.size += stream[extent.end++].size;
  }
  return extent;
}

// Field by field: a copy of what was just written would wait for the stores.
inline void take_inline(const Fragment& run, Fragment& to) {
  to.memory = run.memory;
  to.size = run.size;
  to.offset = run.offset;
  to.item = 0;
}

// Appends an inline run, joined with the one before when it continues it in memory.
inline bool append_run(BoundedVector<Fragment, kFragmentsMax>& runs, const Fragment& run) {
  if (run.size == 0) return true;
  if (!runs.empty()) {
    Fragment& last = runs.back();
    if (last.memory == run.memory && last.offset + last.size == run.offset) {
      last.size += run.size;
      return true;
    }
  }
  if (runs.full()) return false;
  take_inline(run, runs.extend());
  return true;
}

// Splits a stream into what stays and what leaves. `leaves(item_index, size)` decides per item;
// `take(fragment, position, item_index)` receives the runs of those that leave. Removes the XDR
// padding of an item that leaves (RFC 8166 §3.4.5.2). False when something overflows its bound.
template <class Leaves, class Take>
bool split_stream(std::span<const Fragment> stream, BoundedVector<Fragment, kFragmentsMax>& stays,
                  Leaves leaves, Take take) {
  std::uint64_t position = 0;  // in the unreduced stream
  std::uint32_t pad_to_skip = 0;
  std::uint32_t item_index = 0;
  for (std::size_t i = 0; i < stream.size();) {
    if (stream[i].item == 0) {
      Fragment run = stream[i];
      const std::uint32_t skipped = std::min(pad_to_skip, run.size);
      run.offset += skipped;
      run.size -= skipped;
      pad_to_skip -= skipped;
      position += stream[i].size;
      if (!append_run(stays, run)) return false;
      ++i;
      continue;
    }
    RPCRDMA_ASSERT(pad_to_skip == 0, "an item's padding must follow it in an inline run");
    const ItemExtent extent = item_extent(stream, i);
    const bool leaving = leaves(item_index, extent.size);
    const std::uint64_t start = position;
    for (; i < extent.end; ++i) {
      position += stream[i].size;
      if (leaving ? !take(stream[i], start, item_index) : !append_run(stays, stream[i]))
        return false;
    }
    if (leaving) pad_to_skip = static_cast<std::uint32_t>(xdr::pad_size(extent.size));
    ++item_index;
  }
  RPCRDMA_ASSERT(pad_to_skip == 0, "an item's padding is missing at the end of the stream");
  return true;
}

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_STREAM_PARTS_H_
