// libtirpc's functions that make clients, and those of netconfig: they bind here first, and go on
// to libtirpc's for everything that is not of RDMA.
#include <fmt/core.h>
#include <rpc/rpc.h>
#include <rpc/rpc_com.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "border.h"
#include "client.h"
#include "libtirpc.h"
#include "netids.h"
#include "places.h"
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
Way way_of(rpcprog_t program, const char* netid) {
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

// The server that a program asks for.
struct Target {
  std::string host;        // empty: it names none
  std::uint16_t port = 0;  // 0: rpcbind is to be asked
};

// Returns the server for make_client(), empty if the program is not over RDMA where it was asked
// for. A port that a program names is that of one server, perhaps not the one that rpcbind knows;
// and most are of TCP, so that nobody is connected to before rpcbind has said that it is RDMA's.
std::string server_of(const Target& target, bool is_only, rpcprog_t program, rpcvers_t version,
                      std::chrono::milliseconds limit) {
  if (target.port == 0) return target.host;
  std::string url = fmt::format("rdma://{}:{}", target.host, target.port);
  if (is_only) return url;
  const auto known = url_of_program(target.host, program, version, limit);
  return known && known->ends_with(fmt::format(":{}", target.port)) ? url : std::string();
}

// Makes the client over RDMA if that is its way; else, or where there is none, by `next`.
template <class Next>
CLIENT* make(Way way, const Target& target, rpcprog_t program, rpcvers_t version,
             const timeval* timeout, Next next) {
  if (way != Way::kAsAsked && !target.host.empty()) {
    const bool is_only = way == Way::kRdmaOnly;
    const auto wanted = limit_of(timeout, is_only ? kConnectTimeout : kAttemptTimeout);
    const auto limit = is_only ? wanted : std::min(wanted, kAttemptTimeout);
    const std::string server = server_of(target, is_only, program, version, limit);
    CLIENT* const made = server.empty() ? nullptr : make_client(server, program, version, limit);
    if (made != nullptr || is_only) return made;
  }
  const PassingOn passing_on;
  return next();
}

std::string url_of(const netbuf& address) {
  const SocketAddress socket(address);
  return fmt::format("rdma://{}:{}", host_of(address), socket.port());
}

Target target_of(const netbuf* address) {
  if (address == nullptr) return {};
  return {host_of(*address), SocketAddress(*address).port()};
}
// As clntudp_create() and its like have the server's address.
Target target_of_socket(const sockaddr_in* address) {
  if (address == nullptr) return {};
  sockaddr_in copied = *address;
  const netbuf view{sizeof(copied), sizeof(copied), &copied};
  return target_of(&view);
}

// A socket of the program's own is not replaced.
Way way_of_socket(rpcprog_t program, const char* netid, int descriptor) {
  return descriptor == RPC_ANYSOCK ? way_of(program, netid) : Way::kAsAsked;
}

// For the functions from before netids. Gives the descriptor to programs that asked for one.
template <class Next>
CLIENT* make_with_descriptor(const char* netid, const sockaddr_in* address, u_long program,
                             u_long version, int* descriptor, Next next) {
  return make_within_border([&] {
    const auto narrow = static_cast<rpcprog_t>(program);
    CLIENT* const client =
        make(way_of_socket(narrow, netid, *descriptor), target_of_socket(address), narrow,
             static_cast<rpcvers_t>(version), nullptr, next);
    if (client != nullptr && *descriptor == RPC_ANYSOCK && is_rdma(client->cl_netid)) {
      clnt_control(client, CLGET_FD, descriptor);
    }
    return client;
  });
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
    return make_within_border(
        [&] { return make_client(host, program, version, limit_of(timeout, kConnectTimeout)); });
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
  return make_within_border([&] {
    const Way way = is_rdma(netid) ? Way::kRdmaOnly : way_of(program, netid);
    return make(way, Target{host != nullptr ? host : ""}, program, version, timeout, [&] {
      return RPCRDMA_LIBTIRPC(clnt_tp_create_timed)(host, program, version, entry, timeout);
    });
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
  return make_within_border([&] {
    if (address != nullptr && is_rdma(netid)) {
      return make_client(url_of(*address), program, version, kConnectTimeout);
    }
    return make(way_of_socket(program, netid, descriptor), target_of(address), program, version,
                nullptr, [&] {
                  return RPCRDMA_LIBTIRPC(clnt_tli_create)(descriptor, entry, address, program,
                                                           version, send_size, receive_size);
                });
  });
}

RPCRDMA_TIRPC_EXPORT CLIENT* clnttcp_create(sockaddr_in* address, u_long program, u_long version,
                                            int* descriptor, u_int send_size, u_int receive_size) {
  return make_with_descriptor("tcp", address, program, version, descriptor, [&] {
    return RPCRDMA_LIBTIRPC(clnttcp_create)(address, program, version, descriptor, send_size,
                                            receive_size);
  });
}

RPCRDMA_TIRPC_EXPORT CLIENT* clntudp_bufcreate(sockaddr_in* address, u_long program, u_long version,
                                               timeval wait, int* descriptor, u_int send_size,
                                               u_int receive_size) {
  return make_with_descriptor("udp", address, program, version, descriptor, [&] {
    return RPCRDMA_LIBTIRPC(clntudp_bufcreate)(address, program, version, wait, descriptor,
                                               send_size, receive_size);
  });
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
  const bool is_refused = within_border(false, [&] {
    if (settings().mode != Mode::kRdmaOnly) return false;
    report(
        fmt::format("a broadcast to program {} was not sent: there is none over RDMA; without "
                    "--rdma-only it goes over UDP",
                    program));
    return true;
  });
  if (is_refused) return RPC_UNKNOWNPROTO;
  return RPCRDMA_LIBTIRPC(rpc_broadcast_exp)(program, version, procedure, encode, arguments, decode,
                                             results, each, first_wait, wait, nettype);
}

}  // extern "C"

}  // namespace rpcrdma::tirpc
