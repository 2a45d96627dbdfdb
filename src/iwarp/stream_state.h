// The state that the receiving and the sending half of one stream share: queues of work, steering
// tags, completions and the way to the end. Internal to the module.
#ifndef RPCRDMA_IWARP_STREAM_STATE_H_
#define RPCRDMA_IWARP_STREAM_STATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/ring.h"
#include "iwarp/block_pool.h"
#include "iwarp/headers.h"
#include "iwarp/mpa.h"
#include "iwarp/tag_table.h"
#include "iwarp/work.h"

namespace rpcrdma::iwarp {

struct StreamOptions {
  std::uint32_t queue_depth = 1024;  // Receives; Sends, Writes and Reads; exposures and revocations
  std::uint32_t exposures = 1024;    // live steering tags, beside the sinks of our own Reads
  std::uint16_t ird = 16;            // the most that set-up may agree on
  std::uint16_t ord = 16;
};

enum class Phase : std::uint8_t {
  kWaiting,      // set-up is not finished; start() moves it on. Work is queued.
  kOpen,         // established
  kTerminating,  // a fault was found: what is half sent and the Terminate go out, handle_sent()
                 // ends it
  kClosed,       // over: all work is complete, no memory is touched
};

struct ReceiveWork {
  std::uint64_t id = 0;
  bool signaled = true;
  bool is_bare = false;  // has a size, and no memory before a message comes for it
  SpanList<std::byte> into;
};
struct SendWork {
  std::uint64_t id = 0;
  WorkKind kind = WorkKind::kSend;  // kSend, kWrite, kRead
  Opcode opcode = Opcode::kSend;
  bool signaled = true;
  bool in_flight = false;     // kRead: is in `reads` or `split_reads`, only its place is left here
  SteeringTag tag{};          // kSend: to invalidate; else the remote memory
  std::uint64_t address = 0;  // remote
  SpanList<const std::byte> from;
  MutableBytes sink;  // kRead
};
struct ReadInFlight {  // ours
  std::uint64_t id = 0;
  bool signaled = true;
  bool internal = false;  // the zero-length Read that opens a peer-to-peer stream
  bool is_last = true;    // completes its work; false: a piece, and others follow
  SteeringTag sink_tag{};
  std::uint64_t sink_address = 0;
  MutableBytes sink;
  std::uint32_t received = 0;
};
// A Read that is requested in pieces. Sends pass it, as they pass Reads that are in flight; a
// further Read does not.
struct SplitRead {
  std::uint64_t id = 0;
  bool signaled = true;
  SteeringTag tag{};  // remote, as the address
  std::uint64_t address = 0;
  MutableBytes sink;
  std::uint32_t requested = 0;  // bytes
  SteeringTag sink_tag{};       // once some are
  std::uint64_t sink_base = 0;
};
struct ReadResponse {  // the peer's Read that we answer
  ReadRequest request;
  std::uint32_t sent = 0;  // bytes in FPDUs that are built
};
struct PendingRevoke {
  std::uint64_t id = 0;
  bool signaled = true;
  std::uint64_t sent_end = 0;  // done when our output has got so far
};

struct StreamState {
  // Null for `blocks`: the stream has its own.
  StreamState(const StreamOptions& options, RandomSource& random, BlockPool* blocks);

  // Completes work. Null, and nothing to poll, when it is unsignaled and went well; else what the
  // upper layer will see, for more to be filled in.
  Completion* complete(WorkKind kind, std::uint64_t id, Status status, bool signaled);
  std::size_t poll(std::span<Completion> out);
  void drop_completion();
  // The peer broke a rule. `bad`: its FPDU from the length field on, as much as there is.
  void fail(Fault fault, Bytes bad);
  // The end: completes everything that is left and takes all tags away. The first cause counts.
  void close(const Cause& why);
  // Makes an exposure inaccessible.
  void forget(SteeringTag tag);
  // Completes the revocations whose memory is no longer referred to by unsent output.
  void finish_revokes(std::uint64_t sent_total);

  // Gives the Receive memory for the message that comes for it. A message that is more than its
  // first part, of `part_size` bytes, may take all that the Receive has.
  void clothe(ReceiveWork& work, std::size_t part_size, bool is_whole) {
    if (!work.is_bare) return;
    work.is_bare = false;
    const std::uint32_t size = is_whole ? static_cast<std::uint32_t>(part_size) : work.into.size;
    receive_spans.store_one({receive_memory->take(work.id, size), size}, work.into);
  }

  const std::unique_ptr<BlockPool> own_blocks;
  BlockPool& blocks;
  ReceiveMemory* receive_memory = nullptr;  // of bare Receives

  StreamOptions options;
  Negotiated negotiated;
  Phase phase = Phase::kWaiting;
  Cause cause;
  StreamCounters counters;

  SpanPool<std::byte> receive_spans;
  SpanPool<const std::byte> send_spans;
  Ring<ReceiveWork> receives;
  Ring<SendWork> sends;
  Ring<ReadInFlight> reads;
  Ring<SplitRead> split_reads;       // not requested to their end
  std::uint32_t read_piece = 0;      // longer Reads are split into pieces of so many bytes; 0: none
  std::uint64_t read_in_flight = 0;  // bytes of `reads`
  Ring<ReadResponse> responses;
  Ring<PendingRevoke> revokes;
  Ring<Completion> completions;
  TagTable tags;
  std::uint32_t exposed = 0;  // tags that are not sinks

  // Posted and not yet polled (or silently complete); each at most queue_depth, so that completions
  // never overflow.
  std::uint32_t receives_outstanding = 0;
  std::uint32_t sends_outstanding = 0;
  std::uint32_t controls_outstanding = 0;

  std::optional<SteeringTag> refused_sink;    // of the Read that the peer's Terminate is about
  std::optional<work::Remote> refused_write;  // where to the Write went that it is about
  bool refused_unnamed_write = false;         // it is about a Write, and does not say which
  bool has_answered_reads = false;            // of the peer

  bool receive_too_small = false;  // the oldest Receive is to blame for the end

  bool may_send = false;  // a responder waits for the initiator's first FPDU
  // The Terminate to send: its length field and its ULPDU.
  std::array<std::byte, kLengthSize + kTerminateSizeMax> terminate{};
  std::size_t terminate_ulpdu_size = 0;  // 0: none

 private:
  void flush_reads();
  std::uint32_t& outstanding(WorkKind kind) noexcept;
};

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_STREAM_STATE_H_
