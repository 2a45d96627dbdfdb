#include "explain/fpdu_reader.h"

#include <algorithm>
#include <cstring>

#include "iwarp/byte_order.h"

namespace rpcrdma::explain {
namespace {

constexpr std::uint64_t kMarkerInterval = 512;
constexpr std::size_t kMarkerSize = 4;

}  // namespace

bool has_reserved_bits(Bytes head) noexcept {
  constexpr unsigned kDdpReserved = 0x3c, kRdmapReserved = 0x30;
  return (std::to_integer<unsigned>(head[2]) & kDdpReserved) != 0 ||
         (std::to_integer<unsigned>(head[3]) & kRdmapReserved) != 0;
}

void FpduReader::begin(bool has_markers) noexcept {
  state_ = State::kHeader;
  head_size_ = 0;
  head_wanted_ = 4;
  markers_ = has_markers ? Markers::kPlaced : Markers::kNone;
  has_bad_marker_ = false;
  position_ = 0;
}

void FpduReader::begin_anywhere() {
  state_ = State::kSearching;
  markers_ = Markers::kUnknown;
  clear_window();
}

void FpduReader::clear_window() {
  window_.clear();
  runs_.clear();
  searched_ = 0;
  chain_ = 0;
}

void FpduReader::add(Bytes bytes, const Where& where) {
  while (!bytes.empty()) {
    if (state_ == State::kSearching) {
      append(bytes, where);
      return search(false);
    }
    bytes = bytes.subspan(step(bytes, where));
  }
}

// Takes bytes up to the next marker, or of a marker, or until the FPDU turns out to be none.
// Markers are under the checksum, and stand at each 512th byte of the stream.
std::size_t FpduReader::step(Bytes bytes, const Where& where) {
  const std::uint64_t phase = position_ % kMarkerInterval;
  if (markers_ == Markers::kPlaced && phase < kMarkerSize) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), kMarkerSize - phase);
    std::memcpy(marker_.data() + phase, bytes.data(), count);
    crc_.add(bytes.first(count));
    position_ += count;
    if (phase + count == kMarkerSize) check_marker();
    return count;
  }
  if (markers_ == Markers::kPlaced) {
    bytes = bytes.first(std::min<std::size_t>(bytes.size(), kMarkerInterval - phase));
  }
  const std::size_t count = take(bytes, where);
  if (state_ == State::kSearching) window_position_ = position_ - window_.size();
  return count;
}

// A marker says how far back its FPDU begins, or 0 right in front of one.
void FpduReader::check_marker() {
  const std::uint64_t back = iwarp::load16(marker_.data() + 2);
  const std::uint64_t at = position_ - kMarkerSize;
  const bool is_between = state_ == State::kHeader && head_size_ == 0;
  if (back != (is_between ? 0 : at - fpdu_position_)) has_bad_marker_ = true;
}

std::size_t FpduReader::take(Bytes bytes, const Where& where) {
  const std::size_t size = bytes.size();
  while (!bytes.empty() && state_ != State::kSearching) {
    const std::size_t before = bytes.size();
    if (state_ == State::kHeader) {
      bytes = take_header(bytes, where);
    } else if (state_ == State::kPayload) {
      bytes = take_payload(bytes, where);
    } else {
      bytes = take_trailer(bytes, where);
    }
    position_ += before - bytes.size();
  }
  return size - bytes.size();
}

Bytes FpduReader::take_header(Bytes bytes, const Where& where) {
  if (head_size_ == 0) {
    start_.where = where;
    // A marker in front of the length field is under the checksum, and was added already.
    const bool follows_marker =
        markers_ == Markers::kPlaced && position_ % kMarkerInterval == kMarkerSize;
    if (!follows_marker) crc_ = {};
    fpdu_position_ = position_;
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
  has_bad_marker_ = false;
  consumer_.on_fpdu_end(end);
}

void FpduReader::gap(std::uint64_t size, const Where& where) {
  const bool is_inside = state_ == State::kPayload || state_ == State::kTrailer;
  if (is_inside && markers_ != Markers::kPlaced) {
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
  position_ += size;  // so that the places of markers stay known
  state_ = State::kSearching;
  clear_window();
  window_position_ = position_;
}

void FpduReader::end() {
  if (state_ == State::kSearching) search(true);
}

void FpduReader::lose(const Where& where) {
  consumer_.on_lost(where);
  state_ = State::kSearching;
  ++skipped_;
  if (is_resuming_) return;  // the window is still there
  clear_window();
  if (markers_ == Markers::kPlaced) return;
  window_.assign(head_.begin(), head_.begin() + static_cast<std::ptrdiff_t>(head_size_));
  runs_.push_back({0, where});
  searched_ = 1;  // nothing begins where one was expected
}

}  // namespace rpcrdma::explain
