// Work as tests keep it, in the terms of the engine: its slices are copied, since those of a
// Request are only good until it is posted.
#ifndef RPCRDMA_ENGINE_KEPT_WORK_FOR_TEST_H_
#define RPCRDMA_ENGINE_KEPT_WORK_FOR_TEST_H_

#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>
#include <vector>

#include "engine/types.h"
#include "rpcrdma/work.h"

namespace rpcrdma::engine {

// The region of the header arena in tests; no other lease has this number.
inline constexpr Lease kHeaderRegion{0xffff0000};

struct PostSend {
  WorkId id{};
  bool follows_writes = false;
  // Bytes, in the header arena. Size 0: the header is the start of the first run.
  std::uint32_t header_offset = 0, header_size = 0;
  std::vector<Fragment> gather;  // runs behind the header
  // RDMA_MSGP: zeros in front of gather[pad_before], bytes.
  std::uint32_t pad_size = 0, pad_before = 0;
  std::optional<SteeringTag> invalidate;
};
struct RdmaRead {
  WorkId id;
  wire::Segment from;
  Lease to;
  std::uint64_t to_offset;
};
struct RdmaWrite {
  WorkId id;
  Lease from;
  std::uint64_t from_offset;
  wire::Segment to;
};
struct Expose {
  WorkId id;
  Lease memory;
  std::uint32_t size;
  std::uint64_t offset;
  work::RemoteAccess access;
};
struct Revoke {
  WorkId id;
  SteeringTag handle;
};
struct Disconnect {};
using Action = std::variant<PostSend, RdmaRead, RdmaWrite, Expose, Revoke, Disconnect>;

inline PostSend kept_send(const work::Request& request, const work::Send& send) {
  PostSend kept;
  kept.id = WorkId{request.id};
  kept.follows_writes = !request.may_copy;
  kept.invalidate = send.invalidate;
  for (const work::Slice& slice : send.from) {
    if (slice.region != kHeaderRegion) {
      kept.gather.push_back({slice.region, slice.size, slice.offset, 0});
    } else if (kept.header_size == 0 && kept.gather.empty()) {
      kept.header_offset = static_cast<std::uint32_t>(slice.offset);
      kept.header_size = slice.size;
    } else {
      kept.pad_size = slice.size;
      kept.pad_before = static_cast<std::uint32_t>(kept.gather.size());
    }
  }
  return kept;
}

inline wire::Segment segment_of(const work::Remote& remote) {
  return {remote.tag, remote.size, remote.address};
}

inline Action kept(const work::Request& request) {
  const WorkId id{request.id};
  if (const auto* send = std::get_if<work::Send>(&request.work)) return kept_send(request, *send);
  if (const auto* read = std::get_if<work::Read>(&request.work)) {
    return RdmaRead{id, segment_of(read->from), read->into.region, read->into.offset};
  }
  if (const auto* write = std::get_if<work::Write>(&request.work)) {
    return RdmaWrite{id, write->from[0].region, write->from[0].offset, segment_of(write->to)};
  }
  if (const auto* expose = std::get_if<work::Expose>(&request.work)) {
    const work::Slice& memory = expose->memory;
    return Expose{id, memory.region, memory.size, memory.offset, expose->access};
  }
  return Revoke{id, std::get<work::Revoke>(request.work).tag};
}

inline std::optional<WorkId> id_of(const Action& action) {
  return std::visit(
      [](const auto& value) -> std::optional<WorkId> {
        if constexpr (requires { value.id; }) {
          return value.id;
        } else {
          return std::nullopt;
        }
      },
      action);
}

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_KEPT_WORK_FOR_TEST_H_
