// The functions of rpcrdma-tirpc.h.
#include <fmt/core.h>

#include <chrono>

#include "client.h"
#include "libtirpc.h"
#include "rpcrdma-tirpc.h"
#include "server.h"
#include "settings.h"

namespace rpcrdma::tirpc {
namespace {

constexpr std::chrono::milliseconds kConnectTimeout{10'000};

}  // namespace

extern "C" {

RPCRDMA_TIRPC_EXPORT CLIENT* clnt_rdma_create(const char* server, rpcprog_t prog, rpcvers_t vers,
                                              const timeval* timeout) {
  const auto limit = timeout == nullptr ? kConnectTimeout
                                        : std::chrono::seconds(timeout->tv_sec) +
                                              std::chrono::milliseconds(timeout->tv_usec / 1000);
  return make_client(server, prog, vers, limit);
}

RPCRDMA_TIRPC_EXPORT SVCXPRT* svc_rdma_create(const char* address) {
  const auto server = RdmaServer::listen(address != nullptr ? address : settings().listen);
  if (!server) {
    report(server.error().message());
    return nullptr;
  }
  return &(*server)->rendezvous();
}

}  // extern "C"

}  // namespace rpcrdma::tirpc
