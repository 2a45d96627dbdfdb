#include "explain/tcp_stream.h"

#include <algorithm>

namespace rpcrdma::explain {
namespace {

constexpr std::size_t kHeldBytesMax = std::size_t{1} << 20U;
constexpr std::size_t kHeldSegmentsMax = 1024;
// A capture with several queues may show an acknowledgement before the data that it is for.
constexpr std::size_t kHeldBehindAcknowledged = 16;

// Compares in the circle of sequence numbers.
std::int32_t distance(std::uint32_t from, std::uint32_t to) noexcept {
  return static_cast<std::int32_t>(to - from);
}

}  // namespace

void TcpStream::begin(std::uint32_t sequence) noexcept {
  has_begun_ = true;
  next_ = sequence;
  held_.clear();
  held_bytes_ = 0;
}

void TcpStream::add(std::uint32_t sequence, Bytes bytes, std::uint32_t size, const Where& where,
                    StreamConsumer& consumer) {
  if (size == 0) return;
  if (!has_begun_) begin(sequence);
  const std::int32_t ahead = distance(next_, sequence);
  if (ahead < 0) {
    // Bytes from before; some may be new.
    ++retransmitted_;
    const std::uint32_t known = next_ - sequence;
    if (known >= size) return;
    bytes = bytes.subspan(std::min<std::size_t>(known, bytes.size()));
    deliver(bytes, size - known, where, consumer);
  } else if (ahead == 0) {
    deliver(bytes, size, where, consumer);
  } else {
    hold(sequence, bytes, size, where);
    if (held_bytes_ > kHeldBytesMax || held_.size() > kHeldSegmentsMax) skip_hole(consumer);
    return;
  }
  deliver_held(consumer);
}

void TcpStream::deliver(Bytes bytes, std::uint32_t size, const Where& where,
                        StreamConsumer& consumer) {
  next_ += size;
  if (!bytes.empty()) consumer.on_bytes(bytes, where, true);
  if (bytes.size() < size) consumer.on_gap(size - bytes.size(), where);
}

void TcpStream::hold(std::uint32_t sequence, Bytes bytes, std::uint32_t size, const Where& where) {
  auto at = held_.end();
  while (at != held_.begin() && distance(std::prev(at)->sequence, sequence) < 0) --at;
  if (at != held_.begin()) {
    const Held& before = *std::prev(at);
    if (before.sequence == sequence && before.size >= size) {
      ++retransmitted_;
      return;
    }
  }
  held_bytes_ += bytes.size();
  held_.insert(at, Held{sequence, size, {bytes.begin(), bytes.end()}, where});
}

void TcpStream::deliver_held(StreamConsumer& consumer) {
  while (!held_.empty() && distance(next_, held_.front().sequence) <= 0) {
    const Held held = std::move(held_.front());
    held_.pop_front();
    held_bytes_ -= held.bytes.size();
    const std::uint32_t known = next_ - held.sequence;
    if (known >= held.size) continue;
    const Bytes bytes(held.bytes);
    deliver(bytes.subspan(std::min<std::size_t>(known, bytes.size())), held.size - known,
            held.where, consumer);
  }
}

void TcpStream::skip_hole(StreamConsumer& consumer) {
  if (held_.empty()) return;
  const Held& first = held_.front();
  consumer.on_gap(first.sequence - next_, first.where);
  next_ = first.sequence;
  deliver_held(consumer);
}

void TcpStream::acknowledge(std::uint32_t sequence, StreamConsumer& consumer) {
  while (held_.size() >= kHeldBehindAcknowledged &&
         distance(held_.front().sequence, sequence) >= 0) {
    skip_hole(consumer);
  }
}

void TcpStream::end(StreamConsumer& consumer) {
  while (!held_.empty()) skip_hole(consumer);
}

}  // namespace rpcrdma::explain
