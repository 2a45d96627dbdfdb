// The terms of an RDMA connection: what its two sides agreed on, for logs and reports.
#ifndef RPCRDMA_TERMS_H_
#define RPCRDMA_TERMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rpcrdma/export.h"

namespace rpcrdma {

// The point of view is that of the side that reports them.
struct ConnectionTerms {
  std::string_view provider;  // "siwarp", "verbs", or an application's own; static text
  // Version of RPC-over-RDMA: 1 or 2. 0: no message has shown it yet.
  std::uint32_t protocol_version = 0;
  // Calls that may be under way: as the server granted last (client), or grants now (server).
  std::uint32_t credits = 0;
  // The inline thresholds (RFC 8166 §3.3.2): the largest message that goes without chunks, bytes.
  std::uint32_t inline_sent = 0, inline_received = 0;
  // Replies invalidate steering tags of the Call (RFC 8166 §4.3, RFC 8797 §4.1). A server of
  // version 2 does not say whether its device can do that: a client shows false, and its counters
  // have how many handles came back so.
  bool remote_invalidation = false;
  // Messages carry the CRC32C of MPA (RFC 5044 §7.1). nullopt: the provider has none, or does not
  // say.
  std::optional<bool> crc{};
  std::uint32_t reads_in_flight_max = 0;  // RDMA Reads of this side at a time: ORD (RFC 6581 §4)
  std::uint32_t reads_served_max = 0;     // RDMA Reads of the peer at a time: IRD
};

// A client's connection, see Client::connection(). The texts are valid until the next call of
// progress().
struct ConnectionInfo {
  std::string_view provider_name;  // "siwarp", "verbs", "tcp", or an application's own
  std::string_view peer_address;
  // The version of RPC-over-RDMA: 1 or 2; 0 without a connection, and over tcp:// and unix://.
  std::uint32_t protocol_version = 0;
  // The version and the credits are those of the last reply. nullopt without a connection, and over
  // tcp:// and unix://, which negotiate nothing.
  std::optional<ConnectionTerms> terms{};
};

// One line: "siwarp, RPC-over-RDMA version 1, 32 credits, inline up to 4096 bytes out and 4096 in,
// remote invalidation, MPA CRC, RDMA Reads at a time: 16 of the peer (IRD), 16 of this side (ORD)".
RPCRDMA_EXPORT std::string to_string(const ConnectionTerms& terms);

}  // namespace rpcrdma

#endif  // RPCRDMA_TERMS_H_
