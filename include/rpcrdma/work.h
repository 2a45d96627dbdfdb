// The work requests of an RDMA connection and what becomes of them, as values: the engine fills
// requests in, a provider executes and completes them.
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

enum class Status : std::uint8_t {
  kOk,
  kFlushed,        // the connection ended before the work was done
  kLocalError,     // our own request was wrong, for example a Receive too small for the message
  kRemoteAccess,   // the peer refused access to its memory
  kRetryExceeded,  // the peer does not answer
};

// The end of one request. A completion other than kOk means that the connection is about to end,
// except for an Expose (kLocalError: no memory, or no tag), after which everything continues.
struct Completion {
  std::uint64_t id = 0;  // Request::id; for post_receives(): the number
  Status status = Status::kOk;
  std::uint32_t size = 0;  // Receive: bytes of the message
  // Expose: the new tag. Receive: our tag that the peer's Send invalidated, if any; that tag is
  // dead and its memory fenced before this completion is polled.
  std::optional<SteeringTag> tag{};
  std::uint64_t address = 0;  // Expose: the first byte's address, for the segment's offset
  // Receive with shares_receives: the message, not null, valid until its number is posted again or
  // released, or the queue pair is destroyed. Else null: the message is where the Receive
  // specified.
  const std::byte* message = nullptr;
};

// A connection's traffic; for tests, benchmarks and `--json` results.
struct Counters {
  // A device does not report the bytes on the wire, nor what the peer reads and writes: with verbs
  // the first two stay 0, and the others count our own Sends, Writes and Reads, and Receives.
  std::uint64_t bytes_sent = 0;        // on the wire, with framing
  std::uint64_t bytes_received = 0;    // on the wire, with framing
  std::uint64_t payload_sent = 0;      // of Sends, Writes and Read Responses
  std::uint64_t payload_received = 0;  // of Sends, Writes and Read Responses
  std::uint64_t bytes_copied = 0;      // moved by our code from one user buffer to another
  std::uint64_t sends = 0, writes = 0, reads = 0;
  std::uint64_t system_calls = 0;  // our own, without those of a device's library
  // Devices only: calls that hand over a batch of work, and requested completions (a Receive
  // always has one, and does not count).
  std::uint64_t doorbells = 0, completions = 0;
  std::uint64_t registrations = 0;   // of memory, with the device if there is one
  std::uint64_t attached_bytes = 0;  // memory that is attached at present
};

}  // namespace rpcrdma::work

#endif  // RPCRDMA_WORK_H_
