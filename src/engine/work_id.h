// Encodes in a WorkId the slot that waits for the work.
#ifndef RPCRDMA_ENGINE_WORK_ID_H_
#define RPCRDMA_ENGINE_WORK_ID_H_

#include <cstdint>

#include "engine/types.h"

namespace rpcrdma::engine {

enum class WorkKind : std::uint8_t {
  kCallSend = 1,
  kExpose,
  kRevoke,
  kRead,
  kWrite,
  kReplySend,
  // Profile::kRfc5666: RDMA Reads of a reply and their RDMA_DONE; a reply's exposed memory.
  kPull,
  kDoneSend,
  kReplyExpose,
  kReplyRevoke,
  kOptionSend,  // a message of version 2 that is of no call
};

struct WorkName {
  WorkKind kind;
  std::uint8_t part;  // which exposure, for those that expose and revoke
  std::uint16_t slot;
  std::uint32_t generation;  // of the slot; an answer to an older use of the slot is our bug
};

constexpr WorkId to_id(const WorkName& name) noexcept {
  return WorkId{std::uint64_t{static_cast<std::uint8_t>(name.kind)} << 56U |
                std::uint64_t{name.part} << 48U | std::uint64_t{name.slot} << 32U |
                name.generation};
}
constexpr WorkName to_name(WorkId id) noexcept {
  const auto value = static_cast<std::uint64_t>(id);
  return {static_cast<WorkKind>(value >> 56U), static_cast<std::uint8_t>(value >> 48U),
          static_cast<std::uint16_t>(value >> 32U), static_cast<std::uint32_t>(value)};
}

constexpr CallId to_call_id(std::uint16_t slot, std::uint32_t generation) noexcept {
  return CallId{std::uint64_t{slot} << 32U | generation};
}
constexpr std::uint16_t slot_of(CallId id) noexcept {
  return static_cast<std::uint16_t>(static_cast<std::uint64_t>(id) >> 32U);
}
constexpr std::uint32_t generation_of(CallId id) noexcept {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(id));
}

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_WORK_ID_H_
