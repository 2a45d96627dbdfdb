#include "explain/record_reader.h"

#include <algorithm>
#include <cstring>

#include "iwarp/byte_order.h"

namespace rpcrdma::explain {
namespace {

constexpr std::size_t kKept = 8192;
constexpr std::uint32_t kLastBit = 0x80000000U;
constexpr std::uint32_t kMpa = 0x4d504120;  // "MPA ": the connection steps up to RDMA

}  // namespace

bool looks_like_record(Bytes bytes) noexcept {
  if (bytes.size() < 16) return false;
  const std::uint32_t size = iwarp::load32(bytes.data()) & ~kLastBit;
  const std::uint32_t type = iwarp::load32(bytes.data() + 8);
  const std::uint32_t next = iwarp::load32(bytes.data() + 12);
  constexpr std::uint32_t kSizeMax = 1U << 30U;
  return size >= 20 && size < kSizeMax && ((type == 0 && next == 2) || (type == 1 && next <= 1));
}

Bytes RecordReader::add(Bytes bytes, const Where& where) {
  if (is_lost_) {
    if (!looks_like_record(bytes)) return {};
    is_lost_ = false;
  }
  while (!bytes.empty()) {
    if (fragment_left_ == 0) {
      if (header_size_ == 0 && size_ == 0) first_ = where;
      const std::size_t count = std::min(bytes.size(), header_.size() - header_size_);
      std::memcpy(header_.data() + header_size_, bytes.data(), count);
      const bool is_start = header_size_ == 0;
      header_size_ += count;
      if (header_size_ < header_.size()) return {};
      const std::uint32_t word = iwarp::load32(header_.data());
      if (word == kMpa && size_ == 0 && is_start) {
        header_size_ = 0;
        return bytes;
      }
      bytes = bytes.subspan(count);
      header_size_ = 0;
      is_last_ = (word & kLastBit) != 0;
      fragment_left_ = word & ~kLastBit;
      if (fragment_left_ == 0 && is_last_) finish(where);
      continue;
    }
    const std::size_t count = std::min<std::uint64_t>(bytes.size(), fragment_left_);
    if (kept_.size() < kKept && is_whole_) {
      const Bytes piece = bytes.first(std::min(count, kKept - kept_.size()));
      kept_.insert(kept_.end(), piece.begin(), piece.end());
    }
    size_ += count;
    fragment_left_ -= count;
    bytes = bytes.subspan(count);
    if (fragment_left_ == 0 && is_last_) finish(where);
  }
  return {};
}

void RecordReader::finish(const Where& where) {
  consumer_.on_record(first_, where, kept_, size_, is_whole_);
  kept_.clear();
  size_ = 0;
  is_last_ = false;
  is_whole_ = true;
}

void RecordReader::gap(std::uint64_t size, const Where& where) {
  if (size <= fragment_left_ && fragment_left_ != 0) {
    fragment_left_ -= size;
    size_ += size;
    is_whole_ = false;
    if (fragment_left_ == 0 && is_last_) finish(where);
    return;
  }
  if (size_ != 0) {
    is_whole_ = false;
    finish(where);
  }
  header_size_ = 0;
  fragment_left_ = 0;
  is_lost_ = true;  // until a segment begins with a record
}

}  // namespace rpcrdma::explain
