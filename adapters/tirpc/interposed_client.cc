// libtirpc's functions that make clients, and those of netconfig: they bind here first, and go on
// to libtirpc's for everything that is not of RDMA.
#include <fmt/core.h>
#include <rpc/rpc.h>
#include <rpc/rpc_com.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "client.h"
#include "libtirpc.h"
#include "netids.h"
#include "rpcrdma/error.h"
#include "settings.h"
#include "socket_address.h"

namespace rpcrdma::tirpc {
namespace {

constexpr std::chrono::milliseconds kConnectTimeout{10'000};
// An attempt whose failure leads to TCP takes no longer.
constexpr std::chrono::milliseconds kAttemptTimeout{3'000};

// libtirpc's functions call each other by their names: one attempt is enough.
thread_local bool is_passing_on = false;
class PassingOn {
 public:
  PassingOn() noexcept { is_passing_on = true; }
  ~PassingOn() { is_passing_on = was_; }
  PassingOn(const PassingOn&) = delete;
  PassingOn& operator=(const PassingOn&) = delete;

 private:
  const bool was_ = is_passing_on;
};

// Says what a program that asks for another transport gets.
enum class Way : std::uint8_t { kAsAsked, kRdmaFirst, kRdmaOnly };
Way way_of(rpcprog_t program, const char* netid) noexcept {
  // rpcbind itself is asked over TCP and UDP.
  if (is_passing_on || program == RPCBPROG || !is_movable(netid)) return Way::kAsAsked;
  switch (settings().mode) {
    case Mode::kNamed:
      break;
    case Mode::kPreferRdma:
      return Way::kRdmaFirst;
    case Mode::kRdmaOnly:
      return Way::kRdmaOnly;
  }
  return Way::kAsAsked;
}

// Makes the client over RDMA if that is its way; else, or where there is none, by `next`.
template <class Next>
CLIENT* make(Way way, const std::string& host, rpcprog_t program, rpcvers_t version,
             const timeval* timeout, Next next) {
  if (way != Way::kAsAsked && !host.empty()) {
    const bool is_only = way == Way::kRdmaOnly;
    const auto limit = limit_of(timeout, is_only ? kConnectTimeout : kAttemptTimeout);
    CLIENT* const made =
        make_client(host, program, version, is_only ? limit : std::min(limit, kAttemptTimeout));
    if (made != nullptr || is_only) return made;
  }
  const PassingOn passing_on;
  return next();
}

std::string url_of(const netbuf& address) {
  const SocketAddress socket(address);
  return fmt::format("rdma://{}:{}", host_of(address), socket.port());
}

// As clntudp_create() and its like have the server's address.
std::string host_of_socket(const sockaddr_in* address) {
  if (address == nullptr) return {};
  sockaddr_in copied = *address;
  return host_of(netbuf{sizeof(copied), sizeof(copied), &copied});
}

// Gives the descriptor to programs that asked for one.
CLIENT* with_descriptor(CLIENT* client, int* descriptor) {
  if (client != nullptr && *descriptor == RPC_ANYSOCK && is_rdma(client->cl_netid)) {
    clnt_control(client, CLGET_FD, descriptor);
  }
  return client;
}

// A socket of the program's own is not replaced.
Way way_of_socket(rpcprog_t program, const char* netid, int descriptor) noexcept {
  return descriptor == RPC_ANYSOCK ? way_of(program, netid) : Way::kAsAsked;
}

}  // namespace

extern "C" {

// --- netconfig

RPCRDMA_TIRPC_EXPORT netconfig* getnetconfigent(const char* netid) {
  return is_rdma(netid) ? make_netconfig(netid) : RPCRDMA_LIBTIRPC(getnetconfigent)(netid);
}

RPCRDMA_TIRPC_EXPORT void freenetconfigent(netconfig* entry) {
  if (!free_netconfig(entry)) RPCRDMA_LIBTIRPC(freenetconfigent)(entry);
}

RPCRDMA_TIRPC_EXPORT int __rpc_nconf2sockinfo(const netconfig* entry, __rpc_sockinfo* info) {
  return describe(*entry, *info) ? 1 : RPCRDMA_LIBTIRPC(__rpc_nconf2sockinfo)(entry, info);
}

// --- Clients

RPCRDMA_TIRPC_EXPORT CLIENT* clnt_create_timed(const char* host, const rpcprog_t program,
                                               const rpcvers_t version, const char* nettype,
                                               const timeval* timeout) {
  if (host != nullptr && is_rdma(nettype)) {
    return make_client(host, program, version, limit_of(timeout, kConnectTimeout));
  }
  return RPCRDMA_LIBTIRPC(clnt_create_timed)(host, program, version, nettype, timeout);
}

// Libraries from before clnt_create_timed() was one of them would not call it.
RPCRDMA_TIRPC_EXPORT CLIENT* clnt_create(const char* host, const rpcprog_t program,
                                         const rpcvers_t version, const char* nettype) {
  return clnt_create_timed(host, program, version, nettype, nullptr);
}

RPCRDMA_TIRPC_EXPORT CLIENT* clnt_tp_create_timed(const char* host, const rpcprog_t program,
                                                  const rpcvers_t version, const netconfig* entry,
                                                  const timeval* timeout) {
  const char* const netid = entry != nullptr ? entry->nc_netid : nullptr;
  const Way way = is_rdma(netid) ? Way::kRdmaOnly : way_of(program, netid);
  return make(way, host != nullptr ? host : "", program, version, timeout, [&] {
    return RPCRDMA_LIBTIRPC(clnt_tp_create_timed)(host, program, version, entry, timeout);
  });
}

RPCRDMA_TIRPC_EXPORT CLIENT* clnt_tp_create(const char* host, const rpcprog_t program,
                                            const rpcvers_t version, const netconfig* entry) {
  return clnt_tp_create_timed(host, program, version, entry, nullptr);
}

RPCRDMA_TIRPC_EXPORT CLIENT* clnt_tli_create(const int descriptor, const netconfig* entry,
                                             netbuf* address, const rpcprog_t program,
                                             const rpcvers_t version, const u_int send_size,
                                             const u_int receive_size) {
  const char* const netid = entry != nullptr ? entry->nc_netid : nullptr;
  if (address != nullptr && is_rdma(netid)) {
    return make_client(url_of(*address), program, version, kConnectTimeout);
  }
  return make(way_of_socket(program, netid, descriptor),
              address != nullptr ? host_of(*address) : std::string(), program, version, nullptr,
              [&] {
                return RPCRDMA_LIBTIRPC(clnt_tli_create)(descriptor, entry, address, program,
                                                         version, send_size, receive_size);
              });
}

RPCRDMA_TIRPC_EXPORT CLIENT* clnttcp_create(sockaddr_in* address, u_long program, u_long version,
                                            int* descriptor, u_int send_size, u_int receive_size) {
  return with_descriptor(make(way_of_socket(static_cast<rpcprog_t>(program), "tcp", *descriptor),
                              host_of_socket(address), static_cast<rpcprog_t>(program),
                              static_cast<rpcvers_t>(version), nullptr,
                              [&] {
                                return RPCRDMA_LIBTIRPC(clnttcp_create)(
                                    address, program, version, descriptor, send_size, receive_size);
                              }),
                         descriptor);
}

RPCRDMA_TIRPC_EXPORT CLIENT* clntudp_bufcreate(sockaddr_in* address, u_long program, u_long version,
                                               timeval wait, int* descriptor, u_int send_size,
                                               u_int receive_size) {
  return with_descriptor(make(way_of_socket(static_cast<rpcprog_t>(program), "udp", *descriptor),
                              host_of_socket(address), static_cast<rpcprog_t>(program),
                              static_cast<rpcvers_t>(version), nullptr,
                              [&] {
                                return RPCRDMA_LIBTIRPC(clntudp_bufcreate)(
                                    address, program, version, wait, descriptor, send_size,
                                    receive_size);
                              }),
                         descriptor);
}

RPCRDMA_TIRPC_EXPORT CLIENT* clntudp_create(sockaddr_in* address, u_long program, u_long version,
                                            timeval wait, int* descriptor) {
  return clntudp_bufcreate(address, program, version, wait, descriptor, UDPMSGSIZE, UDPMSGSIZE);
}

// --- Broadcast, which RDMA has not

RPCRDMA_TIRPC_EXPORT clnt_stat rpc_broadcast_exp(const rpcprog_t program, const rpcvers_t version,
                                                 const rpcproc_t procedure, const xdrproc_t encode,
                                                 caddr_t arguments, const xdrproc_t decode,
                                                 caddr_t results, const resultproc_t each,
                                                 const int first_wait, const int wait,
                                                 const char* nettype) {
  if (settings().mode == Mode::kRdmaOnly) {
    report(
        fmt::format("a broadcast to program {} was not sent: there is none over RDMA; without "
                    "--rdma-only it goes over UDP",
                    program));
    return RPC_UNKNOWNPROTO;
  }
  return RPCRDMA_LIBTIRPC(rpc_broadcast_exp)(program, version, procedure, encode, arguments, decode,
                                             results, each, first_wait, wait, nettype);
}

}  // extern "C"

}  // namespace rpcrdma::tirpc
