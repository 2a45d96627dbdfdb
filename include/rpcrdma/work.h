// What an RDMA connection can be asked to do, as values: the engine fills them in, a provider
// carries them out.
#ifndef RPCRDMA_WORK_H_
#define RPCRDMA_WORK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "rpcrdma/steering_tag.h"

namespace rpcrdma::work {

// The longest list of slices in one Receive, Send or Write.
inline constexpr std::size_t kSlicesMax = 24;

enum class RegionId : std::uint32_t {};  // names locally registered memory of one queue pair

struct Slice {  // a run of a region, lent until the completion
  RegionId region;
  std::uint32_t size;    // bytes
  std::uint64_t offset;  // bytes from the start of the region
  bool operator==(const Slice&) const = default;
};
struct Remote {  // a run of memory that the peer advertised
  SteeringTag tag;
  std::uint32_t size;     // bytes
  std::uint64_t address;  // "offset" in an RPC-over-RDMA segment
  bool operator==(const Remote&) const = default;
};

// The spans inside of work are only read while it is posted; the memory that they name is lent.
struct Receive {
  std::span<const Slice> into;  // filled in order
};
struct Send {
  std::span<const Slice> from;
  std::optional<SteeringTag> invalidate;  // a tag of the peer's
};
struct Read {
  Slice into;
  Remote from;
};
struct Write {
  std::span<const Slice> from;
  Remote to;
};
enum class RemoteAccess : std::uint8_t { kRead, kWrite };
// Lets the peer read or write exactly this run, until revoked. The completion brings the tag and
// the address of the first byte, which need not be that of the memory: neither should be easy to
// guess. The tag is valid for a peer that learns of it by a Send that is posted after the
// completion. It is not given out again as long as a peer may remember it. Fails by a completion
// with kLocalError.
struct Expose {
  Slice memory;
  RemoteAccess access;
};
// Completes when no byte of the memory will be read or written for the peer again; also, with kOk,
// when the peer has invalidated the tag already. The tag is one that an Expose brought.
struct Revoke {
  SteeringTag tag;
};

struct Request {
  std::uint64_t id = 0;  // comes back in the completion
  bool signaled = true;  // false: no completion when it succeeds; a failure always completes
  std::variant<Receive, Send, Read, Write, Expose, Revoke> work;
  // Send: the provider may take a copy of the message. Not for a Send that has to tell when earlier
  // Writes are complete.
  bool may_copy = false;
  // Set when it is posted: a copy was taken. The memory is free again, and nothing more is heard of
  // it.
  bool copied = false;
};

}  // namespace rpcrdma::work

#endif  // RPCRDMA_WORK_H_
