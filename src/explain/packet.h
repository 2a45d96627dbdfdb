// Link, network and transport headers of a captured packet: from its first byte to the payload of
// TCP or UDP.
#ifndef RPCRDMA_EXPLAIN_PACKET_H_
#define RPCRDMA_EXPLAIN_PACKET_H_

#include <cstdint>

#include "explain/facts.h"
#include "rpcrdma/types.h"

namespace rpcrdma::explain {

// Numbers of tcpdump.org's registry of link types.
enum class LinkType : std::uint32_t {
  kNull = 0,
  kEthernet = 1,
  kRawBsd = 12,
  kRaw = 101,
  kLoop = 108,
  kLinuxCooked = 113,
  kLinuxCooked2 = 276,
};
bool is_known(LinkType type) noexcept;

struct Packet {
  Where where;
  LinkType link = LinkType::kEthernet;
  Bytes data;              // as captured
  std::uint32_t size = 0;  // on the wire, bytes
};

enum class Protocol : std::uint8_t {
  kNone,      // something else, or too short to say
  kFragment,  // a part of an IP datagram; its bytes count as missing
  kTcp,
  kUdp,
};

struct TcpFlags {
  bool syn = false, ack = false, fin = false, rst = false;
};

struct Segment {
  Protocol protocol = Protocol::kNone;
  Where where;
  Endpoint from, to;
  Bytes payload;           // captured bytes of it
  std::uint32_t size = 0;  // of the payload on the wire; more than captured after a cut
  Bytes ip;                // the datagram from its IP header on, as captured
  std::uint32_t sequence = 0, acknowledged = 0;  // TCP
  TcpFlags flags;
};

// Returns the segment in a packet; kNone for everything that is no TCP or UDP over IP. Checks no
// checksum: a machine that leaves them to its network card captures wrong ones.
Segment parse_packet(const Packet& packet) noexcept;

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_PACKET_H_
