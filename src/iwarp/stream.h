// An established iWARP stream: MPA framing, DDP placement and RDMAP messages (RFC 5044, 5041, 5040)
// over an ordered byte stream, without touching a socket.
//
// Drive it: post work at any time; start() it when set-up is done. To receive, read into
// receive_room() and say how much with handle_received(). To send, write what transmit() gives and
// say how much with handle_sent(), until transmit() gives nothing. Then poll_completions(). Between
// receive_room() and handle_received(), and between transmit() and handle_sent(), nothing else may
// be called: the spans point straight into the memory of the upper layer.
//
// Ownership: memory of posted work is the stream's until its completion is polled or the phase is
// kClosed, exposed memory until its revocation completes or the tag is reported as invalidated.
//
// Order: Sends, Writes and Reads start in the order of their posting. A Read that has to wait,
// since as many as the peer serves are in flight, holds up what was posted behind it. Nothing in
// the protocol needs more, and a Send can never overtake a Write that it announces. Exposures and
// revocations are not ordered with them: they take effect at once.
//
// Its queues grow with what is in them; nothing is allocated once they are as long as they ever
// will be.
#ifndef RPCRDMA_IWARP_STREAM_H_
#define RPCRDMA_IWARP_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/random.h"
#include "iwarp/mpa.h"
#include "iwarp/rx.h"
#include "iwarp/stream_state.h"
#include "iwarp/tx.h"
#include "iwarp/work.h"

namespace rpcrdma::iwarp {

class Stream {
 public:
  // Room in the queues, in work requests.
  struct Free {
    std::uint32_t receives;
    std::uint32_t sends;     // Sends, Writes and Reads
    std::uint32_t controls;  // exposures and revocations
    std::uint32_t tags;      // exposures
  };

  // `random` gives the bits of steering tags and addresses, and outlives the stream; so does
  // `blocks`. Null: the stream has its own.
  Stream(const StreamOptions& options, RandomSource& random, BlockPool* blocks = nullptr);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Commands. False: no room, the stream is over, too many spans or 4 GiB and more; nothing was
  // taken.
  [[nodiscard]] bool post_receive(std::uint64_t id, std::span<const MutableBytes> into,
                                  bool signaled = true);
  [[nodiscard]] bool post_send(std::uint64_t id, std::span<const Bytes> from,
                               const SendOptions& how = {});
  // A small Send that is copied, so that it is done at once. False, and nothing done: it is not
  // small, or other work is before it, or its time has not come.
  [[nodiscard]] bool send_now(std::span<const Bytes> from,
                              std::optional<SteeringTag> invalidate = std::nullopt);
  // Does the same for several; returns how many of them are done, from the first on.
  [[nodiscard]] std::size_t send_now(std::span<const CopiedSend> sends) {
    return tx_.send_now(sends);
  }
  // A Receive into one run; what the caller checked: there is room, and the stream is not over.
  void post_plain_receive(std::uint64_t id, MutableBytes into);
  // Posts a Receive without memory, which is taken when a message comes. Precondition:
  // use_memory().
  void post_bare_receive(std::uint64_t id, std::uint32_t size);
  // Outlives the stream.
  void use_memory(ReceiveMemory& memory) noexcept { state_.receive_memory = &memory; }
  [[nodiscard]] bool post_write(std::uint64_t id, std::span<const Bytes> from, RemoteMemory to,
                                bool signaled = true);
  [[nodiscard]] bool post_read(std::uint64_t id, MutableBytes sink, RemoteMemory from,
                               bool signaled = true);
  // Complete at once; tag and address come in the completion. `memory` outlives the tag.
  [[nodiscard]] bool expose_for_reading(std::uint64_t id, Bytes memory, bool signaled = true);
  [[nodiscard]] bool expose_for_writing(std::uint64_t id, MutableBytes memory,
                                        bool signaled = true);
  // Refuses the tag from now on. Completes when nothing of the memory is left to be sent; data that
  // the peer was about to write is discarded. If this cuts a transfer short, the stream ends. A tag
  // that is gone already (invalidated by the peer) completes as well.
  [[nodiscard]] bool revoke(std::uint64_t id, SteeringTag tag, bool signaled = true);
  Free free() const noexcept;

  // Opens the stream. `fpdu_size_max` (128 to kFpduSizeMax) and `segment_size` as for Tx::start().
  void start(const Negotiated& negotiated, std::size_t fpdu_size_max, std::size_t segment_size);
  // Sends one zero-length RDMA Write, which has no effect but bytes on the wire.
  void nudge() { tx_.nudge(); }
  // Ends the stream: all work completes, what was not done as kFlushed; all tags are dead.
  void close();

  // Inputs.
  void handle_received(std::size_t size);
  void handle_sent(std::size_t size);
  // The peer closed, or the connection was lost.
  void handle_end_of_stream();

  // Output of copied Sends that the transport has not taken, to be sent behind close().
  std::span<Bytes> unsent_copies(std::span<Bytes> room) { return tx_.unsent_copies(room); }

  // Replaces handle_received() if nothing has come.
  void handle_nothing_received() noexcept { rx_.rest(); }

  // Outputs. Both give how many entries of `room` are set; none: nothing to do.
  std::size_t receive_room(std::span<MutableBytes> room) { return rx_.receive_room(room); }
  std::size_t transmit(std::span<Bytes> room) { return tx_.transmit(room); }
  // Sets how many bytes of a long message the output has, about, before ends_turn(); 256 KiB.
  void set_turn(std::size_t size) noexcept { tx_.set_turn(size); }
  // Has RDMA Reads that are longer than two pieces of so many bytes requested in such pieces, two
  // at a time: the peer, which may send a long message in one turn, then lets others have theirs.
  // 0: Reads are requested whole, as they are at first. Sends pass Reads either way. Returns
  // whether there are Reads of which pieces are to be requested.
  bool split_reads(std::uint32_t piece) noexcept {
    state_.read_piece = piece;
    return !state_.split_reads.empty();
  }
  // Returns, behind transmit(), whether its output ends inside a long message. A caller that sends
  // for several connections then gives the others their turn.
  bool ends_turn() const noexcept { return tx_.long_messages().end_turn; }
  // Returns, behind transmit(), whether its output has a part of a message above 256 KiB, which
  // set_turn() makes a difference to.
  bool has_long() const noexcept { return tx_.long_messages().are_there; }
  std::size_t poll_completions(std::span<Completion> out) { return state_.poll(out); }
  // Returns the oldest completion without a copy, or null; it stays until it is taken away.
  const Completion* completion() {
    return state_.completions.empty() ? nullptr : &state_.completions.front();
  }
  void drop_completion() { state_.drop_completion(); }

  Phase phase() const noexcept { return state_.phase; }
  const Cause& cause() const noexcept { return state_.cause; }
  // Returns the target of our RDMA Write that the peer's Terminate refuses, if the Terminate names
  // it; its size is 0. The Write may have been complete, since it completes when its bytes are with
  // the transport.
  const std::optional<work::Remote>& refused_write() const noexcept { return state_.refused_write; }
  // Returns whether it refuses an RDMA Write and does not say which: it may lack the header.
  bool refused_unnamed_write() const noexcept { return state_.refused_unnamed_write; }
  const StreamCounters& counters() const noexcept { return state_.counters; }
  const Negotiated& negotiated() const noexcept { return state_.negotiated; }
  bool has_completions() const noexcept { return !state_.completions.empty(); }

 private:
  bool over() const noexcept {
    return state_.phase == Phase::kTerminating || state_.phase == Phase::kClosed;
  }
  SendWork* new_send(std::uint64_t id, WorkKind kind, std::span<const Bytes> from, bool signaled);
  bool completed_exposure(std::uint64_t id, const Exposure* exposure, bool signaled);

  StreamState state_;
  Rx rx_;
  Tx tx_;
};

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_STREAM_H_
