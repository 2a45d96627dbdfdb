#include "iwarp/stream.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"

namespace rpcrdma::iwarp {
namespace {

// Message offsets and Read sizes are 32 bits.
template <class Byte>
bool fits(std::span<const std::span<Byte>> spans) noexcept {
  if (spans.size() == 1) return spans[0].size() <= std::numeric_limits<std::uint32_t>::max();
  if (spans.size() > kSpansMax) return false;
  std::size_t left = std::numeric_limits<std::uint32_t>::max();
  for (const auto& span : spans) {
    if (span.size() > left) return false;
    left -= span.size();
  }
  return true;
}

Opcode send_opcode(const SendOptions& how) noexcept {
  if (how.invalidate) {
    return how.solicited ? Opcode::kSendSolicitedInvalidate : Opcode::kSendInvalidate;
  }
  return how.solicited ? Opcode::kSendSolicited : Opcode::kSend;
}

}  // namespace

Stream::Stream(const StreamOptions& options, RandomSource& random, BlockPool* blocks)
    : state_(options, random, blocks), rx_(state_), tx_(state_) {}

Stream::Free Stream::free() const noexcept {
  const std::uint32_t depth = state_.options.queue_depth;
  // A Read may be complete and polled while its Request is not sent to the last byte: a peer need
  // not wait for that. Its entry is in use so long.
  const auto entries = static_cast<std::uint32_t>(state_.sends.size());
  return {depth - state_.receives_outstanding, depth - std::max(state_.sends_outstanding, entries),
          depth - state_.controls_outstanding, state_.options.exposures - state_.exposed};
}

bool Stream::post_receive(std::uint64_t id, std::span<const MutableBytes> into, bool signaled) {
  if (over() || free().receives == 0 || !fits(into)) return false;
  ++state_.receives_outstanding;
  ReceiveWork& work = state_.receives.extend();
  work.id = id;
  work.signaled = signaled;
  work.is_bare = false;
  state_.receive_spans.store(into, work.into);
  return true;
}

void Stream::post_plain_receive(std::uint64_t id, MutableBytes into) {
  ++state_.receives_outstanding;
  ReceiveWork& work = state_.receives.extend();
  work.id = id;
  work.signaled = true;
  work.is_bare = false;
  state_.receive_spans.store_one(into, work.into);
}

void Stream::post_bare_receive(std::uint64_t id, std::uint32_t size) {
  ++state_.receives_outstanding;
  ReceiveWork& work = state_.receives.extend();
  work.id = id;
  work.signaled = true;
  work.is_bare = true;
  work.into.block = SpanList<std::byte>::kNoBlock;
  work.into.count = 0;
  work.into.size = size;
}

bool Stream::send_now(std::span<const Bytes> from, std::optional<SteeringTag> invalidate) {
  if (!fits(from)) return false;
  return tx_.send_now(send_opcode({invalidate}), invalidate.value_or(SteeringTag{0}), from);
}

// A new entry of the send queue, or null if that cannot be.
SendWork* Stream::new_send(std::uint64_t id, WorkKind kind, std::span<const Bytes> from,
                           bool signaled) {
  if (over() || free().sends == 0 || !fits(from)) return nullptr;
  ++state_.sends_outstanding;
  SendWork& work = state_.sends.extend();
  work.id = id;
  work.kind = kind;
  work.signaled = signaled;
  work.in_flight = false;
  work.address = 0;
  work.sink = {};
  state_.send_spans.store(from, work.from);
  return &work;
}

bool Stream::post_send(std::uint64_t id, std::span<const Bytes> from, const SendOptions& how) {
  SendWork* work = new_send(id, WorkKind::kSend, from, how.signaled);
  if (work == nullptr) return false;
  work->opcode = send_opcode(how);
  work->tag = how.invalidate.value_or(SteeringTag{0});
  return true;
}

bool Stream::post_write(std::uint64_t id, std::span<const Bytes> from, RemoteMemory to,
                        bool signaled) {
  SendWork* work = new_send(id, WorkKind::kWrite, from, signaled);
  if (work == nullptr) return false;
  work->opcode = Opcode::kWrite;
  work->tag = to.tag;
  work->address = to.address;
  return true;
}

bool Stream::post_read(std::uint64_t id, MutableBytes sink, RemoteMemory from, bool signaled) {
  if (sink.size() > std::numeric_limits<std::uint32_t>::max()) return false;
  SendWork* work = new_send(id, WorkKind::kRead, {}, signaled);
  if (work == nullptr) return false;
  work->opcode = Opcode::kReadRequest;
  work->tag = from.tag;
  work->address = from.address;
  work->sink = sink;
  return true;
}

bool Stream::completed_exposure(std::uint64_t id, const Exposure* exposure, bool signaled) {
  RPCRDMA_ASSERT(exposure != nullptr, "slots for exposures are counted");
  ++state_.exposed;
  ++state_.controls_outstanding;
  Completion* completion = state_.complete(WorkKind::kExpose, id, Status::kOk, signaled);
  if (completion == nullptr) return true;
  completion->tag = exposure->tag;
  completion->address = exposure->base;
  return true;
}

bool Stream::expose_for_reading(std::uint64_t id, Bytes memory, bool signaled) {
  if (over() || free().controls == 0 || free().tags == 0) return false;
  return completed_exposure(id, state_.tags.add_source(memory), signaled);
}

bool Stream::expose_for_writing(std::uint64_t id, MutableBytes memory, bool signaled) {
  if (over() || free().controls == 0 || free().tags == 0) return false;
  return completed_exposure(id, state_.tags.add_target(memory, Right::kWrite), signaled);
}

bool Stream::revoke(std::uint64_t id, SteeringTag tag, bool signaled) {
  if (over() || free().controls == 0) return false;
  ++state_.controls_outstanding;
  std::uint64_t sent_end = 0;
  const Exposure* exposure = state_.tags.find(tag);
  if (exposure != nullptr && exposure->right != Right::kSink) {
    sent_end = exposure->sent_end;
    rx_.divert(tag);
    state_.forget(tag);
  }
  state_.revokes.push({id, signaled, sent_end});
  state_.finish_revokes(tx_.sent_total());
  return true;
}

void Stream::start(const Negotiated& negotiated, std::size_t fpdu_size_max,
                   std::size_t segment_size) {
  RPCRDMA_ASSERT(state_.phase == Phase::kWaiting, "a stream is started once");
  state_.negotiated = negotiated;
  state_.negotiated.ird = std::min(negotiated.ird, state_.options.ird);
  state_.negotiated.ord = std::min(negotiated.ord, state_.options.ord);
  state_.phase = Phase::kOpen;
  state_.may_send = negotiated.initiator;
  tx_.start(fpdu_size_max, segment_size);
}

void Stream::close() {
  state_.close({Cause::By::kUs, Fault::kNone, "closed"});
}

void Stream::handle_received(std::size_t size) {
  rx_.handle_received(size);
}

void Stream::handle_sent(std::size_t size) {
  tx_.handle_sent(size);
}

void Stream::handle_end_of_stream() {
  const bool cut = rx_.inside_fpdu();
  state_.close({Cause::By::kPeerClosed, cut ? Fault::kLlpClosed : Fault::kNone,
                cut ? "peer closed the connection inside an FPDU" : "peer closed the connection"});
}

}  // namespace rpcrdma::iwarp
