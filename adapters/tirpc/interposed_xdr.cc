// xdr_bytes() and xdr_string(): on streams of ours they know which data RDMA may place, and where
// it is that was placed; on others they are libtirpc's.
#include <rpc/rpc.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "libtirpc.h"
#include "xdr_streams.h"

namespace rpcrdma::tirpc {
namespace {

// Reads an item into the caller's memory, or into new one, which xdr_free() frees. `spare`: bytes
// behind it, which become zero.
bool_t decode(XdrReader& reader, char** data, u_int* size, u_int size_max, u_int spare) {
  XdrReader::Next next{};
  if (!reader.read_next(next) || next.size > size_max) return FALSE;
  *size = next.size;
  if (next.size + spare == 0) return TRUE;
  if (*data == nullptr && !next.placed.empty() && reader.place() != nullptr) {
    *data = reader.place()->give(next.placed);
    if (*data != nullptr) {
      if (spare > 0) (*data)[next.size] = '\0';
      return TRUE;
    }
  }
  if (*data == nullptr) *data = static_cast<char*>(std::malloc(std::size_t{next.size} + spare));
  if (*data == nullptr) return FALSE;
  if (spare > 0) (*data)[next.size] = '\0';
  if (next.placed.empty()) {
    return reader.read_data(reinterpret_cast<std::byte*>(*data), next.size) ? TRUE : FALSE;
  }
  std::memcpy(*data, next.placed.data(), next.placed.size());
  return TRUE;
}

bool refer(XDR* stream, const char* data, std::size_t size, u_int size_max) {
  XdrWriter* const writer = stream->x_op == XDR_ENCODE ? XdrWriter::of(stream) : nullptr;
  if (writer == nullptr || (data == nullptr && size > 0) || size > size_max) return false;
  return writer->refer_next({reinterpret_cast<const std::byte*>(data), size});
}

}  // namespace

extern "C" {

RPCRDMA_TIRPC_EXPORT bool_t xdr_bytes(XDR* stream, char** data, u_int* size, u_int size_max) {
  if (stream->x_op == XDR_DECODE) {
    if (XdrReader* const reader = XdrReader::of(stream)) {
      return decode(*reader, data, size, size_max, 0);
    }
  } else if (refer(stream, *data, *size, size_max)) {
    return TRUE;
  }
  return RPCRDMA_LIBTIRPC(xdr_bytes)(stream, data, size, size_max);
}

RPCRDMA_TIRPC_EXPORT bool_t xdr_string(XDR* stream, char** text, u_int size_max) {
  if (stream->x_op == XDR_DECODE) {
    u_int size = 0;
    if (XdrReader* const reader = XdrReader::of(stream)) {
      return decode(*reader, text, &size, size_max, 1);
    }
  } else if (*text != nullptr && refer(stream, *text, std::strlen(*text), size_max)) {
    return TRUE;
  }
  return RPCRDMA_LIBTIRPC(xdr_string)(stream, text, size_max);
}

}  // extern "C"

}  // namespace rpcrdma::tirpc
