// The values that go in and out of the engine: memory that is lent, work to do, facts for the
// caller.
//
// The engine never dereferences lent memory; it speaks of it by Lease. A lease is the caller's
// again when the event that ends its call arrives: ReplyReady or CallFailed for a call that we
// made, CallDone for one that we answered. Each call ends with exactly one of them.
#ifndef RPCRDMA_ENGINE_TYPES_H_
#define RPCRDMA_ENGINE_TYPES_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "base/ids.h"
#include "engine/dialect.h"
#include "rpcrdma/characteristics.h"
#include "rpcrdma/profile.h"
#include "rpcrdma/steering_tag.h"
#include "rpcrdma/types.h"
#include "rpcrdma/work.h"
#include "wire/segment.h"

namespace rpcrdma::engine {

enum class CallId : std::uint64_t {};  // slot and generation; never reused while it can be confused
enum class WorkId : std::uint64_t {};  // comes back in the completion
using Lease = work::RegionId;          // memory that the caller has registered and lends
enum class ReceiveId : std::uint16_t {};  // one of the Receive buffers, 0 … receives-1

// Bounds on what one call may be made of; more is refused when the call is started.
inline constexpr std::size_t kFragmentsMax = 20;  // runs of one Payload stream
inline constexpr std::size_t kExposuresMax = 32;  // segments that one call advertises
inline constexpr std::size_t kReadChunksMax =
    9;  // in a received call: eight items and position zero

struct Fragment {  // a run of the Payload stream, where the application has it
  Lease memory;
  std::uint32_t size;    // bytes
  std::uint64_t offset;  // bytes from the start of the lease
  // 0: stays inline. Else runs in a row with the same number are one DDP-eligible item. XDR padding
  // behind an item is part of the following inline run, never of the item.
  std::uint16_t item;
  bool operator==(const Fragment&) const = default;
};

struct ResultRoom {  // destination of (a part of) one DDP-eligible result
  Lease memory;
  std::uint32_t size_max;  // bytes
  std::uint64_t offset;
  std::uint16_t item;  // runs in a row with the same number take one result
  bool operator==(const ResultRoom&) const = default;
};

// A Call or a reply as the encoder produced it in one pass.
struct Outgoing {
  std::span<const Fragment> stream;      // in XDR order; the first run starts with the XID
  std::span<const ResultRoom> results;   // Call: become Write chunks, in list order
  std::uint32_t reply_size_max = 0;      // Call: bound on the unreduced reply's Payload stream
  std::optional<ResultRoom> reply_room;  // Call: memory for a Reply chunk, used when one is needed
  // kShortHeaderSizeMax bytes right in front of the first run, which is inline and not empty, in
  // its lease; lent like the rest. A header without chunks is written there, so that header and
  // stream leave as one run. Or null.
  std::byte* header_room = nullptr;
  // Reply, Profile::kRfc5666: what fits nowhere else may be exposed for the peer to read, until its
  // RDMA_DONE.
  bool may_be_read = false;
};

// --- Work that was asked for -------------------------------------------------------------------

// The slices of one request; a header in front of a stream, and padding in between.
using Slices = std::array<work::Slice, kFragmentsMax + 2>;
static_assert(kFragmentsMax + 2 <= work::kSlicesMax);

using work::Completion, work::Status;

// --- Events: facts for the layer above ---------------------------------------------------------

enum class CallError : std::uint8_t {
  kVersion,         // the peer answered ERR_VERS
  kChunk,           // the peer answered ERR_CHUNK: it could not use our header or chunks
  kBadReply,        // the reply's chunks do not fit what this call offered
  kTimedOut,        // no reply within the call's time
  kConnectionLost,  // the connection ended before the reply
  kCanceled,
  kNoMemory,  // the provider could not expose the call's memory
};
std::string_view to_string(CallError error) noexcept;

// The reason why this side gave up a working connection, for reports of the layer above.
enum class GivenUp : std::uint8_t {
  kNot,
  kSilent,     // a call timed out, and nothing had arrived since it was sent
  kNoCredits,  // a call timed out, and calls that were given up hold every credit
  kNoVersion,  // the peer speaks no version that we do
  kNoAnswer,   // the peer left the offer of version 2 unanswered
  kUnserved,   // the peer completed none of our Reads, Writes and Sends in Options::peer_timeout
  kSlowReads,  // the Read chunks of a Call took longer than Options::pull_timeout and pull_rate_min
               // give them
  kSlowReplies,  // the peer took results in chunks more slowly than Options::pull_rate_min
  kUnfenced,     // the memory of a call that ended could not be made safe otherwise
  kUnconfirmed,  // RFC 5666: the peer did not say in Options::peer_timeout that it has read a reply
  kOverrun,      // the peer sent more Calls than its credits allow
  kBadInvalidation,  // the peer invalidated a steering tag that was not its call's
};
std::string_view to_string(GivenUp why) noexcept;  // for kNot: empty

struct PulledItem {        // a Read chunk, now local
  std::uint32_t position;  // in the unreduced Payload stream, bytes
  Fragment data;           // size 0: no memory was lent
};

struct ReadChunk {               // of a received Call
  std::uint32_t position, size;  // bytes
  std::uint16_t first, count;    // of the Call's Read segments in order of position
  Fragment data;                 // once memory was lent
};
// Says why a Call is dropped.
enum class DropReason : std::uint8_t {
  kIsReply,  // the message turned out to be none; in version 2 its header said so (-01 §4.2)
  kUnheard,  // its sender is not to be answered
};

// Names an RDMA Write of ours that the peer refused.
struct RefusedWrite {
  std::optional<wire::Segment> to;  // its length means nothing; nullopt: the peer did not say
};

// A Read chunk needs memory: answer with lend(), start_reply(), reject() or drop(). Position 0 is
// the Call itself (Long Call); it is asked for first, so that for the others `long_part` is already
// there. Where it has to wait, its start can be lent memory, read and judged before.
struct MemoryWanted {
  CallId call;
  Xid xid;
  std::uint32_t position, size;       // bytes
  Bytes inline_part;                  // the Payload stream behind the header; empty in a Long Call
  std::optional<Fragment> head;       // the first bytes of a Long Call, for which memory was lent
  bool is_early;                      // others come first: put_off(), or lend() for its head
  std::optional<Fragment> long_part;  // the Long Call's stream
  // All of the Call's, in the order in which they are asked for; those of size 0 never are. A
  // caller that reserves memory for all of them at once need not wait while it holds some.
  std::span<const ReadChunk> chunks;  // valid until the last answer
};
// Alignment in a message that came as RDMA_MSGP (RFC 5666 §3.9).
struct Padding {
  std::uint32_t alignment = 0;  // bytes; 0: there is none
  std::uint32_t threshold = 0;  // larger opaque data is aligned, bytes
  std::uint32_t start = 0;      // where the Payload stream begins as alignment counts, bytes
};
struct CallReceived {
  CallId call;
  Xid xid;
  Bytes inline_part;  // valid until start_reply() or reject()
  std::optional<Fragment> long_part;
  std::span<const PulledItem> items;  // in order of position; valid until CallDone
  const Padding* padding = nullptr;   // of inline_part, if it has some; valid until CallDone
  bool has_chunks = false;            // of any kind
};
// All memory lent to the answered call is the caller's again.
struct CallDone {
  CallId call;
  bool replied;  // false: the connection ended first, or the call was answered by an error header
};
// The peer refused access to a chunk of this Call, which is why the connection ends (RFC 8166
// §4.5.4). It comes before CallDone, or after it when the reply was on its way; at most once.
struct ChunkRefused {
  CallId call;
};
// An item of a reply that came by a Read chunk.
struct ReadItem {
  std::uint32_t position;  // in the unreduced stream, bytes
  // It lies in the memory of the offered result with the same number, by guess: only the reader of
  // the stream knows whether it is that result. Else it is in the memory of reply_room, behind
  // in_reply_chunk and the items before it.
  bool in_result;
  bool operator==(const ReadItem&) const = default;
};
// Additional information about a reply in Profile::kRfc5666.
struct ReadAnswer {
  // The results that came by Read chunks, as many as results_written has. Empty: there are none,
  // and results_written follows the order of the offered results.
  std::span<const ReadItem> items;
  Padding padding;  // of inline_part
};
// Every handle of the call is revoked: its memory is the caller's again. release() gives the
// Receive buffer behind `inline_part` back.
struct ReplyReady {
  CallId call;
  Bytes inline_part;             // the reply's Payload stream, unless it is in the Reply chunk
  std::uint32_t in_reply_chunk;  // bytes of it in the memory of reply_room; 0: inline
  std::span<const std::uint32_t> results_written;  // bytes in each offered result, in list order
  const ReadAnswer* by_read = nullptr;             // in Profile::kRfc5666; valid until release()
};
struct CallFailed {
  CallId call;
  CallError error;
};
using Event =
    std::variant<MemoryWanted, CallReceived, CallDone, ChunkRefused, ReplyReady, CallFailed>;

// --- Settings ----------------------------------------------------------------------------------

enum class Role : std::uint8_t {
  kClient,  // makes Calls; answers backward ones
  kServer,  // answers them; makes backward ones
};

// The way in which a responder returns Write chunks (docs/wire.md): RFC 8166 leaves out unused
// segments, RFC 5666 and Linux return every segment with its length rewritten.
enum class ReturnForm : std::uint8_t { kShortened, kFull };

// Options that only Profile::kRfc5666 has; see rpcrdma::Rfc5666Options.
struct Rfc5666Options {
  bool results_by_read = false;
  std::uint32_t padding_threshold = 512;  // bytes
  PaddingBase padding_base = PaddingBase::kBuffer;
  std::uint32_t exposed_replies_max = 16;
  std::chrono::nanoseconds done_timeout = std::chrono::seconds(30);
};

struct Options {
  // Versions of RPC-over-RDMA. A client offers the highest first, and continues with another that
  // the peer names; a server answers each Call in the Call's version. Profile::kRfc5666: 1 only.
  Versions versions{1, 1};
  // Client: how long the peer may leave the offer of version 2 unanswered.
  std::chrono::nanoseconds offer_timeout = std::chrono::seconds(5);
  std::uint32_t inline_send = 4096;     // largest Send, bytes, at least 1024
  std::uint32_t inline_receive = 4096;  // size of each Receive buffer, bytes, at least 1024
  std::uint32_t receive_size_max = 0;   // version 2: that the peer may ask for, if larger, bytes
  std::uint32_t credits = 64;           // client: requested; server: granted. Receives posted.
  std::uint32_t credits_at_first = 0;   // server: granted to begin with; 0: all of them
  // Calls from the server to the client (RFC 8167) at a time: client: granted; server: requested.
  // As many Receives are posted besides; 0: there are none. In version 1 they use no chunks: both
  // messages are inline as a whole.
  std::uint32_t backward_calls = 0;
  // Version 2, client: the most that it takes of them (XCHAR_BRS).
  BackwardSupport backward_support = BackwardSupport::kGeneral;
  // Version 2: characteristics of the application's own. They outlive the connection.
  std::span<const CharacteristicType> characteristics;
  bool inline_only = false;              // what Connection sets for that half, but for version 2
  std::uint32_t calls_max = 128;         // client: calls started and not ended
  std::uint32_t reduce_size_min = 1024;  // smaller items stay inline when they fit
  // Arguments of up to so many bytes stay inline besides, where the peer's Receives hold as many;
  // Sends may then be as long as that takes, and are announced so.
  std::uint32_t inline_arguments_max = 0;
  bool reduce = true;  // false: no item ever leaves the stream by itself
  // Flag R of RFC 8797, as the peer sees it: our provider can take (client) or send (server) a Send
  // with Invalidate.
  bool remote_invalidation = true;
  ReturnForm return_form = ReturnForm::kShortened;
  std::uint32_t read_chunk_size_max = 4U << 20U;  // server: largest Read chunk accepted, bytes
  std::uint32_t long_call_size_max = 1U << 20U;   // server: largest Long Call accepted, bytes
  Profile profile = Profile::kRfc8166;            // backward Calls follow RFC 8166 in both
  Rfc5666Options rfc5666;
  // Receive buffers begin at a multiple of so many bytes, a power of two; 0: at any.
  std::uint32_t receive_alignment = 0;
  wire::Limits limits;
  std::chrono::nanoseconds call_timeout = std::chrono::seconds(60);
  // Client: a time-out ends the connection if nothing has come since the Call was sent (ADR 17).
  bool ends_silent_connections = true;
  // Server: how long the peer may leave every RDMA Read, Write and Send of ours where it is before
  // the connection is given up and the memory of its calls comes back. Replies that go by RDMA
  // Writes have, together with those under way before them, this and their bytes at pull_rate_min.
  std::chrono::nanoseconds peer_timeout = std::chrono::seconds(30);
  // Server: how long the Read chunks of one Call may take, from the time when they have memory:
  // this, and their bytes at pull_rate_min, bytes per second. A peer that serves a Read now and
  // then makes progress all the time, and would keep the memory for as long as it likes.
  std::chrono::nanoseconds pull_timeout = std::chrono::seconds(10);
  std::uint32_t pull_rate_min = 256U << 10U;  // 0: they may take any time
  // Server: how many bytes of Read chunks may have memory and not be here, besides the Call that
  // comes last. Enough for 4 MiB on their way, which is 100 Gbit/s over 300 us.
  std::uint64_t pull_window = 4U << 20U;
  // The time that revoking a call's memory may take once the call has failed; then the connection
  // is given up to make the memory safe.
  std::chrono::nanoseconds fence_timeout = std::chrono::seconds(1);
};

// Bytes of each Receive: whoever speaks version 2 takes messages of 4096.
constexpr std::uint32_t receive_size(const Options& options) noexcept {
  return options.versions.high < 2 ? options.inline_receive
                                   : std::max(options.inline_receive, kReceiveSizeV2);
}

// Room in a Call beside its bulk arguments, for both headers, the credential and what else it says.
inline constexpr std::uint32_t kBesideArguments = 4096;  // bytes

// Returns our largest Send to a peer with Receives of so many bytes. It is longer than inline_send
// only where these were made for arguments.
constexpr std::uint32_t send_size(const Options& options, std::uint32_t peer_receive) noexcept {
  const std::uint32_t arguments = options.inline_arguments_max;
  if (arguments == 0 || peer_receive <= arguments) return options.inline_send;
  return std::max(options.inline_send, arguments + kBesideArguments);
}
constexpr std::uint32_t longest_send(const Options& options) noexcept {
  return send_size(options, std::numeric_limits<std::uint32_t>::max());
}

// The agreement of both sides of a connection. Defaults until the connection is up, and until the
// upper layer or a characteristic changes it (Connection::configure()).
struct LinkParameters {
  std::uint32_t inline_send = 1024;     // our largest Send: min(ours, the peer's Receive), bytes
  std::uint32_t inline_receive = 1024;  // the peer's largest Send, as far as we may count on it
  std::uint32_t reads_in_flight_max = 1;
  bool remote_invalidation = false;  // both sides have set flag R (RFC 8797 §4.1)
  // Profile::kRfc5666: what the peer wants opaque data aligned to, bytes; 0: nothing.
  std::uint32_t padding_alignment = 0;
  bool read_chunks = true;  // Profile::kRfc5666: false: the peer takes no Calls with Read chunks
  bool chunks = true;       // false: nor any chunks; backward Calls, unless XCHAR_BRS says GENL
  bool calls = true;        // false: nor any Calls; backward ones, where XCHAR_BRS says NONE
  Dialect dialect = Dialect::kV1;
};

enum class StartError : std::uint8_t {
  kTooLarge,         // more fragments or segments than one call may have
  kReplyRoomNeeded,  // the reply may not fit inline and no reply_room was given
  kNoReadChunks,     // the Call is longer than a message, and the peer takes no Read chunks
  kQueueFull,        // calls_max calls have not ended
  kNotConnected,     // not yet, or no longer
  kNotTaken,         // a backward Call, and the peer has said that it takes none
};
std::string_view to_string(StartError error) noexcept;

// Counts events; the names are those of Linux' mountstats where it has one.
struct Counters {
  std::uint64_t calls_started = 0, calls_ended = 0;
  std::uint64_t short_calls = 0, short_replies = 0;  // nothing but the inline message
  std::uint64_t read_chunk_count = 0, write_chunk_count = 0, reply_chunk_count = 0;
  std::uint64_t nomsg_calls = 0, nomsg_replies = 0;  // Long Calls, Long Replies
  std::uint64_t read_chunk_bytes = 0, write_chunk_bytes = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bad_reply_count = 0;  // replies that broke a rule and were dropped or failed a call
  std::uint64_t unknown_xid_count = 0;    // replies to no call of ours, or to one that gave up
  std::uint64_t short_message_count = 0;  // fewer than 16 bytes: dropped
  std::uint64_t stray_error_count = 0;    // RDMA_ERROR or RDMA_DONE to a responder: dropped
  std::uint64_t credit_overruns = 0;  // Calls beyond the grant, where there was a Receive for them
  std::uint64_t credits_exhausted = 0;  // Calls that took the last of them
  // Calls that waited for a credit and for the Receive that belongs to it; the time of all
  // together.
  std::uint64_t credit_waits = 0, credit_wait_ns = 0;
  std::uint64_t err_vers_sent = 0, err_chunk_sent = 0, err_received = 0;
  std::uint64_t options_received = 0, err_option_sent = 0;  // version 2
  std::uint64_t invalidated_remotely = 0, revoked_locally = 0;
  std::uint64_t timed_out = 0;
  // Profile::kRfc5666: messages with aligned data; replies by Read chunks; RDMA_DONE. One that came
  // for no reply is stray.
  std::uint64_t padded_calls = 0, read_replies = 0;
  std::uint64_t dones_sent = 0, dones_received = 0;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_TYPES_H_
