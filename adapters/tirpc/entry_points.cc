// The functions of rpcrdma-tirpc.h.
#include <fmt/core.h>

#include <chrono>

#include "border.h"
#include "client.h"
#include "errors.h"
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
  if (server == nullptr) {
    set_create_error(Errc::kUnknownHost);
    return nullptr;
  }
  return make_within_border(
      [&] { return make_client(server, prog, vers, limit_of(timeout, kConnectTimeout)); });
}

RPCRDMA_TIRPC_EXPORT SVCXPRT* svc_rdma_create(const char* address) {
  return within_border<SVCXPRT*>(nullptr, [&]() -> SVCXPRT* {
    const auto server = RdmaServer::listen(address != nullptr ? address : settings().listen);
    if (!server) {
      report(server.error().message());
      return nullptr;
    }
    return &(*server)->rendezvous();
  });
}

}  // extern "C"

}  // namespace rpcrdma::tirpc
