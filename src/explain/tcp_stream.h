// One direction of a TCP connection: puts captured segments into the order of their bytes.
#ifndef RPCRDMA_EXPLAIN_TCP_STREAM_H_
#define RPCRDMA_EXPLAIN_TCP_STREAM_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "explain/facts.h"
#include "explain/tcp_history.h"
#include "rpcrdma/types.h"

namespace rpcrdma::explain {

// Takes the bytes of a stream in order.
class StreamConsumer {
 public:
  virtual ~StreamConsumer() = default;
  virtual void on_bytes(Bytes bytes, const Where& where) = 0;
  // Reports that this many bytes of the stream are not in the capture.
  virtual void on_gap(std::uint64_t size, const Where& where) = 0;
  // Reports that this many bytes of a retransmission are not those that came first.
  virtual void on_other_bytes(std::uint32_t count, const Where& where) = 0;
};

// Keeps segments that come early, copied and bounded; the first copy of a byte counts. A hole is
// given up as a gap when too much waits behind it, when the receiver has acknowledged more, or when
// the stream ends.
class TcpStream {
 public:
  explicit TcpStream(TcpHistory& history) noexcept : history_(history) {}

  void begin(std::uint32_t sequence) noexcept;  // of its first byte
  bool has_begun() const noexcept { return has_begun_; }

  // `size` bytes from `sequence` on, of which `bytes` were captured.
  void add(std::uint32_t sequence, Bytes bytes, std::uint32_t size, const Where& where,
           StreamConsumer& consumer);
  // Gives up the hole in front of a place that the receiver has acknowledged, once several segments
  // wait behind it.
  void acknowledge(std::uint32_t sequence, StreamConsumer& consumer);
  // The stream has an end, which takes a number of its own.
  void note_fin() noexcept { has_fin_ = true; }
  // Gives up all holes, also one at the end, which only an acknowledgement shows.
  void end(StreamConsumer& consumer);

  std::uint64_t retransmitted() const noexcept { return retransmitted_; }
  std::size_t held_bytes() const noexcept { return held_bytes_; }
  // Memory in bytes, roughly.
  std::size_t footprint() const noexcept;

 private:
  struct Piece {
    std::uint32_t sequence, size;
    Bytes bytes;  // that were captured

    // Takes so many bytes from the front.
    Piece take(std::uint32_t count) noexcept;
  };
  struct Held {
    std::uint32_t sequence, size;
    std::vector<std::byte> bytes;
    Where where;
  };
  struct Kept {  // bytes that were delivered, in the history
    std::uint32_t sequence, size;
    std::uint64_t place;
  };

  void deliver(const Piece& piece, const Where& where, StreamConsumer& consumer);
  void deliver_between(Piece piece, const Where& where, StreamConsumer& consumer);
  void deliver_first_held(StreamConsumer& consumer);
  void deliver_held(StreamConsumer& consumer);
  void skip_hole(StreamConsumer& consumer);
  void hold(Piece piece, const Where& where, StreamConsumer& consumer);
  void compare(const Piece& again, const Where& where, StreamConsumer& consumer) const;
  // Compares the front of a piece with a segment that waits, and takes it off.
  static void compare_held(Piece& again, const Held& held, const Where& where,
                           StreamConsumer& consumer);

  TcpHistory& history_;
  bool has_begun_ = false;
  std::uint32_t next_ = 0;  // sequence number of the next byte
  std::deque<Held> held_;   // in the order of their numbers, all behind next_; they do not overlap
  std::deque<Kept> kept_;   // in the order of their numbers, all in front of next_
  std::size_t held_bytes_ = 0;
  std::uint32_t acknowledged_ = 0;  // the last byte that the receiver says it has, plus one
  Where last_;
  bool has_fin_ = false;
  std::uint64_t retransmitted_ = 0;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_TCP_STREAM_H_
