// One direction of a TCP connection: puts captured segments into the order of their bytes.
#ifndef RPCRDMA_EXPLAIN_TCP_STREAM_H_
#define RPCRDMA_EXPLAIN_TCP_STREAM_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "explain/facts.h"
#include "rpcrdma/types.h"

namespace rpcrdma::explain {

// Takes the bytes of a stream in order.
class StreamConsumer {
 public:
  virtual ~StreamConsumer() = default;
  // `starts_segment`: a segment of TCP began with these bytes.
  virtual void on_bytes(Bytes bytes, const Where& where, bool starts_segment) = 0;
  // Reports that this many bytes of the stream are not in the capture.
  virtual void on_gap(std::uint64_t size, const Where& where) = 0;
};

// Keeps segments that come early, copied and bounded; the first copy of a byte counts. A hole is
// given up as a gap when too much waits behind it, when the receiver has acknowledged more, or when
// the stream ends.
class TcpStream {
 public:
  void begin(std::uint32_t sequence) noexcept;  // of its first byte
  bool has_begun() const noexcept { return has_begun_; }

  // `size` bytes from `sequence` on, of which `bytes` were captured.
  void add(std::uint32_t sequence, Bytes bytes, std::uint32_t size, const Where& where,
           StreamConsumer& consumer);
  // Gives up the hole in front of a place that the receiver has acknowledged, once several segments
  // wait behind it.
  void acknowledge(std::uint32_t sequence, StreamConsumer& consumer);
  // Gives up all holes.
  void end(StreamConsumer& consumer);

  std::uint64_t retransmitted() const noexcept { return retransmitted_; }
  std::size_t held_bytes() const noexcept { return held_bytes_; }

 private:
  struct Held {
    std::uint32_t sequence, size;
    std::vector<std::byte> bytes;
    Where where;
  };

  void deliver(Bytes bytes, std::uint32_t size, const Where& where, StreamConsumer& consumer);
  void deliver_held(StreamConsumer& consumer);
  void skip_hole(StreamConsumer& consumer);
  void hold(std::uint32_t sequence, Bytes bytes, std::uint32_t size, const Where& where);

  bool has_begun_ = false;
  std::uint32_t next_ = 0;  // sequence number of the next byte
  std::deque<Held> held_;   // in the order of their sequence numbers, all behind next_
  std::size_t held_bytes_ = 0;
  std::uint64_t retransmitted_ = 0;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_TCP_STREAM_H_
