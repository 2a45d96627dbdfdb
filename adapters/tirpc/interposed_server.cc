// libtirpc's functions that make transports and register programs: see interposed_client.cc.
#include <fmt/core.h>
#include <netinet/in.h>
#include <rpc/rpc.h>
#include <rpc/svc_soc.h>

#include <set>
#include <string>
#include <utility>

#include "border.h"
#include "libtirpc.h"
#include "netids.h"
#include "places.h"
#include "rpcrdma-tirpc.h"
#include "server.h"
#include "settings.h"
#include "socket_address.h"

namespace rpcrdma::tirpc {
namespace {

using Dispatch = void (*)(svc_req*, SVCXPRT*);

bool is_ours(SVCXPRT* transport) noexcept {
  RdmaServer* const server = RdmaServer::current();
  return server != nullptr && transport == &server->rendezvous();
}

bool register_everywhere(rpcprog_t program, rpcvers_t version) {
  return register_program(program, version, RdmaServer::current()->addresses());
}

// The programs that this machine's rpcbind got to know with a transport of libtirpc. They register
// each version once for each transport.
std::set<std::pair<rpcprog_t, rpcvers_t>>& known_programs() {
  static auto& known = *new std::set<std::pair<rpcprog_t, rpcvers_t>>;
  return known;
}

void unregister(rpcprog_t program, rpcvers_t version) {
  known_programs().erase({program, version});
  unregister_program(program, version);
}

// Makes a program that was registered with a transport of libtirpc reachable over RDMA as well.
// Its dispatch function is found by program and version alone. `with_rpcbind`: it has asked for
// that.
bool serve_over_rdma(rpcprog_t program, rpcvers_t version, bool with_rpcbind) {
  auto& known = known_programs();
  static bool has_failed = false;
  if (has_failed) return false;
  if (RdmaServer::current() == nullptr) {
    if (const auto server = RdmaServer::listen(settings().listen); !server) {
      has_failed = true;
      report(fmt::format("{}; the programs of this process are not served over RDMA",
                         server.error().message()));
      return false;
    }
    known.clear();  // they were at another server's addresses
  }
  if (with_rpcbind && known.emplace(program, version).second) {
    (void)register_everywhere(program, version);  // which says what is wrong; clients may know
  }
  return true;
}

// Returns whether this transport of libtirpc is one that a Mode moves.
bool is_of_network(const SVCXPRT& transport) noexcept {
  if (transport.xp_netid != nullptr) return is_movable(transport.xp_netid);
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(transport.xp_fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return false;
  }
  return address.ss_family == AF_INET || address.ss_family == AF_INET6;
}

bool is_moved(const SVCXPRT& transport) {
  return settings().mode != Mode::kNamed && is_of_network(transport);
}

// Registers a program with libtirpc by `next`, which takes whether rpcbind shall know it.
template <class Next>
bool_t register_both(SVCXPRT& transport, rpcprog_t program, rpcvers_t version, bool with_rpcbind,
                     Next next) {
  const bool moves = is_moved(transport);
  const bool is_only = moves && settings().mode == Mode::kRdmaOnly;
  if (!next(with_rpcbind && !is_only)) return FALSE;
  if (!moves) return TRUE;
  const bool is_served = serve_over_rdma(program, version, with_rpcbind);
  return is_served || !is_only ? TRUE : FALSE;
}

// Leaves a program of libntirpc's alone, and says so if it is to be moved.
bool is_left_alone() {
  if (!has_ntirpc()) return false;
  if (settings().mode != Mode::kNamed && may_report(Topic::kOtherLibrary)) {
    report(
        "this program uses libntirpc, which is not libtirpc: it stays with the transports that it "
        "has. nfs-ganesha has RDMA of its own, for devices");
  }
  return true;
}

std::string url_of(const t_bind* address) {
  if (address == nullptr || address->addr.len == 0) return settings().listen;
  const SocketAddress socket(address->addr);
  return fmt::format("rdma://{}:{}", host_of(address->addr), socket.port());
}

}  // namespace

extern "C" {

RPCRDMA_TIRPC_EXPORT bool_t svc_reg(SVCXPRT* transport, const rpcprog_t program,
                                    const rpcvers_t version, Dispatch dispatch,
                                    const netconfig* entry) {
  const auto next = [&](const netconfig* with) {
    return RPCRDMA_LIBTIRPC(svc_reg)(transport, program, version, dispatch, with);
  };
  return within_border<bool_t>(FALSE, [&]() -> bool_t {
    if (is_left_alone()) return next(entry);
    if (is_ours(transport)) {
      if (!next(nullptr)) return FALSE;
      return entry == nullptr || register_everywhere(program, version) ? TRUE : FALSE;
    }
    return register_both(*transport, program, version, entry != nullptr,
                         [&](bool with_rpcbind) { return next(with_rpcbind ? entry : nullptr); });
  });
}

RPCRDMA_TIRPC_EXPORT bool_t svc_register(SVCXPRT* transport, u_long program, u_long version,
                                         Dispatch dispatch, int protocol) {
  const auto next = [&](int with) {
    return RPCRDMA_LIBTIRPC(svc_register)(transport, program, version, dispatch, with);
  };
  const auto narrow_program = static_cast<rpcprog_t>(program);
  const auto narrow_version = static_cast<rpcvers_t>(version);
  return within_border<bool_t>(FALSE, [&]() -> bool_t {
    if (is_ours(transport)) {
      if (!next(0)) return FALSE;
      return protocol == 0 || register_everywhere(narrow_program, narrow_version) ? TRUE : FALSE;
    }
    return register_both(*transport, narrow_program, narrow_version, protocol != 0,
                         [&](bool with_rpcbind) { return next(with_rpcbind ? protocol : 0); });
  });
}

RPCRDMA_TIRPC_EXPORT void svc_unreg(const rpcprog_t program, const rpcvers_t version) {
  if (!has_ntirpc()) (void)comes_to_its_end([&] { unregister(program, version); });
  RPCRDMA_LIBTIRPC(svc_unreg)(program, version);
}

RPCRDMA_TIRPC_EXPORT void svc_unregister(u_long program, u_long version) {
  (void)comes_to_its_end(
      [&] { unregister(static_cast<rpcprog_t>(program), static_cast<rpcvers_t>(version)); });
  RPCRDMA_LIBTIRPC(svc_unregister)(program, version);
}

RPCRDMA_TIRPC_EXPORT SVCXPRT* svc_tli_create(const int descriptor, const netconfig* entry,
                                             const t_bind* address, const u_int send_size,
                                             const u_int receive_size) {
  if (entry != nullptr && is_rdma(entry->nc_netid)) {
    return within_border<SVCXPRT*>(nullptr,
                                   [&] { return svc_rdma_create(url_of(address).c_str()); });
  }
  return RPCRDMA_LIBTIRPC(svc_tli_create)(descriptor, entry, address, send_size, receive_size);
}

RPCRDMA_TIRPC_EXPORT int svc_create(Dispatch dispatch, const rpcprog_t program,
                                    const rpcvers_t version, const char* nettype) {
  if (!is_rdma(nettype)) {
    return RPCRDMA_LIBTIRPC(svc_create)(dispatch, program, version, nettype);
  }
  netconfig* const entry = getnetconfigent(nettype);
  SVCXPRT* const transport = entry != nullptr ? svc_rdma_create(nullptr) : nullptr;
  const bool is_registered =
      transport != nullptr && svc_reg(transport, program, version, dispatch, entry) == TRUE;
  if (entry != nullptr) freenetconfigent(entry);
  return is_registered ? 1 : 0;  // as many transports have it
}

}  // extern "C"

}  // namespace rpcrdma::tirpc
