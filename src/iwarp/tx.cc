#include "iwarp/tx.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace rpcrdma::iwarp {
namespace {

// Measured on loopback: payload up to about 2 KiB is cheaper copied next to its header than sent as
// an entry of its own; more than 24 large FPDUs a call gain nothing; a limit on the number of small
// FPDUs costs most of the throughput, so that the arena's size is their only limit.
constexpr std::size_t kCopyMax = 2048;
constexpr std::size_t kLargeMax = 24;
constexpr std::size_t kArenaSize = BlockPool::kSize;
constexpr std::size_t kPiecesMax = 128;
constexpr std::size_t kMarksMax = 4096;
// The most that one FPDU takes of the arena and of the pieces.
constexpr std::size_t kArenaReserve = kCopyMax + 128;
constexpr std::size_t kPiecesReserve = kSpansMax + 2;

// siw names this tag in zero-length Writes. It is never looked up.
constexpr SteeringTag kEmptyWriteTag{1};

}  // namespace

Tx::Tx(StreamState& state)
    : state_(state), reads_(state), arena_(state.blocks), pieces_(kPiecesMax), marks_(kMarksMax) {}

void Tx::start(std::size_t fpdu_size_max, std::size_t segment_size) {
  fpdu_size_max_ = std::clamp<std::size_t>(fpdu_size_max, 128, kFpduSizeMax);
  segment_size_ = segment_size;
  small_send_end_ = 0;
  if (segment_size == 0) {
    small_send_end_ = kCopyMax + 1;
    while (fpdu_size(kUntaggedSize + small_send_end_ - 1) > fpdu_size_max_) --small_send_end_;
  }
  if (state_.negotiated.initiator) rtr_ = state_.negotiated.rtr;
}

bool Tx::batch_full() const noexcept {
  return batch_ends_ || kArenaSize - arena_used_ < kArenaReserve ||
         pieces_.size() > kPiecesMax - kPiecesReserve || large_in_batch_ >= kLargeMax ||
         marks_.full();
}

// FPDUs that lie one behind the other in the arena go out as one piece: each piece costs the system
// call an entry, and a batch takes kPiecesMax of them.
inline void Tx::add_piece(const std::byte* data, std::size_t size) {
  if (data == pieces_end_) {
    Bytes& last = pieces_.back();
    last = {last.data(), last.size() + size};
  } else {
    pieces_.push({data, size});
  }
  pieces_end_ = data + size;
}

void Tx::begin_batch() {
  arena_used_ = 0;
  large_in_batch_ = 0;
  batch_start_ = built_total_;
  batch_ends_ = false;
  long_ = {};
}

void Tx::build() {
  begin_batch();
  if (state_.phase == Phase::kOpen && state_.may_send) {
    while (!batch_full() && pick() && build_fpdu()) {
    }
  }
  if (!pieces_.empty()) return;
  if (state_.phase == Phase::kTerminating && state_.terminate_ulpdu_size > 0) build_terminate();
  if (pieces_.empty()) finish_marks();
}

// Chooses the next message when none is half built; false when there is nothing to send. Read
// Responses and our own work take turns, so that neither starves.
bool Tx::pick() {
  if (current_ != Current::kNone) return true;
  if (rtr_ != Rtr::kNone) {
    build_rtr();
    if (batch_full()) return false;
  }
  if (nudge_) {
    if (ends_batch_before(fpdu_size(kTaggedSize))) return false;
    build_empty_write();
  }
  while (reads_.may_go_on()) {
    if (batch_full() || ends_batch_before(fpdu_size(kUntaggedSize + kReadRequestSize)))
      return false;
    build_read_request(reads_.go_on());
  }
  const bool response = !state_.responses.empty();
  if (response && !response_was_last_) {
    current_ = Current::kResponse;
  } else if (start_work()) {
    current_ = Current::kWork;
  } else if (response) {
    current_ = Current::kResponse;
  } else {
    return false;
  }
  response_was_last_ = current_ == Current::kResponse;
  return true;
}

// True when there is a message of ours to send. Work starts in the order of its posting: a Read
// that waits for one in flight to finish holds up what is behind it.
bool Tx::start_work() {
  offset_ = 0;
  if (built_works_ == state_.sends.size()) return false;
  const SendWork& work = state_.sends.at(built_works_);
  return work.kind != WorkKind::kRead || reads_.may_start(work);
}

std::size_t Tx::payload_limit(Opcode opcode, std::size_t left) const noexcept {
  const std::size_t header = header_size(opcode);
  const std::size_t overhead = kLengthSize + header + kCrcSize;
  const std::size_t room = std::min(fpdu_size_max_ - overhead, kUlpduSizeMax - header);
  // All but the last FPDU of a message end on a multiple of eight of payload, as siw's do.
  const std::size_t limit = room & ~std::size_t{3};
  if (left <= limit) return left;
  for (std::size_t size = limit; size + 16 > limit; size -= 4) {
    if (!cuts_crc(fpdu_size(header + size))) return size;
  }
  return limit;
}

// siw (6.1 to 6.12) reports a CRC error when the CRC's four bytes arrive in two TCP segments. Each
// batch is taken to start a new segment.
bool Tx::cuts_crc(std::size_t size) const noexcept {
  if (segment_size_ == 0) return false;
  const std::uint64_t end = built_total_ - batch_start_ + size;
  return (end - 1) / segment_size_ != (end - kCrcSize) / segment_size_;
}

// An FPDU whose size is given would have its CRC cut here: the next batch, which starts a segment,
// begins with it.
bool Tx::ends_batch_before(std::size_t size) noexcept {
  if (built_total_ == batch_start_ || !cuts_crc(size)) return false;
  batch_ends_ = true;
  return true;
}

bool Tx::build_fpdu() {
  if (current_ == Current::kResponse) return build_response_fpdu();
  SendWork& work = state_.sends.at(built_works_);
  if (work.kind == WorkKind::kRead) {
    if (ends_batch_before(fpdu_size(kUntaggedSize + kReadRequestSize))) return true;
    if (const auto request = reads_.start(work)) build_read_request(*request);
    finish_work();
    return true;
  }
  if (!build_small_send(work)) build_work_fpdu(work);
  return true;
}

// Builds the most common message in one step: a whole Send in one FPDU that lies in the arena.
// False: the message is of another kind. A Send that fits is never built in parts, so that this is
// its start.
bool Tx::build_small_send(const SendWork& work) {
  if (work.kind != WorkKind::kSend || work.from.size >= small_send_end_) return false;
  put_small_send(work.opcode, work.tag, work.from.size, [&](std::byte* at) {
    for (const auto& run : state_.send_spans.view(work.from)) {
      std::memcpy(at, run.data, run.size);
      at += run.size;
    }
  });
  finish_work();
  return true;
}

bool Tx::send_now(Opcode opcode, SteeringTag tag, std::span<const Bytes> spans) {
  std::size_t size = 0;
  for (const Bytes span : spans) size += span.size();
  if (size >= small_send_end_ || !begin_send_now()) return false;
  put_small_send(opcode, tag, size, [&](std::byte* at) {
    for (const Bytes span : spans) {
      if (!span.empty()) std::memcpy(at, span.data(), span.size());
      at += span.size();
    }
  });
  return true;
}

std::size_t Tx::send_now(std::span<const CopiedSend> sends) {
  if (!begin_send_now()) return 0;
  arena_.hold();
  const std::byte* const begin = &arena_[arena_used_];
  const std::byte* const full = &arena_[0] + kArenaSize - kArenaReserve;
  std::byte* at = &arena_[arena_used_];
  std::size_t count = 0, payload_size = 0;
  for (const CopiedSend& send : sends) {
    const Bytes message = send.message;
    if (message.size() >= small_send_end_ || at > full) break;
    at = write_small_send(at, send.invalidates ? Opcode::kSendInvalidate : Opcode::kSend,
                          send.invalidate, message.size(), [message](std::byte* to) {
                            if (!message.empty()) std::memcpy(to, message.data(), message.size());
                          });
    payload_size += message.size();
    ++count;
  }
  if (count > 0) end_small_sends(begin, at, payload_size, count);
  return count;
}

// Returns whether a Send may be built now, behind the output that is already built.
bool Tx::begin_send_now() noexcept {
  const bool next = state_.phase == Phase::kOpen && state_.may_send && state_.sends.empty() &&
                    current_ == Current::kNone && rtr_ == Rtr::kNone && !nudge_;
  if (!next) return false;
  if (pieces_.empty()) begin_batch();
  // Behind payload that lies elsewhere it could not be kept if the connection were closed now.
  return large_in_batch_ == 0 && !batch_full();
}

template <class Copy>
void Tx::put_small_send(Opcode opcode, SteeringTag tag, std::size_t size, Copy copy_to) {
  arena_.hold();
  std::byte* const begin = &arena_[arena_used_];
  end_small_sends(begin, write_small_send(begin, opcode, tag, size, copy_to), size, 1);
}

// Returns where it ends.
template <class Copy>
std::byte* Tx::write_small_send(std::byte* at, Opcode opcode, SteeringTag tag, std::size_t size,
                                Copy copy_to) {
  const std::size_t ulpdu_size = kUntaggedSize + size;
  std::byte* const begin = at;
  encode_send_header(opcode, static_cast<std::uint16_t>(ulpdu_size), tag, send_msn_, at);
  at += kLengthSize + kUntaggedSize;
  copy_to(at);
  at += size;
  std::memset(at, 0, 3 + kCrcSize);  // as much as pad and CRC can be
  at += pad_size(ulpdu_size);
  if (state_.negotiated.crc) {
    Crc32c crc;
    crc.add({begin, static_cast<std::size_t>(at - begin)});
    store_crc(at, crc.value());
  }
  ++send_msn_;
  return at + kCrcSize;
}

// `count` of them lie there, one behind the other.
void Tx::end_small_sends(const std::byte* begin, const std::byte* end, std::size_t payload_size,
                         std::size_t count) {
  const auto built = static_cast<std::size_t>(end - begin);
  add_piece(begin, built);
  arena_used_ += built;
  built_total_ += built;
  StreamCounters& counters = state_.counters;
  counters.fpdus_sent += count;
  counters.sends += count;
  counters.bytes_copied += payload_size;
  counters.payload_sent += payload_size;
}

void Tx::build_work_fpdu(SendWork& work) {
  const std::uint32_t left = work.from.size - offset_;
  const std::size_t size = payload_limit(work.opcode, left);
  const bool last = size == left;
  if (last && ends_batch_before(fpdu_size(header_size(work.opcode) + size))) return;
  Header header;
  header.opcode = work.opcode;
  header.last = last;
  header.ulpdu_size = static_cast<std::uint16_t>(header_size(work.opcode) + size);
  header.tag = work.tag;
  if (work.kind == WorkKind::kWrite) {
    header.address = work.address + offset_;
  } else {
    header.queue = kQueueSend;
    header.sequence = send_msn_;
    header.offset = offset_;
  }
  begin_fpdu(header);
  const bool copy = size <= kCopyMax;
  if (!copy) ++large_in_batch_;
  state_.send_spans.for_each(work.from, offset_, size, [&](Bytes part) {
    copy ? copy_payload(part) : refer_payload(part);
    return true;
  });
  end_fpdu();
  offset_ += static_cast<std::uint32_t>(size);
  state_.counters.payload_sent += size;
  if (!last) return end_turn_of(work.from.size);
  if (work.kind == WorkKind::kWrite) {
    ++state_.counters.writes;
  } else {
    ++state_.counters.sends;
    ++send_msn_;
  }
  finish_work();
}

// Ends the turn of a long message, behind an FPDU that is not the last of it.
void Tx::end_turn_of(std::uint64_t message_size) noexcept {
  long_.are_there = long_.are_there || message_size > kTurn;
  if (message_size <= turn_ || built_total_ - batch_start_ < turn_) return;
  long_.end_turn = batch_ends_ = true;
}

void Tx::finish_work() {
  ++built_works_;
  marks_.push({built_total_, false});
  current_ = Current::kNone;
}

// False when the memory is gone: the peer's Read cannot be finished, which ends the stream.
bool Tx::build_response_fpdu() {
  ReadResponse& response = state_.responses.front();
  const ReadRequest& request = response.request;
  const std::uint32_t left = request.size - response.sent;
  const std::size_t size = payload_limit(Opcode::kReadResponse, left);
  if (size == left && ends_batch_before(fpdu_size(kTaggedSize + size))) return true;
  Exposure* source = nullptr;
  if (size > 0 &&
      state_.tags.check(request.source_tag, Right::kRead, request.source_address + response.sent,
                        size, &source) != TagTable::Verdict::kOk) {
    state_.fail(Fault::kProtectionInvalidStag, {});
    return false;
  }
  Header header;
  header.opcode = Opcode::kReadResponse;
  header.last = size == left;
  header.ulpdu_size = static_cast<std::uint16_t>(kTaggedSize + size);
  header.tag = request.sink_tag;
  header.address = request.sink_address + response.sent;
  begin_fpdu(header);
  if (size > 0) {
    const Bytes part(source->source + (request.source_address + response.sent - source->base),
                     size);
    if (size <= kCopyMax) {
      copy_payload(part);
    } else {
      ++large_in_batch_;
      refer_payload(part);
    }
  }
  end_fpdu();
  if (source != nullptr && size > kCopyMax) source->sent_end = built_total_;
  response.sent += static_cast<std::uint32_t>(size);
  state_.counters.payload_sent += size;
  if (header.last) {
    state_.responses.drop();
    current_ = Current::kNone;
  } else {
    end_turn_of(request.size);
  }
  return true;
}

void Tx::build_read_request(const ReadRequest& request) {
  Header header;
  header.opcode = Opcode::kReadRequest;
  header.last = true;
  header.ulpdu_size = static_cast<std::uint16_t>(kUntaggedSize + kReadRequestSize);
  header.queue = kQueueReadRequest;
  header.sequence = read_msn_++;
  begin_fpdu(header);
  std::array<std::byte, kReadRequestSize> payload{};
  encode_read_request(request, payload.data());
  put(payload);
  end_fpdu();
}

void Tx::build_empty_write() {
  nudge_ = false;
  Header header;
  header.opcode = Opcode::kWrite;
  header.last = true;
  header.ulpdu_size = static_cast<std::uint16_t>(kTaggedSize);
  header.tag = kEmptyWriteTag;
  begin_fpdu(header);
  end_fpdu();
}

// The first message of a peer-to-peer stream, RFC 6581 §9.2.
void Tx::build_rtr() {
  const Rtr rtr = rtr_;
  rtr_ = Rtr::kNone;
  if (rtr == Rtr::kWrite) return build_empty_write();
  if (rtr == Rtr::kRead) {
    const Exposure* sink = state_.tags.add_target({}, Right::kSink);
    RPCRDMA_ASSERT(sink != nullptr, "a sink for each Read is reserved");
    state_.reads.push({0, false, true, true, sink->tag, sink->base, {}, 0});
    return build_read_request({sink->tag, sink->base, 0, kEmptyWriteTag, 0});
  }
  Header header;
  header.opcode = Opcode::kSend;
  header.last = true;
  header.ulpdu_size = static_cast<std::uint16_t>(kUntaggedSize);
  header.sequence = send_msn_++;
  begin_fpdu(header);
  end_fpdu();
}

void Tx::build_terminate() {
  const Header header = decode_header(state_.terminate);
  begin_fpdu(header);
  put(Bytes(state_.terminate).subspan(kLengthSize + kUntaggedSize, header.payload_size));
  end_fpdu();
  state_.terminate_ulpdu_size = 0;
  marks_.push({built_total_, true});
}

void Tx::begin_fpdu(const Header& header) {
  arena_.hold();
  fpdu_begin_ = arena_used_;
  fpdu_ulpdu_size_ = header.ulpdu_size;
  fpdu_refers_ = false;
  arena_used_ += encode_header(header, &arena_[arena_used_]);
}

void Tx::put(Bytes bytes) {
  std::memcpy(&arena_[arena_used_], bytes.data(), bytes.size());
  arena_used_ += bytes.size();
}

void Tx::copy_payload(Bytes payload) {
  put(payload);
  state_.counters.bytes_copied += payload.size();
}

void Tx::refer_payload(Bytes payload) {
  if (!fpdu_refers_) {
    fpdu_refers_ = true;
    const Bytes header(&arena_[fpdu_begin_], arena_used_ - fpdu_begin_);
    add_piece(header.data(), header.size());
    crc_ = Crc32c();
    if (state_.negotiated.crc) crc_.add(header);
    fpdu_begin_ = arena_used_;
  }
  if (state_.negotiated.crc) crc_.add(payload);
  add_piece(payload.data(), payload.size());
}

// A small FPDU lies in one piece, whose CRC is one pass.
void Tx::end_fpdu() {
  const std::size_t pad = pad_size(fpdu_ulpdu_size_);
  std::memset(&arena_[arena_used_], 0, pad + kCrcSize);
  arena_used_ += pad;
  if (state_.negotiated.crc) {
    if (!fpdu_refers_) crc_ = Crc32c();
    crc_.add(Bytes(&arena_[fpdu_begin_], arena_used_ - fpdu_begin_));
    store_crc(&arena_[arena_used_], crc_.value());
  }
  arena_used_ += kCrcSize;
  add_piece(&arena_[fpdu_begin_], arena_used_ - fpdu_begin_);
  built_total_ += fpdu_size(fpdu_ulpdu_size_);
  ++state_.counters.fpdus_sent;
}

std::span<Bytes> Tx::unsent_copies(std::span<Bytes> room) {
  if (large_in_batch_ > 0 || state_.phase != Phase::kOpen) return {};
  const std::size_t count = std::min(room.size(), pieces_.size());
  for (std::size_t i = 0; i < count; ++i) room[i] = pieces_.at(i);
  return room.first(count);
}

std::size_t Tx::transmit(std::span<Bytes> room) {
  // The rest of a batch refers to memory that is no longer ours.
  if (state_.phase == Phase::kClosed) return 0;
  if (pieces_.empty()) build();
  const std::size_t count = std::min(room.size(), pieces_.size());
  for (std::size_t i = 0; i < count; ++i) room[i] = pieces_.at(i);
  return count;
}

void Tx::handle_sent(std::size_t size) {
  sent_total_ += size;
  state_.counters.bytes_sent += size;
  while (size > 0) {
    Bytes& piece = pieces_.front();
    const std::size_t part = std::min(size, piece.size());
    size -= part;
    if (part < piece.size()) {
      piece = piece.subspan(part);
    } else {
      pieces_.drop();
    }
  }
  if (pieces_.empty()) {
    arena_.release();
    pieces_end_ = nullptr;
  }
  finish_marks();
  if (state_.phase != Phase::kClosed) state_.finish_revokes(sent_total_);
}

void Tx::finish_marks() {
  while (!marks_.empty() && marks_.front().end <= sent_total_) {
    if (marks_.pop().terminate) return state_.close({});
    SendWork& work = state_.sends.front();
    --built_works_;
    state_.send_spans.release(work.from);
    if (!work.in_flight) state_.complete(work.kind, work.id, Status::kOk, work.signaled);
    state_.sends.drop();
  }
}

}  // namespace rpcrdma::iwarp
