// The work requests of an RDMA connection, as values: the engine fills them in, a provider executes
// them.
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
  std::optional<SteeringTag> invalidate;  // one of the peer's tags
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
// Lets the peer read or write exactly this run until revoked. The completion returns the tag and
// the address of the first byte, which need not be the memory's own address: neither should be easy
// to guess. The tag is valid for a peer that learns of it by a Send posted after the completion. It
// is not reused while a peer may remember it. Fails by a completion with kLocalError.
struct Expose {
  Slice memory;
  RemoteAccess access;
};
// Completes when no more bytes of the memory will be read or written for the peer; also, with kOk,
// if the peer has already invalidated the tag. The tag must come from an Expose.
struct Revoke {
  SteeringTag tag;
};

struct Request {
  std::uint64_t id = 0;  // returned in the completion
  bool signaled = true;  // false: no completion when it succeeds; a failure always completes
  std::variant<Receive, Send, Read, Write, Expose, Revoke> work;
  // Send: the provider may copy the message. Not for a Send whose completion must imply that
  // earlier Writes are complete.
  bool may_copy = false;
  // Set by posting: a copy was taken. The memory is free again, and no completion follows.
  bool copied = false;
};

}  // namespace rpcrdma::work

#endif  // RPCRDMA_WORK_H_
