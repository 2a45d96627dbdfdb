// A CLIENT of libtirpc whose calls go over RDMA.
#ifndef RPCRDMA_ADAPTERS_TIRPC_CLIENT_H_
#define RPCRDMA_ADAPTERS_TIRPC_CLIENT_H_

#include <rpc/rpc.h>
#include <sys/time.h>

#include <chrono>
#include <string>
#include <utility>

#include "border.h"
#include "errors.h"

namespace rpcrdma::tirpc {

// Connects and makes the CLIENT; null: rpc_createerr says why. `server`: rdma://HOST[:PORT], or a
// HOST whose rpcbind is asked.
CLIENT* make_client(const std::string& server, rpcprog_t program, rpcvers_t version,
                    std::chrono::milliseconds timeout);

// Returns what `make` returns, null with an error of its own if an exception ends it.
template <class Make>
CLIENT* make_within_border(Make&& make) {
  CLIENT* made = nullptr;
  if (!comes_to_its_end([&] { made = make(); })) set_create_error(Errc::kNoResources);
  return made;
}

// The time-out of a program that makes a client; `otherwise` where it gives none, or a negative
// one.
std::chrono::milliseconds limit_of(const timeval* timeout,
                                   std::chrono::milliseconds otherwise) noexcept;

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_CLIENT_H_
