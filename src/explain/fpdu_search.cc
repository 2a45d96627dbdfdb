// How an FpduReader finds an FPDU where it does not know that one begins: behind a gap, behind
// bytes that are none, and in a capture that begins in the middle of a connection.
//
// There it is unknown as well whether the stream has markers. Those give themselves away: 512 bytes
// apart, each says how far back its FPDU begins (RFC 5044 §4.3). As long as fewer bytes without one
// were seen, an FPDU is handed on only when all of it is there and proves to be one.
#include <algorithm>
#include <cstring>

#include "explain/fpdu_reader.h"
#include "iwarp/byte_order.h"

namespace rpcrdma::explain {
namespace {

constexpr std::size_t kMarkerInterval = 512, kMarkerSize = 4;
constexpr std::size_t kWindowMax = std::size_t{192} << 10U;  // holds the longest FPDU twice
constexpr std::size_t kHead = iwarp::kLengthSize + iwarp::kUntaggedSize;
// A peer can make every fourth byte look like the start of a long FPDU. For each byte of the window
// so many may be summed up in vain.
constexpr std::size_t kSumsPerByte = 64, kSumsMax = std::size_t{64} << 20U;

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

void FpduReader::append(Bytes bytes, const Where& where) {
  if (window_.empty()) window_position_ = position_;
  if (runs_.empty() || runs_.back().where.packet != where.packet) {
    runs_.push_back({window_.size(), where});
  }
  window_.insert(window_.end(), bytes.begin(), bytes.end());
  position_ += bytes.size();
  crc_budget_ = std::min(crc_budget_ + kSumsPerByte * bytes.size(), kSumsMax);
}

void FpduReader::search(bool is_end) {
  while (state_ == State::kSearching) {
    Verdict verdict = Verdict::kNo;
    std::size_t at = searched_;
    for (; at < window_.size(); ++at) {
      verdict = judge(at);
      if (verdict == Verdict::kYes) break;
      if (verdict == Verdict::kMore && !is_end && window_.size() < kWindowMax) break;
    }
    // Only a marker may stand between two FPDUs.
    const std::size_t between = markers_ == Markers::kPlaced ? kMarkerSize : 0;
    if (verdict == Verdict::kYes && chain_ != 0 && at - searched_ > between) {
      consumer_.on_lost(runs_.front().where);
      chain_ = 0;
    }
    skipped_ += at - searched_;
    searched_ = at;
    if (verdict != Verdict::kYes) break;
    accept(at);
  }
  if (state_ != State::kSearching) return;
  if (is_end) clear_window();
  if (searched_ > kWindowMax / 4) trim_window(searched_);
}

// An FPDU begins there.
void FpduReader::accept(std::size_t at) {
  if (markers_ == Markers::kPlaced) {
    return resume(at >= kMarkerSize && is_marker(at - kMarkerSize) ? at - kMarkerSize : at);
  }
  if (markers_ == Markers::kUnknown) {
    const std::size_t size = iwarp::fpdu_size(iwarp::load16(window_.data() + at));
    emit(at, size);
    chain_ += size;
    searched_ = at + size;
    // A marker would have been among these.
    if (chain_ < kMarkerInterval + kMarkerSize) return;
    markers_ = Markers::kNone;
    at = searched_;
  }
  resume(at);
}

void FpduReader::trim_window(std::size_t at) {
  window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(at));
  std::size_t first = 0;
  while (first + 1 < runs_.size() && runs_[first + 1].begin <= at) ++first;
  runs_.erase(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(first));
  for (Run& run : runs_) run.begin -= std::min(run.begin, at);
  searched_ -= at;
  window_position_ += at;
}

// Takes these bytes of the window. Returns false if an FPDU among them turned out to be none; `at`
// is then behind the bytes that were taken.
bool FpduReader::feed(std::size_t begin, std::size_t end, std::size_t& at) {
  std::size_t run = static_cast<std::size_t>(
      std::upper_bound(runs_.begin(), runs_.end(), begin,
                       [](std::size_t value, const Run& each) { return value < each.begin; }) -
      runs_.begin());
  at = begin;
  while (at < end) {
    while (run < runs_.size() && runs_[run].begin <= at) ++run;
    const std::size_t until = std::min(end, run < runs_.size() ? runs_[run].begin : end);
    const Where& where = runs_[run - 1].where;
    at += step(Bytes(window_).subspan(at, until - at), where);
    if (state_ == State::kSearching) return false;
  }
  return true;
}

// Hands on an FPDU that is whole and was found to be one, and stays in the search.
void FpduReader::emit(std::size_t at, std::size_t size) {
  const std::uint64_t position = position_;
  state_ = State::kHeader;
  head_size_ = 0;
  head_wanted_ = 4;
  std::size_t end = 0;
  feed(at, at + size, end);
  state_ = State::kSearching;
  position_ = position;
}

// Takes up the stream at that place of the window, which is left as it is: bytes behind may be none
// again, and then the search goes on in it.
void FpduReader::resume(std::size_t at) {
  const std::uint64_t position = position_;
  std::vector<std::byte> window;
  std::vector<Run> runs;
  state_ = State::kHeader;
  head_size_ = 0;
  head_wanted_ = 4;
  crc_ = {};
  has_bad_marker_ = false;
  position_ = window_position_ + at;
  const std::uint64_t window_position = window_position_;
  is_resuming_ = true;
  std::size_t end = 0;
  const bool is_taken = feed(at, window_.size(), end);
  is_resuming_ = false;
  if (is_taken) {
    std::swap(window, window_);  // gives their memory back
    std::swap(runs, runs_);
    searched_ = 0;
    return;
  }
  window_position_ = window_position;
  position_ = position;
  searched_ = end - head_size_ + 1;
}

bool FpduReader::is_marker(std::size_t at) const noexcept {
  return (window_position_ + at) % kMarkerInterval == 0;
}

FpduReader::Verdict FpduReader::judge(std::size_t at) {
  if (window_.size() - at < kHead) return Verdict::kMore;
  return markers_ == Markers::kPlaced ? judge_marked(at) : judge_plain(at);
}

FpduReader::Verdict FpduReader::judge_plain(std::size_t at) {
  const Bytes bytes = Bytes(window_).subspan(at);
  if (!looks_like_start(bytes)) return Verdict::kNo;
  const std::size_t size = iwarp::fpdu_size(iwarp::load16(bytes.data()));
  const Verdict marked = markers_ == Markers::kUnknown ? judge_markers(at, size) : Verdict::kNo;
  if (marked == Verdict::kYes) return marked;
  if (bytes.size() < size) return Verdict::kMore;
  const auto sum = checksum({at, at + size - iwarp::kCrcSize, at + size});
  if (!sum) return Verdict::kNo;
  const std::uint32_t field = iwarp::load_crc(bytes.data() + size - iwarp::kCrcSize);
  if (field == *sum) return Verdict::kYes;
  if (field != 0) return marked;
  // Without a checksum the contents have to speak: RPC words in a Send, or another FPDU behind.
  const iwarp::Header header = iwarp::decode_header(bytes);
  if (iwarp::is_send(header.opcode) && header.offset == 0 &&
      looks_like_rpc(bytes.subspan(kHead, size - kHead))) {
    return Verdict::kYes;
  }
  const Bytes next = bytes.subspan(size);
  if (next.size() < kHead) return Verdict::kMore;
  return looks_like_start(next) ? Verdict::kYes : marked;
}

// Looks for a marker that points at this FPDU, which says where all markers are.
FpduReader::Verdict FpduReader::judge_markers(std::size_t at, std::size_t size) {
  const std::uint64_t before = window_position_;
  bool wants_more = false;
  const auto is_found = [&](std::size_t marker) {
    window_position_ = kMarkerInterval - marker % kMarkerInterval;
    const Verdict verdict = judge_marked(at);
    if (verdict == Verdict::kMore) wants_more = true;
    if (verdict == Verdict::kYes) return true;
    window_position_ = before;
    return false;
  };
  const auto word_at = [&](std::size_t place) { return iwarp::load32(window_.data() + place); };
  bool is_marked =
      at >= kMarkerSize && word_at(at - kMarkerSize) == 0 && is_found(at - kMarkerSize);
  const std::size_t last =
      std::min({at + size, at + kMarkerInterval, window_.size() - kMarkerSize});
  for (std::size_t marker = at + kMarkerSize; marker <= last && !is_marked; marker += 4) {
    is_marked = word_at(marker) == marker - at && is_found(marker);
  }
  if (!is_marked) return wants_more ? Verdict::kMore : Verdict::kNo;
  markers_ = Markers::kPlaced;
  position_ = window_position_ + window_.size();
  return Verdict::kYes;
}

// Copies a header of which a marker may stand between the words. Returns false at the end of the
// window.
bool FpduReader::copy_head(std::size_t at, std::array<std::byte, 20>& head) const {
  for (std::size_t i = 0; i < head.size(); ++i, ++at) {
    if (is_marker(at)) at += kMarkerSize;
    if (at >= window_.size()) return false;
    head[i] = window_[at];
  }
  return true;
}

FpduReader::Extent FpduReader::extent(std::size_t at, std::size_t size) const noexcept {
  const bool is_behind = at >= kMarkerSize && is_marker(at - kMarkerSize);
  Extent out{is_behind ? at - kMarkerSize : at, at, 0};
  std::size_t left = size - iwarp::kCrcSize;
  while (left > 0) {
    if (is_marker(out.crc)) out.crc += kMarkerSize;
    const std::size_t phase = (window_position_ + out.crc) % kMarkerInterval;
    const std::size_t count = std::min(left, kMarkerInterval - phase);
    out.crc += count;
    left -= count;
  }
  if (is_marker(out.crc)) out.crc += kMarkerSize;
  out.end = out.crc + iwarp::kCrcSize;
  return out;
}

bool FpduReader::has_good_pointers(std::size_t at, const Extent& extent) const {
  std::size_t count = 0;  // of those inside: a zero in front is as well the CRC of what came before
  const std::size_t phase = (window_position_ + at) % kMarkerInterval;
  std::size_t marker = at + (kMarkerInterval - phase) % kMarkerInterval;
  for (; marker < extent.crc; marker += kMarkerInterval, ++count) {
    if (iwarp::load32(window_.data() + marker) != marker - at) return false;
  }
  return count != 0;
}

FpduReader::Verdict FpduReader::judge_marked(std::size_t at) {
  const std::size_t phase = (window_position_ + at) % kMarkerInterval;
  if (phase < kMarkerSize) return Verdict::kNo;
  std::array<std::byte, 20> head{};
  if (!copy_head(at, head)) return Verdict::kMore;
  if (!looks_like_start(head)) return Verdict::kNo;
  const Extent found = extent(at, iwarp::fpdu_size(iwarp::load16(head.data())));
  if (found.end > window_.size()) return Verdict::kMore;
  const auto sum = checksum(found);
  if (!sum) return Verdict::kNo;
  const std::uint32_t field = iwarp::load_crc(window_.data() + found.crc);
  if (field == *sum) return Verdict::kYes;
  if (field != 0) return Verdict::kNo;
  // Without a checksum a marker has to point at it, and another FPDU has to follow.
  if (!has_good_pointers(at, found)) return Verdict::kNo;
  const std::size_t next = is_marker(found.end) ? found.end + kMarkerSize : found.end;
  if (!copy_head(next, head)) return Verdict::kMore;
  return looks_like_start(head) ? Verdict::kYes : Verdict::kNo;
}

// Returns nothing if too much was summed up in vain already.
std::optional<std::uint32_t> FpduReader::checksum(const Extent& extent) {
  const std::size_t size = extent.crc - extent.checked;
  if (size > crc_budget_) return std::nullopt;
  crc_budget_ -= size;
  iwarp::Crc32c crc;
  crc.add(Bytes(window_).subspan(extent.checked, size));
  return crc.value();
}

}  // namespace rpcrdma::explain
