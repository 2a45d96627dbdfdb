// Libtirpc's programs in tests share this: one opaque<> as arguments and results, and a loop.
#ifndef RPCRDMA_TESTS_SUPPORT_TIRPC_DATA_H_
#define RPCRDMA_TESTS_SUPPORT_TIRPC_DATA_H_

#include <poll.h>
#include <rpc/rpc.h>

#include <cstddef>
#include <vector>

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

// Serves as a program with a loop of its own does, until `stop` is readable or closed.
inline void serve_until(int stop) {
  for (;;) {
    std::vector<pollfd> fds(svc_pollfd, svc_pollfd + svc_max_pollfd);
    fds.push_back({stop, POLLIN, 0});
    const int ready = ::poll(fds.data(), fds.size(), -1);
    if (ready < 0 || fds.back().revents != 0) return;
    fds.pop_back();
    svc_getreq_poll(fds.data(), ready);
  }
}

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_TIRPC_DATA_H_
