// Probes of provider "rpcrdma" for bpftrace, SystemTap and perf, at the life of calls and
// connections: statically defined traces (<sys/sdt.h>). Without a tracer each is one `nop`.
//
// The functions have the names and the arguments of the probes; packaging/bpftrace/ has scripts
// that use them. A build without the header, or with RPCRDMA_PROBES=OFF, has none. Arguments are
// values that the caller has at hand: nothing is computed for a probe.
#ifndef RPCRDMA_BASE_PROBES_H_
#define RPCRDMA_BASE_PROBES_H_

#include <cstdint>
#include <string_view>

#if !defined(RPCRDMA_NO_PROBES) && __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define RPCRDMA_PROBE2(name, a, b) DTRACE_PROBE2(rpcrdma, name, a, b)
#define RPCRDMA_PROBE3(name, a, b, c) DTRACE_PROBE3(rpcrdma, name, a, b, c)
#define RPCRDMA_PROBE4(name, a, b, c, d) DTRACE_PROBE4(rpcrdma, name, a, b, c, d)
#define RPCRDMA_PROBE5(name, a, b, c, d, e) DTRACE_PROBE5(rpcrdma, name, a, b, c, d, e)
#else
#define RPCRDMA_PROBE2(name, a, b) ((void)(a), (void)(b))
#define RPCRDMA_PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#define RPCRDMA_PROBE4(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#define RPCRDMA_PROBE5(name, a, b, c, d, e) ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e))
#endif

namespace rpcrdma::probes {

// --- Calls of a client. `client` and `xid` name one from `prepared` to `ended`; whole messages,
// which are encoded elsewhere, have another XID when they are sent.

inline void client_call_prepared(const void* client, std::uint32_t xid, std::uint32_t program,
                                 std::uint32_t version, std::uint32_t procedure) noexcept {
  RPCRDMA_PROBE5(client_call_prepared, client, xid, program, version, procedure);
}
// The call was handed to the connection, where it may wait for a credit. Comes again when the call
// is made again.
inline void client_call_sent(const void* client, std::uint32_t xid) noexcept {
  RPCRDMA_PROBE2(client_call_sent, client, xid);
}
// The reply has come, or the connection reports why there is none.
inline void client_call_reply(const void* client, std::uint32_t xid) noexcept {
  RPCRDMA_PROBE2(client_call_reply, client, xid);
}
// The application learns of the end next. `is_ok`: 1, or 0 if it is an error.
inline void client_call_ended(const void* client, std::uint32_t xid, std::uint32_t is_ok) noexcept {
  RPCRDMA_PROBE3(client_call_ended, client, xid, is_ok);
}

// --- Calls at a server. `call` and `xid` name one.

// The call was admitted: its header is read, and its caller is known.
inline void server_call_received(const void* call, std::uint32_t xid, std::uint32_t program,
                                 std::uint32_t version, std::uint32_t procedure) noexcept {
  RPCRDMA_PROBE5(server_call_received, call, xid, program, version, procedure);
}
// Its service is called next. Not for calls that are answered from the reply cache.
inline void server_call_executed(const void* call, std::uint32_t xid) noexcept {
  RPCRDMA_PROBE2(server_call_executed, call, xid);
}
// The answer is handed to the connection. `status`: accept_stat (RFC 5531 §9), 0 is success.
inline void server_call_answered(const void* call, std::uint32_t xid,
                                 std::uint32_t status) noexcept {
  RPCRDMA_PROBE3(server_call_answered, call, xid, status);
}

// --- Connections. `peer` and `size` are the text of the peer's address, without a NUL.

inline void server_connection_opened(std::string_view peer) noexcept {
  RPCRDMA_PROBE2(server_connection_opened, peer.data(), peer.size());
}
// The terms that both sides have negotiated are known; over RDMA alone.
inline void server_connection_ready(std::string_view peer) noexcept {
  RPCRDMA_PROBE2(server_connection_ready, peer.data(), peer.size());
}
inline void server_connection_refused(std::string_view peer) noexcept {
  RPCRDMA_PROBE2(server_connection_refused, peer.data(), peer.size());
}
// `is_ok`: 1, or 0 if the connection was lost.
inline void server_connection_ended(std::string_view peer, std::uint64_t calls,
                                    std::uint32_t is_ok) noexcept {
  RPCRDMA_PROBE4(server_connection_ended, peer.data(), peer.size(), calls, is_ok);
}
// A client begins to connect.
inline void client_connection_opened(const void* client, std::string_view peer) noexcept {
  RPCRDMA_PROBE3(client_connection_opened, client, peer.data(), peer.size());
}
inline void client_connection_ready(const void* client, std::string_view peer) noexcept {
  RPCRDMA_PROBE3(client_connection_ready, client, peer.data(), peer.size());
}
// A client that may reconnect has lost its connection, or could not get one.
inline void client_connection_lost(const void* client, std::string_view peer) noexcept {
  RPCRDMA_PROBE3(client_connection_lost, client, peer.data(), peer.size());
}

}  // namespace rpcrdma::probes

#endif  // RPCRDMA_BASE_PROBES_H_
