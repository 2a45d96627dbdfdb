#include "explain/packet.h"

#include <algorithm>
#include <cstring>

#include "iwarp/byte_order.h"

namespace rpcrdma::explain {
namespace {

using iwarp::load16;
using iwarp::load32;

constexpr unsigned kIpv4 = 0x0800, kIpv6 = 0x86dd;
constexpr unsigned kTcpNumber = 6, kUdpNumber = 17;

unsigned byte_at(Bytes bytes, std::size_t at) noexcept {
  return std::to_integer<unsigned>(bytes[at]);
}

// The network layer of a packet: its type, and its bytes.
struct Network {
  unsigned type = 0;  // kIpv4, kIpv6 or something else
  Bytes bytes;
};

// Skips tags of VLANs (802.1Q, 802.1ad), of which there may be several.
Network behind_type(Bytes frame, std::size_t type_at) noexcept {
  while (frame.size() >= type_at + 2) {
    const unsigned type = load16(frame.data() + type_at);
    if (type != 0x8100 && type != 0x88a8 && type != 0x9100) {
      return {type, frame.subspan(type_at + 2)};
    }
    type_at += 4;
  }
  return {};
}

Network by_version(Bytes bytes) noexcept {
  if (bytes.empty()) return {};
  const unsigned version = byte_at(bytes, 0) >> 4U;
  return {version == 4 ? kIpv4 : version == 6 ? kIpv6 : 0, bytes};
}

Network network_of(const Packet& packet) noexcept {
  const Bytes data = packet.data;
  switch (packet.link) {
    case LinkType::kEthernet:
      return behind_type(data, 12);
    case LinkType::kLinuxCooked:
      return behind_type(data, 14);
    case LinkType::kLinuxCooked2:
      return data.size() < 20 ? Network{} : Network{load16(data.data()), data.subspan(20)};
    case LinkType::kRaw:
    case LinkType::kRawBsd:
      return by_version(data);
    case LinkType::kNull:
    case LinkType::kLoop:  // the address family is in the order of the host, and says no more
      return data.size() < 4 ? Network{} : by_version(data.subspan(4));
  }
  return {};
}

void parse_tcp(Bytes bytes, std::size_t size, Segment& segment) noexcept {
  constexpr std::size_t kHeaderMin = 20;
  if (bytes.size() < kHeaderMin) return;
  const std::byte* at = bytes.data();
  const std::size_t header = std::size_t{byte_at(bytes, 12) >> 4U} * 4;
  if (header < kHeaderMin || header > size) return;
  segment.protocol = Protocol::kTcp;
  segment.from.port = load16(at);
  segment.to.port = load16(at + 2);
  segment.sequence = load32(at + 4);
  segment.acknowledged = load32(at + 8);
  const unsigned flags = byte_at(bytes, 13);
  segment.flags = {(flags & 2U) != 0, (flags & 16U) != 0, (flags & 1U) != 0, (flags & 4U) != 0};
  segment.size = static_cast<std::uint32_t>(size - header);
  segment.payload = bytes.subspan(std::min(header, bytes.size()));
}

void parse_udp(Bytes bytes, std::size_t size, Segment& segment) noexcept {
  constexpr std::size_t kHeader = 8;
  if (bytes.size() < kHeader || size < kHeader) return;
  segment.protocol = Protocol::kUdp;
  segment.from.port = load16(bytes.data());
  segment.to.port = load16(bytes.data() + 2);
  segment.size = static_cast<std::uint32_t>(size - kHeader);
  segment.payload = bytes.subspan(kHeader);
}

// `bytes` are what was captured of the `size` bytes behind the IP header.
void parse_transport(unsigned protocol, Bytes bytes, std::size_t size, Segment& segment) noexcept {
  if (bytes.size() > size) bytes = bytes.first(size);  // Ethernet fills short frames up
  if (protocol == kTcpNumber) parse_tcp(bytes, size, segment);
  if (protocol == kUdpNumber) parse_udp(bytes, size, segment);
}

void parse_ipv4(Bytes bytes, std::size_t size_on_wire, Segment& segment) noexcept {
  constexpr std::size_t kHeaderMin = 20;
  if (bytes.size() < kHeaderMin || byte_at(bytes, 0) >> 4U != 4) return;
  const std::size_t header = std::size_t{byte_at(bytes, 0) & 15U} * 4;
  if (header < kHeaderMin || header > bytes.size()) return;
  std::size_t total = load16(bytes.data() + 2);
  if (total == 0) total = size_on_wire;  // left to the network card, which cuts the datagram
  if (total < header) return;
  std::memcpy(segment.from.address.data(), bytes.data() + 12, 4);
  std::memcpy(segment.to.address.data(), bytes.data() + 16, 4);
  const unsigned fragment = load16(bytes.data() + 6);
  if ((fragment & 0x3fffU) != 0) {
    segment.protocol = Protocol::kFragment;
    return;
  }
  parse_transport(byte_at(bytes, 9), bytes.subspan(header), total - header, segment);
}

void parse_ipv6(Bytes bytes, std::size_t size_on_wire, Segment& segment) noexcept {
  constexpr std::size_t kHeader = 40;
  if (bytes.size() < kHeader || byte_at(bytes, 0) >> 4U != 6) return;
  segment.from.is_v6 = segment.to.is_v6 = true;
  std::memcpy(segment.from.address.data(), bytes.data() + 8, 16);
  std::memcpy(segment.to.address.data(), bytes.data() + 24, 16);
  std::size_t size = load16(bytes.data() + 4);
  if (size == 0) size = size_on_wire - std::min(size_on_wire, kHeader);
  unsigned next = byte_at(bytes, 6);
  Bytes rest = bytes.subspan(kHeader);
  // Hop-by-hop, routing, destination and authentication headers; each has at least eight bytes.
  for (int headers = 0; headers < 8 && rest.size() >= 8; ++headers) {
    if (next == kTcpNumber || next == kUdpNumber) break;
    if (next == 44) {
      segment.protocol = Protocol::kFragment;
      return;
    }
    if (next != 0 && next != 43 && next != 60 && next != 51) return;
    const std::size_t words = byte_at(rest, 1);
    const std::size_t length = next == 51 ? (words + 2) * 4 : (words + 1) * 8;
    if (length > rest.size() || length > size) return;
    next = byte_at(rest, 0);
    rest = rest.subspan(length);
    size -= length;
  }
  parse_transport(next, rest, size, segment);
}

}  // namespace

bool is_known(LinkType type) noexcept {
  switch (type) {
    case LinkType::kNull:
    case LinkType::kEthernet:
    case LinkType::kRawBsd:
    case LinkType::kRaw:
    case LinkType::kLoop:
    case LinkType::kLinuxCooked:
    case LinkType::kLinuxCooked2:
      return true;
  }
  return false;
}

Segment parse_packet(const Packet& packet) noexcept {
  Segment segment;
  segment.where = packet.where;
  const Network network = network_of(packet);
  if (network.bytes.empty()) return segment;
  segment.ip = network.bytes;
  const std::size_t below = packet.data.size() - network.bytes.size();
  const std::size_t on_wire = packet.size - std::min<std::size_t>(packet.size, below);
  if (network.type == kIpv4) parse_ipv4(network.bytes, on_wire, segment);
  if (network.type == kIpv6) parse_ipv6(network.bytes, on_wire, segment);
  return segment;
}

}  // namespace rpcrdma::explain
