#include "explain/fpdu_reader.h"

#include <algorithm>
#include <cstring>

#include "iwarp/byte_order.h"

namespace rpcrdma::explain {
namespace {

constexpr std::uint64_t kMarkerInterval = 512;
constexpr std::size_t kMarkerSize = 4;
constexpr unsigned kDdpReserved = 0x3c, kRdmapReserved = 0x30;
constexpr std::size_t kWindowMax = std::size_t{192} << 10U;  // holds the longest FPDU twice

bool has_reserved_bits(Bytes head) noexcept {
  return (std::to_integer<unsigned>(head[2]) & kDdpReserved) != 0 ||
         (std::to_integer<unsigned>(head[3]) & kRdmapReserved) != 0;
}

// Returns whether these bytes, at least 20, look like the start of an FPDU: false starts in random
// data are one in some 100,000.
bool looks_like_start(Bytes bytes) noexcept {
  if (iwarp::check_start(bytes) != iwarp::Fault::kNone || has_reserved_bits(bytes)) return false;
  const iwarp::Header header = iwarp::decode_header(bytes);
  if (iwarp::is_tagged(header.opcode)) return true;
  if (header.queue != (iwarp::is_send(header.opcode)                  ? iwarp::kQueueSend
                       : header.opcode == iwarp::Opcode::kReadRequest ? iwarp::kQueueReadRequest
                                                                      : iwarp::kQueueTerminate)) {
    return false;
  }
  return header.sequence != 0;
}

// Returns whether the payload of a Send begins like RPC-over-RDMA.
bool looks_like_rpc(Bytes payload) noexcept {
  if (payload.size() < 16) return false;
  const std::uint32_t version = iwarp::load32(payload.data() + 4);
  const std::uint32_t type = iwarp::load32(payload.data() + 12);
  return (version == 1 || version == 2) && type <= 5;
}

}  // namespace

void FpduReader::begin(bool has_markers) noexcept {
  state_ = State::kHeader;
  head_size_ = 0;
  head_wanted_ = 4;
  has_markers_ = has_markers;
  position_ = 0;
}

void FpduReader::begin_anywhere() {
  state_ = State::kSearching;
  window_.clear();
  runs_.clear();
  searched_ = 0;
}

void FpduReader::add(Bytes bytes, const Where& where) {
  if (has_markers_ && state_ != State::kSearching) {
    add_marked(bytes, where);
  } else {
    take(bytes, where);
  }
}

// Takes the markers out. They are under the checksum, and stand at each 512th byte of the stream.
void FpduReader::add_marked(Bytes bytes, const Where& where) {
  while (!bytes.empty() && state_ != State::kSearching) {
    const std::uint64_t phase = position_ % kMarkerInterval;
    std::size_t count = 0;
    if (phase < kMarkerSize) {
      count = std::min<std::size_t>(bytes.size(), kMarkerSize - phase);
      std::memcpy(marker_.data() + phase, bytes.data(), count);
      if (state_ == State::kHeader && head_size_ == 0 && phase == 0) fpdu_position_ = position_;
      crc_.add(bytes.first(count));
      position_ += count;
      if (phase + count == kMarkerSize) check_marker();
    } else {
      count = std::min<std::size_t>(bytes.size(), kMarkerInterval - phase);
      position_ += count;
      take(bytes.first(count), where);
    }
    bytes = bytes.subspan(count);
  }
  if (!bytes.empty()) take(bytes, where);
}

// A marker says how far back its FPDU begins, or 0 right in front of one.
void FpduReader::check_marker() {
  const std::uint64_t back = iwarp::load16(marker_.data() + 2);
  const std::uint64_t at = position_ - kMarkerSize;
  const bool is_between = state_ == State::kHeader && head_size_ == 0;
  if (back != (is_between ? 0 : at - fpdu_position_)) has_bad_marker_ = true;
}

void FpduReader::take(Bytes bytes, const Where& where) {
  while (!bytes.empty()) {
    switch (state_) {
      case State::kHeader:
        bytes = take_header(bytes, where);
        break;
      case State::kPayload:
        bytes = take_payload(bytes, where);
        break;
      case State::kTrailer:
        bytes = take_trailer(bytes, where);
        break;
      case State::kSearching:
        if (runs_.empty() || runs_.back().where.packet != where.packet) {
          runs_.push_back({window_.size(), where});
        }
        window_.insert(window_.end(), bytes.begin(), bytes.end());
        search(false);
        return;
    }
  }
}

Bytes FpduReader::take_header(Bytes bytes, const Where& where) {
  if (head_size_ == 0) {
    start_.where = where;
    // A marker in front of the length field is under the checksum, and was added already.
    const bool follows_marker =
        has_markers_ && (position_ - bytes.size()) % kMarkerInterval == kMarkerSize;
    if (!follows_marker) {
      crc_ = {};
      fpdu_position_ = position_ - bytes.size();
    }
  }
  const std::size_t count = std::min(bytes.size(), head_wanted_ - head_size_);
  std::memcpy(head_.data() + head_size_, bytes.data(), count);
  crc_.add(bytes.first(count));
  head_size_ += count;
  if (head_size_ < head_wanted_) return {};
  if (head_wanted_ == 4) {
    start_.fault = iwarp::check_start(Bytes(head_).first(4));
    if (start_.fault == iwarp::Fault::kNone) {
      const bool is_tagged = (std::to_integer<unsigned>(head_[2]) & 0x80U) != 0;
      head_wanted_ = iwarp::kLengthSize + (is_tagged ? iwarp::kTaggedSize : iwarp::kUntaggedSize);
    } else {
      start_fpdu(where);
    }
  } else {
    start_fpdu(where);
  }
  return bytes.subspan(count);
}

void FpduReader::start_fpdu(const Where& where) {
  const Bytes raw = Bytes(head_).first(head_size_);
  start_.raw = raw;
  start_.size = iwarp::load16(head_.data());
  start_.has_reserved_bits = has_reserved_bits(raw);
  start_.header = {};
  if (start_.fault == iwarp::Fault::kNone) iwarp::decode_header(raw, start_.header);
  if (start_.fault != iwarp::Fault::kNone) {
    // Its length may be wrong as well: what follows is found by its own marks.
    consumer_.on_fpdu(start_);
    return lose(where);
  }
  payload_at_ = 0;
  payload_size_ = static_cast<std::uint32_t>(iwarp::kLengthSize + start_.size - head_size_);
  trailer_size_ = 0;
  trailer_wanted_ = iwarp::pad_size(start_.size) + iwarp::kCrcSize;
  is_whole_ = true;
  has_bad_marker_ = false;
  state_ = payload_size_ == 0 ? State::kTrailer : State::kPayload;
  consumer_.on_fpdu(start_);
}

Bytes FpduReader::take_payload(Bytes bytes, const Where& where) {
  const std::size_t count = std::min<std::size_t>(bytes.size(), payload_size_ - payload_at_);
  const Bytes piece = bytes.first(count);
  if (is_whole_) crc_.add(piece);
  consumer_.on_payload(piece, payload_at_, where);
  payload_at_ += static_cast<std::uint32_t>(count);
  if (payload_at_ == payload_size_) state_ = State::kTrailer;
  return bytes.subspan(count);
}

Bytes FpduReader::take_trailer(Bytes bytes, const Where& where) {
  const std::size_t count = std::min(bytes.size(), trailer_wanted_ - trailer_size_);
  std::memcpy(trailer_.data() + trailer_size_, bytes.data(), count);
  const std::size_t pad = trailer_wanted_ - iwarp::kCrcSize;
  if (trailer_size_ < pad) crc_.add(bytes.first(std::min(count, pad - trailer_size_)));
  trailer_size_ += count;
  if (trailer_size_ == trailer_wanted_) finish_fpdu(where);
  return bytes.subspan(count);
}

void FpduReader::finish_fpdu(const Where& where) {
  FpduEnd end{where, is_whole_, Crc::kUnknown, false, has_bad_marker_};
  const std::size_t pad = trailer_wanted_ - iwarp::kCrcSize;
  if (is_whole_) {
    const std::uint32_t field = iwarp::load_crc(trailer_.data() + pad);
    end.crc = field == crc_.value() ? Crc::kGood : field == 0 ? Crc::kZero : Crc::kBad;
    for (std::size_t i = 0; i < pad; ++i) end.has_pad_bits |= trailer_[i] != std::byte{0};
  }
  state_ = State::kHeader;
  head_size_ = 0;
  head_wanted_ = 4;
  crc_ = {};
  consumer_.on_fpdu_end(end);
}

void FpduReader::gap(std::uint64_t size, const Where& where) {
  const bool is_inside = state_ == State::kPayload || state_ == State::kTrailer;
  if (is_inside && !has_markers_) {
    // The length field says how far the FPDU reaches, so that a gap inside of it costs nothing
    // else.
    is_whole_ = false;
    const std::uint64_t payload = std::min<std::uint64_t>(size, payload_size_ - payload_at_);
    payload_at_ += static_cast<std::uint32_t>(payload);
    size -= payload;
    if (payload_at_ == payload_size_) state_ = State::kTrailer;
    const std::uint64_t trailer = std::min<std::uint64_t>(size, trailer_wanted_ - trailer_size_);
    trailer_size_ += static_cast<std::size_t>(trailer);
    size -= trailer;
    if (trailer_size_ == trailer_wanted_) finish_fpdu(where);
    if (size == 0) return;
  }
  if (state_ == State::kSearching) {
    // The bytes from before belong to another piece of the stream.
    search(true);
    if (state_ != State::kSearching) return gap(size, where);
  }
  if (state_ == State::kPayload || state_ == State::kTrailer) {
    is_whole_ = false;
    finish_fpdu(where);
  }
  has_markers_ = false;  // their phase is lost
  begin_anywhere();
}

void FpduReader::end() {
  if (state_ == State::kSearching) search(true);
}

void FpduReader::lose(const Where& where) {
  consumer_.on_lost(where);
  has_markers_ = false;
  const std::vector<std::byte> seen(head_.begin(),
                                    head_.begin() + static_cast<std::ptrdiff_t>(head_size_));
  begin_anywhere();
  runs_.push_back({0, where});
  window_ = seen;
  searched_ = 1;  // nothing begins where one was expected
  ++skipped_;
}

FpduReader::Verdict FpduReader::judge(std::size_t at) const {
  const Bytes bytes = Bytes(window_).subspan(at);
  constexpr std::size_t kHead = iwarp::kLengthSize + iwarp::kUntaggedSize;
  if (bytes.size() < kHead) return Verdict::kMore;
  if (!looks_like_start(bytes)) return Verdict::kNo;
  const std::size_t size = iwarp::fpdu_size(iwarp::load16(bytes.data()));
  if (bytes.size() < size) return Verdict::kMore;
  iwarp::Crc32c crc;
  crc.add(bytes.first(size - iwarp::kCrcSize));
  const std::uint32_t field = iwarp::load_crc(bytes.data() + size - iwarp::kCrcSize);
  const bool is_good = field == crc.value();
  if (is_good) return Verdict::kYes;
  if (field != 0) return Verdict::kNo;
  // Without a checksum the contents have to speak: RPC words in a Send, or another FPDU behind.
  const iwarp::Header header = iwarp::decode_header(bytes);
  if (iwarp::is_send(header.opcode) && header.offset == 0 &&
      looks_like_rpc(bytes.subspan(kHead, size - kHead))) {
    return Verdict::kYes;
  }
  if (bytes.size() == size) return Verdict::kMore;
  const Bytes next = bytes.subspan(size);
  if (next.size() < kHead) return Verdict::kMore;
  return looks_like_start(next) ? Verdict::kYes : Verdict::kNo;
}

// Bytes that come while an FPDU is taken from the window are appended to the next window, so that
// this is a loop and not a recursion.
void FpduReader::search(bool is_end) {
  if (is_in_search_) return;
  is_in_search_ = true;
  while (state_ == State::kSearching) {
    Verdict verdict = Verdict::kNo;
    std::size_t at = searched_;
    for (; at < window_.size(); ++at) {
      verdict = judge(at);
      if (verdict == Verdict::kYes) break;
      if (verdict == Verdict::kMore && !is_end && window_.size() < kWindowMax) break;
    }
    skipped_ += at - searched_;
    searched_ = at;
    if (verdict != Verdict::kYes) break;
    resume(at);
  }
  is_in_search_ = false;
  if (state_ != State::kSearching) return;
  if (is_end) begin_anywhere();
  if (searched_ > kWindowMax / 4) trim_window(searched_);
}

void FpduReader::trim_window(std::size_t at) {
  window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(at));
  std::size_t first = 0;
  while (first + 1 < runs_.size() && runs_[first + 1].begin <= at) ++first;
  runs_.erase(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(first));
  for (Run& run : runs_) run.begin -= std::min(run.begin, at);
  searched_ -= at;
}

void FpduReader::resume(std::size_t at) {
  const std::vector<std::byte> window = std::move(window_);
  const std::vector<Run> runs = std::move(runs_);
  window_.clear();
  runs_.clear();
  searched_ = 0;
  begin(false);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t end = i + 1 < runs.size() ? runs[i + 1].begin : window.size();
    const std::size_t begin = std::max(at, runs[i].begin);
    if (begin < end) take(Bytes(window).subspan(begin, end - begin), runs[i].where);
  }
}

}  // namespace rpcrdma::explain
