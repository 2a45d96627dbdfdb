// A SVCXPRT with everything that libtirpc keeps in one, but for its operations.
#ifndef RPCRDMA_ADAPTERS_TIRPC_TRANSPORT_H_
#define RPCRDMA_ADAPTERS_TIRPC_TRANSPORT_H_

#include <rpc/rpc.h>
// Behind rpc.h, which it needs.
#include <rpc/svc_mt.h>

#include <array>

#include "socket_address.h"

namespace rpcrdma::tirpc {

// SVCXPRT has members of these names as well.
using TransportOperations = struct SVCXPRT::xp_ops;
using TransportControl = struct SVCXPRT::xp_ops2;

class Transport {
 public:
  // `owner` is what of() finds.
  explicit Transport(void* owner) noexcept;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  // Unregisters, closes the descriptor and frees what libtirpc allocated.
  ~Transport();

  // Gives it its descriptor, which it owns from now on, and registers it.
  void begin(int descriptor, const TransportOperations& operations,
             const TransportControl& control);
  void set_local(const SocketAddress& address);
  void set_remote(const SocketAddress& address);

  SVCXPRT& handle() noexcept { return handle_; }
  SVCAUTH& auth() noexcept { return extension_.xp_auth; }
  int descriptor() const noexcept { return handle_.xp_fd; }

  // Returns the owner of a handle.
  template <class Owner>
  static Owner& of(SVCXPRT* handle) noexcept {
    return *static_cast<Owner*>(handle->xp_p1);
  }

 private:
  SVCXPRT handle_{};
  SVCXPRT_EXT extension_{};
  std::array<char, MAX_AUTH_BYTES> verifier_{};
};

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_TRANSPORT_H_
