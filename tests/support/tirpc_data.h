// Arguments and results of libtirpc's programs in tests: one opaque<>.
#ifndef RPCRDMA_TESTS_SUPPORT_TIRPC_DATA_H_
#define RPCRDMA_TESTS_SUPPORT_TIRPC_DATA_H_

#include <rpc/rpc.h>

#include <cstddef>

namespace rpcrdma::test {

inline constexpr u_int kDataMax = 1U << 20U;

struct Data {
  u_int size;
  char* bytes;
};
inline bool_t xdr_data(XDR* stream, Data* data) {
  return xdr_bytes(stream, &data->bytes, &data->size, kDataMax);
}

// Returns a routine as libtirpc takes it, whatever its second argument is.
template <class Function>
xdrproc_t coder(Function* function) {
  return reinterpret_cast<xdrproc_t>(reinterpret_cast<void (*)()>(function));
}

// Returns a text as libtirpc's functions want it, which do not write to it.
template <std::size_t N>
char* text_of(const char (&text)[N]) {
  return const_cast<char*>(text);
}

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_TIRPC_DATA_H_
