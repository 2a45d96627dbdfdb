// The chunk lists of a Transport header as bytes, which are the same in every version (RFC 8166
// §4.3).
#ifndef RPCRDMA_WIRE_CHUNK_LISTS_CODEC_H_
#define RPCRDMA_WIRE_CHUNK_LISTS_CODEC_H_

#include <cstddef>

#include "rpcrdma/xdr.h"
#include "wire/chunk_lists.h"

namespace rpcrdma::wire {

// Reads the Read list, the Write list and the Reply chunk into `lists`, which are empty before.
// Counts over the limits fail the reader (kOverLimit).
void read_lists(xdr::Reader& reader, const Limits& limits, ChunkLists& lists);
// Bytes that write_lists() writes.
std::size_t lists_size(const ChunkLists& lists) noexcept;
void write_lists(xdr::Writer& writer, const ChunkLists& lists) noexcept;

}  // namespace rpcrdma::wire

#endif  // RPCRDMA_WIRE_CHUNK_LISTS_CODEC_H_
