#include "explain/tcp_stream.h"

#include <algorithm>

namespace rpcrdma::explain {
namespace {

constexpr std::size_t kHeldBytesMax = std::size_t{1} << 20U;
constexpr std::size_t kHeldSegmentsMax = 1024;
// A capture with several queues may show an acknowledgement before the data that it is for.
constexpr std::size_t kHeldBehindAcknowledged = 16;
constexpr std::size_t kKeptMax = 4096;

// Compares in the circle of sequence numbers.
std::int32_t distance(std::uint32_t from, std::uint32_t to) noexcept {
  return static_cast<std::int32_t>(to - from);
}

}  // namespace

TcpStream::Piece TcpStream::Piece::take(std::uint32_t count) noexcept {
  const Piece front{sequence, count, bytes.first(std::min<std::size_t>(count, bytes.size()))};
  sequence += count;
  size -= count;
  bytes = bytes.subspan(front.bytes.size());
  return front;
}

void TcpStream::begin(std::uint32_t sequence) noexcept {
  has_begun_ = true;
  next_ = acknowledged_ = sequence;
  held_.clear();
  kept_.clear();
  held_bytes_ = 0;
}

std::size_t TcpStream::footprint() const noexcept {
  return held_bytes_ + held_.size() * sizeof(Held) + kept_.size() * sizeof(Kept);
}

void TcpStream::add(std::uint32_t sequence, Bytes bytes, std::uint32_t size, const Where& where,
                    StreamConsumer& consumer) {
  if (size == 0) return;
  if (!has_begun_) begin(sequence);
  last_ = where;
  Piece piece{sequence, size, bytes};
  const std::int32_t ahead = distance(next_, sequence);
  if (ahead < 0) {
    // A probe that keeps the connection alive may have any byte (RFC 9293 §3.8.4).
    if (ahead == -1 && size == 1) return;
    // Bytes from before; some may be new.
    ++retransmitted_;
    compare(piece.take(std::min(next_ - sequence, size)), where, consumer);
    if (piece.size == 0) return;
  } else if (ahead > 0) {
    hold(piece, where, consumer);
    while (held_bytes_ > kHeldBytesMax || held_.size() > kHeldSegmentsMax) skip_hole(consumer);
    return;
  }
  deliver_between(piece, where, consumer);
  deliver_held(consumer);
}

void TcpStream::deliver(const Piece& piece, const Where& where, StreamConsumer& consumer) {
  next_ += piece.size;
  if (!piece.bytes.empty()) {
    while (!kept_.empty() && (kept_.size() >= kKeptMax || !history_.holds(kept_.front().place))) {
      kept_.pop_front();
    }
    kept_.push_back({piece.sequence, static_cast<std::uint32_t>(piece.bytes.size()),
                     history_.keep(piece.bytes)});
    consumer.on_bytes(piece.bytes, where);
  }
  if (piece.bytes.size() < piece.size) consumer.on_gap(piece.size - piece.bytes.size(), where);
}

// Delivers the next bytes. Where segments wait that came earlier, those count.
void TcpStream::deliver_between(Piece piece, const Where& where, StreamConsumer& consumer) {
  while (piece.size > 0) {
    if (held_.empty()) return deliver(piece, where, consumer);
    const std::uint32_t until = held_.front().sequence - piece.sequence;
    if (until >= piece.size) return deliver(piece, where, consumer);
    if (until > 0) deliver(piece.take(until), where, consumer);
    compare_held(piece, held_.front(), where, consumer);
    deliver_first_held(consumer);
  }
}

void TcpStream::deliver_first_held(StreamConsumer& consumer) {
  const Held held = std::move(held_.front());
  held_.pop_front();
  held_bytes_ -= held.bytes.size();
  deliver({held.sequence, held.size, held.bytes}, held.where, consumer);
}

void TcpStream::deliver_held(StreamConsumer& consumer) {
  while (!held_.empty() && held_.front().sequence == next_) deliver_first_held(consumer);
}

void TcpStream::hold(Piece piece, const Where& where, StreamConsumer& consumer) {
  const auto end_of = [this](const Held& each) { return each.sequence + each.size - next_; };
  auto at = held_.end();
  while (at != held_.begin() && end_of(*std::prev(at)) > piece.sequence - next_) --at;
  bool came_before = false;
  while (piece.size > 0) {
    if (at != held_.end() && distance(at->sequence, piece.sequence) >= 0) {
      came_before = true;
      compare_held(piece, *at, where, consumer);
      ++at;
      continue;
    }
    const std::uint32_t free = at == held_.end() ? piece.size : at->sequence - piece.sequence;
    const Piece part = piece.take(std::min(free, piece.size));
    held_bytes_ += part.bytes.size();
    at = std::next(held_.insert(
        at, Held{part.sequence, part.size, {part.bytes.begin(), part.bytes.end()}, where}));
  }
  if (came_before) ++retransmitted_;
}

void TcpStream::compare_held(Piece& again, const Held& held, const Where& where,
                             StreamConsumer& consumer) {
  const std::uint32_t skipped = again.sequence - held.sequence;
  const Piece part = again.take(std::min(held.size - skipped, again.size));
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < part.bytes.size() && skipped + i < held.bytes.size(); ++i) {
    if (part.bytes[i] != held.bytes[skipped + i]) ++count;
  }
  if (count != 0) consumer.on_other_bytes(count, where);
}

void TcpStream::compare(const Piece& again, const Where& where, StreamConsumer& consumer) const {
  // The first one that reaches behind the start of these bytes.
  auto at = std::partition_point(kept_.begin(), kept_.end(), [&](const Kept& each) {
    return distance(again.sequence, each.sequence + each.size) <= 0;
  });
  std::uint32_t count = 0;
  const auto size = static_cast<std::uint32_t>(again.bytes.size());
  for (; at != kept_.end(); ++at) {
    // Where both have bytes, as offsets from the start of these.
    const std::int32_t begin = std::max(0, distance(again.sequence, at->sequence));
    const std::int32_t end = distance(again.sequence, at->sequence + at->size);
    if (static_cast<std::uint32_t>(begin) >= size) break;
    const std::uint32_t until = std::min(static_cast<std::uint32_t>(end), size);
    const std::uint32_t from = static_cast<std::uint32_t>(begin);
    const std::uint64_t place = at->place + (again.sequence + from - at->sequence);
    count += history_.differing(place, again.bytes.subspan(from, until - from));
  }
  if (count != 0) consumer.on_other_bytes(count, where);
}

void TcpStream::skip_hole(StreamConsumer& consumer) {
  if (held_.empty()) return;
  const Held& first = held_.front();
  const std::uint32_t missing = first.sequence - next_;
  next_ = first.sequence;
  if (missing != 0) consumer.on_gap(missing, first.where);
  deliver_held(consumer);
}

void TcpStream::acknowledge(std::uint32_t sequence, StreamConsumer& consumer) {
  if (!has_begun_) return;
  if (distance(acknowledged_, sequence) > 0) acknowledged_ = sequence;
  while (held_.size() >= kHeldBehindAcknowledged &&
         distance(held_.front().sequence, sequence) >= 0) {
    skip_hole(consumer);
  }
}

void TcpStream::end(StreamConsumer& consumer) {
  while (!held_.empty()) skip_hole(consumer);
  const std::int32_t missing = distance(next_, acknowledged_) - (has_fin_ ? 1 : 0);
  if (missing <= 0) return;
  next_ += static_cast<std::uint32_t>(missing);
  consumer.on_gap(static_cast<std::uint32_t>(missing), last_);
}

}  // namespace rpcrdma::explain
