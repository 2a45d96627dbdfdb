#include "explain/roce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>

#include "iwarp/byte_order.h"

#if RPCRDMA_WITH_ISAL
#include <isa-l/crc.h>
#else
#include "iwarp/sliced_crc.h"
#endif

namespace rpcrdma::explain {
namespace {

using iwarp::load16;
using iwarp::load32;
using iwarp::load64;

constexpr std::size_t kBth = 12, kReth = 16, kAeth = 4, kIeth = 4, kImmediate = 4, kDeth = 8;
constexpr std::size_t kIcrc = 4, kUdp = 8;

std::uint32_t load24(const std::byte* at) noexcept {
  return load32(at) >> 8U;
}

// The sizes of the extended headers of an opcode.
struct Extended {
  bool has_reth, has_aeth, has_ieth, has_immediate;
};
Extended extended_of(RoceOpcode opcode) noexcept {
  constexpr auto in = [](RoceOpcode given, std::initializer_list<RoceOpcode> those) {
    return std::find(those.begin(), those.end(), given) != those.end();
  };
  return {in(opcode, {RoceOpcode::kWriteFirst, RoceOpcode::kWriteOnly, RoceOpcode::kReadRequest,
                      RoceOpcode::kWriteOnlyImmediate}),
          in(opcode, {RoceOpcode::kResponseFirst, RoceOpcode::kResponseLast,
                      RoceOpcode::kResponseOnly, RoceOpcode::kAcknowledge}),
          in(opcode, {RoceOpcode::kSendLastInvalidate, RoceOpcode::kSendOnlyInvalidate}),
          in(opcode, {RoceOpcode::kSendLastImmediate, RoceOpcode::kSendOnlyImmediate,
                      RoceOpcode::kWriteLastImmediate, RoceOpcode::kWriteOnlyImmediate})};
}

// Takes and returns the checksum of Ethernet, which is that of gzip.
std::uint32_t add_crc(std::uint32_t crc, Bytes bytes) {
#if RPCRDMA_WITH_ISAL
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
#else
  static constexpr iwarp::CrcTables kTables = iwarp::make_crc_tables(0xedb88320U);
  return ~iwarp::sliced_crc(kTables, ~crc, bytes);
#endif
}

// The checksum leaves out what routers may change: those fields count as ones.
std::optional<bool> check_icrc(const Segment& segment) {
  const Bytes udp = segment.payload;
  if (udp.size() != segment.size || udp.size() < kBth + kIcrc) return std::nullopt;
  const std::size_t ip_size = segment.from.is_v6 ? 40 : 20;
  const std::size_t headers = ip_size + kUdp;
  // Options and extension headers are not part of what is defined.
  if (segment.ip.size() < headers || segment.ip.data() + headers != udp.data()) return std::nullopt;
  std::array<std::byte, 8 + 40 + kUdp + kBth> masked{};
  std::fill_n(masked.begin(), 8, std::byte{0xff});
  std::byte* ip = masked.data() + 8;
  std::memcpy(ip, segment.ip.data(), headers + kBth);
  const auto set = [](std::byte* at, std::size_t count) {
    std::fill_n(at, count, std::byte{0xff});
  };
  if (segment.from.is_v6) {
    ip[0] |= std::byte{0x0f};
    set(ip + 1, 3);
    set(ip + 7, 1);
  } else {
    set(ip + 1, 1);
    set(ip + 8, 1);
    set(ip + 10, 2);
  }
  set(ip + ip_size + 6, 2);
  set(ip + headers + 4, 1);
  std::uint32_t crc = add_crc(0, Bytes(masked).first(8 + headers + kBth));
  crc = add_crc(crc, udp.subspan(kBth, udp.size() - kBth - kIcrc));
  const std::uint32_t sent = __builtin_bswap32(load32(udp.data() + udp.size() - kIcrc));
  return sent == crc;
}

}  // namespace

std::optional<RocePacket> parse_roce(const Segment& segment) {
  const Bytes bytes = segment.payload;
  if (bytes.size() < kBth || segment.size < kBth + kIcrc) return std::nullopt;
  RocePacket packet;
  const std::byte* at = bytes.data();
  packet.opcode = std::to_integer<std::uint8_t>(at[0]);
  const std::size_t pad = (std::to_integer<unsigned>(at[1]) >> 4U) & 3U;
  packet.queue_pair = load24(at + 5);
  packet.psn = load24(at + 9);
  std::size_t header = kBth;
  const auto has = [&](std::size_t size) { return bytes.size() >= header + size; };
  if (packet.is_reliable()) {
    const Extended extended = extended_of(packet.kind());
    if (extended.has_reth) {
      if (!has(kReth)) return std::nullopt;
      packet.address = load64(at + header);
      packet.key = load32(at + header + 8);
      packet.length = load32(at + header + 12);
      header += kReth;
    }
    if (extended.has_aeth) {
      if (!has(kAeth)) return std::nullopt;
      packet.syndrome = std::to_integer<std::uint8_t>(at[header]);
      header += kAeth;
    }
    if (extended.has_ieth) {
      if (!has(kIeth)) return std::nullopt;
      packet.invalidated = load32(at + header);
      header += kIeth;
    }
    if (extended.has_immediate) header += kImmediate;
  }
  const std::size_t end = header + pad + kIcrc;
  if (segment.size < end || bytes.size() < header) return std::nullopt;
  packet.size = static_cast<std::uint32_t>(segment.size - end);
  packet.payload = bytes.subspan(header, std::min<std::size_t>(packet.size, bytes.size() - header));
  packet.is_icrc_good = check_icrc(segment);
  return packet;
}

std::optional<CmMessage> parse_cm(const RocePacket& packet) {
  constexpr unsigned kUnreliableSend = 0x64;
  constexpr std::size_t kMad = 24, kBody = 232, kIpAddressing = 36;
  if (packet.opcode != kUnreliableSend || packet.queue_pair != 1) return std::nullopt;
  const Bytes bytes = packet.payload;
  if (bytes.size() < kDeth + kMad + kBody) return std::nullopt;
  const std::byte* mad = bytes.data() + kDeth;
  if (std::to_integer<unsigned>(mad[1]) != 7) return std::nullopt;
  const std::byte* body = mad + kMad;
  CmMessage message;
  message.kind = static_cast<CmMessage::Kind>(load16(mad + 16));
  message.local_id = load32(body);
  message.remote_id = load32(body + 4);
  const Bytes all(body, kBody);
  if (message.kind == CmMessage::Kind::kRequest) {
    message.queue_pair = load24(body + 32);
    message.resources = std::to_integer<std::uint32_t>(body[35]);
    message.depth = std::to_integer<std::uint32_t>(body[39]);
    message.psn = load24(body + 44);
    const unsigned mtu = std::to_integer<unsigned>(body[50]) >> 4U;
    if (mtu >= 1 && mtu <= 5) message.path_mtu = 128U << mtu;
    message.private_data = all.subspan(140 + kIpAddressing);
  } else if (message.kind == CmMessage::Kind::kReply) {
    message.queue_pair = load24(body + 12);
    message.psn = load24(body + 20);
    message.resources = std::to_integer<std::uint32_t>(body[24]);
    message.depth = std::to_integer<std::uint32_t>(body[25]);
    message.private_data = all.subspan(36);
  }
  return message;
}

}  // namespace rpcrdma::explain
