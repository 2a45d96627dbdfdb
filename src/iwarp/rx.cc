#include "iwarp/rx.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/assert.h"
#include "iwarp/byte_order.h"

namespace rpcrdma::iwarp {
namespace {

// Measured on loopback: 64 KiB of staging for small traffic; while large FPDUs come, little staging
// behind the payload, so that the next header is read along and hardly any payload has to be
// copied. Large FPDUs are expected while there is a place for one that the peer may fill, unless it
// has shown that its segments are small, and for some FPDUs after one came.
constexpr std::size_t kStagingSize = BlockPool::kSize;
constexpr std::size_t kSmallFpdu = 8 * 1024;
constexpr std::size_t kBulkIdleRoom = 1024;
constexpr std::size_t kBulkTailRoom = 256;
constexpr int kBulkFpdus = 8;

Fault tagged_fault(TagTable::Verdict verdict) noexcept {
  switch (verdict) {
    case TagTable::Verdict::kInvalidTag:
      return Fault::kTaggedInvalidStag;
    case TagTable::Verdict::kAccess:
      return Fault::kProtectionAccess;  // DDP has no code of its own for rights
    case TagTable::Verdict::kBounds:
      return Fault::kTaggedBounds;
    case TagTable::Verdict::kWrap:
      return Fault::kTaggedWrap;
    case TagTable::Verdict::kOk:
      break;
  }
  return Fault::kNone;
}

// Returns whether the fault is about memory that the other side has named.
bool refuses_memory(Fault fault) noexcept {
  const bool is_tagged = fault >= Fault::kTaggedInvalidStag && fault <= Fault::kTaggedWrap;
  const bool is_protection =
      fault >= Fault::kProtectionInvalidStag && fault <= Fault::kProtectionUnspecified;
  return is_tagged || (is_protection && fault != Fault::kProtectionCannotInvalidate);
}

Fault read_fault(TagTable::Verdict verdict) noexcept {
  switch (verdict) {
    case TagTable::Verdict::kInvalidTag:
      return Fault::kProtectionInvalidStag;
    case TagTable::Verdict::kAccess:
      return Fault::kProtectionAccess;
    case TagTable::Verdict::kBounds:
      return Fault::kProtectionBounds;
    case TagTable::Verdict::kWrap:
      return Fault::kProtectionWrap;
    case TagTable::Verdict::kOk:
      break;
  }
  return Fault::kNone;
}

}  // namespace

Rx::Rx(StreamState& state) : state_(state), staging_(state.blocks) {}

Bytes Rx::staged() const noexcept {
  return {staging_.data() + begin_, end_ - begin_};
}

// Returns how many bytes to ask for between FPDUs.
std::size_t Rx::idle_room() const noexcept {
  const bool expected = bulk_ > 0 || (!small_segments_ && state_.tags.large_targets() > 0);
  if (!expected || state_.phase != Phase::kOpen) return kStagingSize;
  std::size_t room = kBulkIdleRoom;
  if (mode_ == Mode::kHeader && end_ - begin_ >= kLengthSize) {
    // The rest of a small FPDU in one go.
    const std::size_t size = fpdu_size(load16(&staging_[begin_]));
    if (size <= kSmallFpdu) room = std::max(room, size + kBulkTailRoom - (end_ - begin_));
  }
  return room;
}

std::size_t Rx::receive_room(std::span<MutableBytes> room) {
  direct_offered_ = 0;
  if (room.empty() || (state_.phase != Phase::kOpen && state_.phase != Phase::kTerminating)) {
    return 0;
  }
  if (begin_ == end_) begin_ = end_ = 0;
  staging_.hold();
  // Behind a fault nothing is placed any more, only thrown away.
  const bool direct = state_.phase == Phase::kOpen && mode_ == Mode::kPayload &&
                      (place_ == Place::kReceive || place_ == Place::kMemory);
  if (!direct) {
    if (kStagingSize - end_ < kStagingSize / 4) {
      std::memmove(staging_.data(), &staging_[begin_], end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    room[0] = {&staging_[end_], std::min(idle_room(), kStagingSize - end_)};
    return 1;
  }
  // Staged bytes belong to the payload first, so nothing is staged here.
  std::size_t count = 0;
  const std::size_t left = header_.payload_size - placed_;
  if (place_ == Place::kMemory) {
    room[count++] = {target_ + placed_, left};
    direct_offered_ = left;
  } else {
    state_.receive_spans.for_each(state_.receives.front().into, header_.offset + placed_, left,
                                  [&](MutableBytes part) {
                                    if (count == room.size()) return false;
                                    room[count++] = part;
                                    direct_offered_ += part.size();
                                    return true;
                                  });
  }
  if (direct_offered_ == left && count < room.size()) {
    room[count++] = {staging_.data(), kBulkTailRoom};
  }
  return count;
}

void Rx::handle_received(std::size_t size) {
  state_.counters.bytes_received += size;
  const std::size_t direct = std::min(size, direct_offered_);
  direct_offered_ = 0;
  if (direct > 0) {
    if (state_.negotiated.crc) {
      if (place_ == Place::kMemory) {
        crc_.add({target_ + placed_, direct});
      } else {
        state_.receive_spans.for_each(state_.receives.front().into, header_.offset + placed_,
                                      direct, [&](Bytes part) {
                                        crc_.add(part);
                                        return true;
                                      });
      }
    }
    placed_ += direct;
    if (placed_ == header_.payload_size) mode_ = Mode::kTrailer;
  }
  end_ += size - direct;
  while (state_.phase == Phase::kOpen && parse()) {
  }
  if (state_.phase != Phase::kOpen) begin_ = end_ = 0;  // nothing more is read
  rest();
}

// One step; false when more bytes are needed or the stream has ended.
bool Rx::parse() {
  switch (mode_) {
    case Mode::kHeader:
      return parse_header();
    case Mode::kPayload:
      return parse_payload();
    case Mode::kTrailer:
      return parse_trailer();
  }
  return false;
}

void Rx::fail(Fault fault) {
  if (mode_ == Mode::kHeader) {
    state_.fail(fault, staged());
  } else {
    state_.fail(fault, large_header_);
  }
}

bool Rx::parse_header() {
  const Bytes bytes = staged();
  if (take_small_send(bytes)) return true;
  if (bytes.size() < kLengthSize + kControlSize) return false;
  const std::size_t ulpdu_size = load16(bytes.data());
  if (first_ && ulpdu_size == 0 && check_rtr()) return parse_small(fpdu_size(0));
  // Checked before the rest is there: an FPDU that cannot be right is not waited for.
  if (const Fault fault = check_start(bytes); fault != Fault::kNone) {
    fail(fault);
    return false;
  }
  const std::size_t size = fpdu_size(ulpdu_size);
  return size <= kSmallFpdu ? parse_small(size) : parse_large();
}

// Takes the most common FPDU in one step: a whole, small, plain Send that is next in turn and fits
// its Receive. False, and nothing done: the FPDU is of another kind, incomplete or faulty.
bool Rx::take_small_send(Bytes bytes) {
  constexpr std::size_t kHeader = kLengthSize + kUntaggedSize;
  if (bytes.size() < kHeader + kCrcSize || first_ || message_open_ || state_.receives.empty()) {
    return false;
  }
  const std::byte* at = bytes.data();
  const std::size_t ulpdu_size = load16(at);
  const std::size_t size = fpdu_size(ulpdu_size);
  if (size > bytes.size() || size > kSmallFpdu || ulpdu_size < kUntaggedSize ||
      !is_plain_send(at, send_msn_)) {
    return false;
  }
  const std::size_t payload_size = ulpdu_size - kUntaggedSize;
  ReceiveWork& work = state_.receives.front();
  if (payload_size > work.into.size) return false;
  if (state_.negotiated.crc) {
    Crc32c crc;
    crc.add(bytes.first(size - kCrcSize));
    if (crc.value() != load_crc(at + size - kCrcSize)) return false;
  }
  const std::byte* from = at + kHeader;
  state_.clothe(work, payload_size, true);
  state_.receive_spans.for_each(work.into, 0, payload_size, [&](MutableBytes part) {
    std::memcpy(part.data(), from, part.size());
    from += part.size();
    return true;
  });
  state_.receive_spans.release(work.into);
  Completion* completion = state_.complete(WorkKind::kReceive, work.id, Status::kOk, work.signaled);
  if (completion != nullptr) completion->size = static_cast<std::uint32_t>(payload_size);
  state_.receives.drop();
  StreamCounters& counters = state_.counters;
  ++counters.fpdus_received;
  counters.payload_received += payload_size;
  counters.bytes_copied += payload_size;
  ++send_msn_;
  if (bulk_ > 0) --bulk_;
  state_.may_send = true;
  begin_ += size;
  return true;
}

// The whole FPDU is staged before anything of it is used.
bool Rx::parse_small(std::size_t size) {
  const Bytes bytes = staged();
  if (bytes.size() < size) return false;
  const Bytes fpdu = bytes.first(size);
  if (state_.negotiated.crc) {
    Crc32c crc;
    crc.add(fpdu.first(size - kCrcSize));
    if (crc.value() != load_crc(&fpdu[size - kCrcSize])) {
      fail(Fault::kLlpCrc);
      return false;
    }
  }
  if (load16(fpdu.data()) == 0) {  // the peer-to-peer opener without any content
    first_ = false;
    state_.may_send = true;
    ++state_.counters.fpdus_received;
    begin_ += size;
    return true;
  }
  decode_header(fpdu, header_);
  placed_ = 0;
  if (!check(fpdu)) return false;
  place(fpdu.subspan(kLengthSize + header_size(header_.opcode), header_.payload_size));
  if (bulk_ > 0) --bulk_;
  if (!header_.last) small_segments_ = true;
  commit();
  begin_ += size;
  return true;
}

bool Rx::parse_large() {
  const Bytes bytes = staged();
  header_ = {};
  const auto opcode = static_cast<Opcode>(std::to_integer<unsigned>(bytes[3]) & 0x0fU);
  const std::size_t size = kLengthSize + header_size(opcode);
  if (bytes.size() < size) return false;
  decode_header(bytes, header_);
  placed_ = 0;
  if (opcode == Opcode::kTerminate) {  // far too long; that it is one says enough
    take_terminate({});
    return false;
  }
  if (opcode == Opcode::kReadRequest) {
    fail(Fault::kUntaggedTooLong);
    return false;
  }
  if (!check(bytes.first(size))) return false;
  std::memcpy(large_header_.data(), bytes.data(), size);
  crc_ = Crc32c();
  if (state_.negotiated.crc) crc_.add(bytes.first(size));
  begin_ += size;
  bulk_ = kBulkFpdus;
  small_segments_ = false;
  mode_ = Mode::kPayload;
  return true;
}

bool Rx::parse_payload() {
  const Bytes bytes = staged();
  const std::size_t size = std::min<std::size_t>(bytes.size(), header_.payload_size - placed_);
  if (size == 0) return false;
  const Bytes part = bytes.first(size);
  if (state_.negotiated.crc) crc_.add(part);
  place(part);
  begin_ += size;
  if (placed_ == header_.payload_size) mode_ = Mode::kTrailer;
  return true;
}

bool Rx::parse_trailer() {
  const Bytes bytes = staged();
  const std::size_t pad = pad_size(header_.ulpdu_size);
  if (bytes.size() < pad + kCrcSize) return false;
  if (state_.negotiated.crc) {
    crc_.add(bytes.first(pad));
    if (crc_.value() != load_crc(&bytes[pad])) {
      fail(Fault::kLlpCrc);
      return false;
    }
  }
  begin_ += pad + kCrcSize;
  if (diverted_) {
    diverted_ = false;
    fail(Fault::kTaggedInvalidStag);
    return false;
  }
  commit();  // it may fail, and names this header then
  mode_ = Mode::kHeader;
  return true;
}

// All that must hold before the first payload byte is placed.
bool Rx::check(Bytes fpdu) {
  place_ = Place::kNone;
  switch (header_.opcode) {
    case Opcode::kWrite:
      return check_write();
    case Opcode::kReadResponse:
      return check_read_response();
    case Opcode::kReadRequest:
      return check_read_request(fpdu.subspan(kLengthSize + kUntaggedSize));
    case Opcode::kTerminate:
      take_terminate(fpdu.subspan(kLengthSize + kUntaggedSize, header_.payload_size));
      return false;
    case Opcode::kSend:
    case Opcode::kSendInvalidate:
    case Opcode::kSendSolicited:
    case Opcode::kSendSolicitedInvalidate:
      return check_send();
  }
  return false;
}

// A responder that agreed on the peer-to-peer model expects an opener without content.
bool Rx::check_rtr() {
  return first_ && !state_.negotiated.initiator && state_.negotiated.rtr != Rtr::kNone;
}

bool Rx::check_send() {
  Fault fault = Fault::kNone;
  if (header_.queue != kQueueSend) {
    fault = Fault::kUntaggedQueue;
  } else if (header_.sequence != send_msn_) {
    fault = Fault::kUntaggedMsn;
  } else if (header_.offset != message_size_) {
    fault = Fault::kUntaggedOffset;
  } else if (check_rtr() && header_.last && header_.payload_size == 0) {
    return true;  // takes no Receive
  } else if (state_.receives.empty()) {
    fault = Fault::kUntaggedNoBuffer;
  } else if (header_.payload_size > state_.receives.front().into.size - message_size_) {
    fault = Fault::kUntaggedTooLong;
    state_.receive_too_small = true;
  } else if (message_open_ && (header_.opcode != message_opcode_ || header_.tag != message_tag_)) {
    fault = Fault::kOperationOpcode;
  }
  if (fault != Fault::kNone) {
    fail(fault);
    return false;
  }
  if (header_.last && invalidates(header_.opcode) && !check_invalidate()) return false;
  state_.clothe(state_.receives.front(), header_.payload_size, header_.last);
  place_ = Place::kReceive;
  return true;
}

bool Rx::check_invalidate() {
  const Exposure* exposure = state_.tags.find(header_.tag);
  if (exposure == nullptr || exposure->right == Right::kSink) {
    fail(Fault::kProtectionCannotInvalidate);
    return false;
  }
  return check_not_sending(*exposure);
}

// A peer that takes back what it is still reading: the memory could not be handed back at once.
bool Rx::check_not_sending(const Exposure& exposure) {
  if (exposure.sent_end <= state_.counters.bytes_sent) return true;
  fail(Fault::kOperationCannotInvalidate);
  return false;
}

bool Rx::check_write() {
  // A Write of nothing does not name memory: siw puts STag 1 there, RFC 5040 does not ask for more.
  if (header_.payload_size == 0) return true;
  Exposure* exposure = nullptr;
  const auto verdict = state_.tags.check(header_.tag, Right::kWrite, header_.address,
                                         header_.payload_size, &exposure);
  if (verdict != TagTable::Verdict::kOk) {
    fail(tagged_fault(verdict));
    return false;
  }
  place_ = Place::kMemory;
  target_ = exposure->target + (header_.address - exposure->base);
  return true;
}

// Responses come in the order of our Requests, each without gaps.
bool Rx::check_read_response() {
  Fault fault = Fault::kNone;
  if (state_.reads.empty()) {
    fail(Fault::kOperationOpcode);
    return false;
  }
  const ReadInFlight& read = state_.reads.front();
  const std::size_t left = read.sink.size() - read.received;
  if (header_.tag != read.sink_tag) {
    fault = Fault::kTaggedInvalidStag;
  } else if (header_.address != read.sink_address + read.received || header_.payload_size > left ||
             (header_.last && header_.payload_size != left)) {
    fault = Fault::kTaggedBounds;
  }
  if (fault != Fault::kNone) {
    fail(fault);
    return false;
  }
  place_ = Place::kMemory;
  target_ = read.sink.data() + read.received;
  return true;
}

bool Rx::check_read_request(Bytes payload) {
  Fault fault = Fault::kNone;
  const std::size_t allowed = state_.negotiated.ird + (check_rtr() ? 1U : 0U);
  if (header_.queue != kQueueReadRequest) {
    fault = Fault::kUntaggedQueue;
  } else if (header_.sequence != read_msn_) {
    fault = Fault::kUntaggedMsn;
  } else if (header_.offset != 0) {
    fault = Fault::kUntaggedOffset;
  } else if (!header_.last || header_.payload_size != kReadRequestSize) {
    fault = Fault::kUntaggedTooLong;
  } else if (state_.responses.size() >= allowed) {
    fault = Fault::kOperationStream;
  } else {
    const ReadRequest request = decode_read_request(payload);
    Exposure* exposure = nullptr;
    if (request.size > 0) {
      fault = read_fault(state_.tags.check(request.source_tag, Right::kRead, request.source_address,
                                           request.size, &exposure));
    }
    if (fault == Fault::kNone &&
        request.sink_address > std::numeric_limits<std::uint64_t>::max() - request.size) {
      fault = Fault::kProtectionWrap;
    }
    if (fault == Fault::kNone) {
      state_.responses.push({request, 0});
      state_.has_answered_reads = true;
    }
  }
  if (fault != Fault::kNone) fail(fault);
  return fault == Fault::kNone;
}

void Rx::place(Bytes payload) {
  switch (place_) {
    case Place::kNone:
      break;
    case Place::kDiscard:
      placed_ += payload.size();
      break;
    case Place::kMemory:
      if (!payload.empty()) std::memcpy(target_ + placed_, payload.data(), payload.size());
      placed_ += payload.size();
      state_.counters.bytes_copied += payload.size();
      break;
    case Place::kReceive:
      state_.receive_spans.for_each(state_.receives.front().into, header_.offset + placed_,
                                    payload.size(), [&](MutableBytes part) {
                                      std::memcpy(part.data(), payload.data(), part.size());
                                      payload = payload.subspan(part.size());
                                      placed_ += part.size();
                                      state_.counters.bytes_copied += part.size();
                                      return true;
                                    });
      break;
  }
}

// The FPDU is whole and its CRC good.
void Rx::commit() {
  ++state_.counters.fpdus_received;
  if (is_send(header_.opcode)) {
    commit_send();
  } else if (header_.opcode == Opcode::kReadResponse) {
    commit_read_response();
  } else if (header_.opcode == Opcode::kWrite) {
    state_.counters.payload_received += header_.payload_size;
  } else {
    ++read_msn_;
  }
  first_ = false;
  state_.may_send = true;
}

void Rx::commit_send() {
  if (header_.last && invalidates(header_.opcode)) {
    // A large FPDU takes its time; a Read may have begun since its header was checked.
    const Exposure* exposure = state_.tags.find(header_.tag);
    if (exposure != nullptr && !check_not_sending(*exposure)) return;
  }
  state_.counters.payload_received += header_.payload_size;
  message_size_ += header_.payload_size;
  message_open_ = !header_.last;
  message_opcode_ = header_.opcode;
  message_tag_ = header_.tag;
  if (!header_.last) return;
  ++send_msn_;
  const std::uint32_t size = message_size_;
  message_size_ = 0;
  if (place_ != Place::kReceive) return;  // a peer-to-peer opener
  const bool invalidated = invalidates(header_.opcode);
  if (invalidated) state_.forget(header_.tag);
  ReceiveWork& work = state_.receives.front();
  state_.receive_spans.release(work.into);
  Completion* completion = state_.complete(WorkKind::kReceive, work.id, Status::kOk, work.signaled);
  state_.receives.drop();
  if (completion == nullptr) return;
  completion->size = size;
  if (invalidated) completion->tag = header_.tag;
}

void Rx::commit_read_response() {
  state_.counters.payload_received += header_.payload_size;
  ReadInFlight& read = state_.reads.front();
  read.received += header_.payload_size;
  if (!header_.last) return;
  const ReadInFlight done = state_.reads.pop();
  state_.read_in_flight -= done.sink.size();
  if (!done.is_last) return;
  state_.tags.remove(done.sink_tag);
  if (done.internal) return;
  state_.complete(WorkKind::kRead, done.id, Status::kOk, done.signaled);
}

void Rx::take_terminate(Bytes payload) {
  const Terminate terminate = decode_terminate(payload);
  if (terminate.request) state_.refused_sink = terminate.request->sink_tag;
  if (terminate.write) {
    state_.refused_write = {terminate.write->tag, 0, terminate.write->address};
  } else {
    // Besides Writes, the peer uses our Read Requests, and our answers to its own, which may be on
    // their way for long.
    state_.refused_unnamed_write = refuses_memory(terminate.fault) && !terminate.request &&
                                   state_.reads.empty() && !state_.has_answered_reads;
  }
  state_.close({Cause::By::kTerminate, terminate.fault, to_string(terminate.fault)});
}

void Rx::divert(SteeringTag tag) {
  if (mode_ != Mode::kPayload || header_.opcode != Opcode::kWrite || header_.tag != tag) return;
  place_ = Place::kDiscard;
  diverted_ = true;
}

}  // namespace rpcrdma::iwarp
