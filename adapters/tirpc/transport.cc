#include "transport.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace rpcrdma::tirpc {

Transport::Transport(void* owner) noexcept {
  handle_.xp_fd = RPC_ANYFD;
  handle_.xp_p1 = owner;
  handle_.xp_p3 = &extension_;
  handle_.xp_verf = _null_auth;
  handle_.xp_verf.oa_base = verifier_.data();
  set_local(SocketAddress());
  set_remote(SocketAddress());
}

Transport::~Transport() {
  if (handle_.xp_fd != RPC_ANYFD) {
    xprt_unregister(&handle_);
    ::close(handle_.xp_fd);
  }
  // A security context of RPCSEC_GSS lives as long as its connection.
  if (auth().svc_ah_ops != nullptr && auth().svc_ah_private != nullptr) SVCAUTH_DESTROY(&auth());
  std::free(handle_.xp_ltaddr.buf);
  std::free(handle_.xp_rtaddr.buf);
  std::free(handle_.xp_tp);
  std::free(handle_.xp_netid);
}

void Transport::begin(int descriptor, const TransportOperations& operations,
                      const TransportControl& control) {
  handle_.xp_fd = descriptor;
  handle_.xp_ops = &operations;
  handle_.xp_ops2 = &control;
  xprt_register(&handle_);
}

void Transport::set_local(const SocketAddress& address) {
  std::free(handle_.xp_ltaddr.buf);
  handle_.xp_ltaddr = address.copy();
  std::free(handle_.xp_netid);
  handle_.xp_netid = ::strdup(handle_.xp_ltaddr.len == sizeof(sockaddr_in6) ? "rdma6" : "rdma");
}

void Transport::set_remote(const SocketAddress& address) {
  std::free(handle_.xp_rtaddr.buf);
  handle_.xp_rtaddr = address.copy();
  address.write_to(handle_.xp_raddr, handle_.xp_addrlen);
}

}  // namespace rpcrdma::tirpc
