// Packets of RoCE version 2: their headers, and the invariant CRC.
#ifndef RPCRDMA_EXPLAIN_ROCE_H_
#define RPCRDMA_EXPLAIN_ROCE_H_

#include <cstdint>
#include <optional>

#include "explain/packet.h"
#include "rpcrdma/types.h"

namespace rpcrdma::explain {

inline constexpr std::uint32_t kRocePort = 4791;

// Opcodes of reliable connections.
enum class RoceOpcode : std::uint8_t {
  kSendFirst = 0,
  kSendMiddle = 1,
  kSendLast = 2,
  kSendLastImmediate = 3,
  kSendOnly = 4,
  kSendOnlyImmediate = 5,
  kWriteFirst = 6,
  kWriteMiddle = 7,
  kWriteLast = 8,
  kWriteLastImmediate = 9,
  kWriteOnly = 10,
  kWriteOnlyImmediate = 11,
  kReadRequest = 12,
  kResponseFirst = 13,
  kResponseMiddle = 14,
  kResponseLast = 15,
  kResponseOnly = 16,
  kAcknowledge = 17,
  kSendLastInvalidate = 22,
  kSendOnlyInvalidate = 23,
};

struct RocePacket {
  std::uint8_t opcode = 0;  // with the transport in its upper three bits
  std::uint32_t queue_pair = 0, psn = 0;
  std::uint64_t address = 0;  // RETH
  std::uint32_t key = 0, length = 0;
  std::uint8_t syndrome = 0;         // AETH
  std::uint32_t invalidated = 0;     // IETH
  Bytes payload;                     // captured bytes of it
  std::uint32_t size = 0;            // of the payload, bytes
  std::optional<bool> is_icrc_good;  // nothing if the packet was cut

  RoceOpcode kind() const noexcept { return static_cast<RoceOpcode>(opcode); }
  bool is_reliable() const noexcept { return opcode >> 5U == 0; }
};

// Decodes the datagram behind a UDP header. nullopt: too short.
std::optional<RocePacket> parse_roce(const Segment& segment);

// Messages of the connection manager (IBTA 12.6).
struct CmMessage {
  enum class Kind : std::uint16_t {
    kRequest = 0x10,
    kReject = 0x12,
    kReply = 0x13,
    kReady = 0x14,
    kDisconnect = 0x15,
  };
  Kind kind = Kind::kReady;
  std::uint32_t local_id = 0, remote_id = 0;
  std::uint32_t queue_pair = 0, psn = 0;
  std::uint32_t resources = 0, depth = 0;  // RDMA Reads that it accepts, and issues
  std::uint32_t path_mtu = 0;              // bytes; 0: unknown
  Bytes private_data;                      // of the upper layer
};
// nullopt: no message of the connection manager.
std::optional<CmMessage> parse_cm(const RocePacket& packet);

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_ROCE_H_
