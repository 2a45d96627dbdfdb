// Bounds the time that a peer takes for replies whose memory is not its connection's alone.
#ifndef RPCRDMA_ENGINE_REPLY_WATCH_H_
#define RPCRDMA_ENGINE_REPLY_WATCH_H_

#include <cstdint>
#include <span>
#include <utility>

#include "base/deadline.h"
#include "base/drain_watch.h"
#include "engine/answered_call.h"

namespace rpcrdma::engine {

// Watches replies with RDMA Writes, those in the message whose results are in memory of the pool,
// perhaps borrowed for more, and those that the peer reads itself (RFC 5666).
class ReplyWatch {
 public:
  explicit ReplyWatch(const Options& options) noexcept
      : watch_(options.peer_timeout, options.pull_rate_min) {}

  // The Send of the reply goes out, behind its Writes.
  void sending(AnsweredCall& call, Instant now) noexcept {
    const bool has_written = call.chunked != nullptr && call.chunked->has_written;
    // A reply in its connection's memory has room for its header there.
    const bool may_hold_more = call.success && call.header_room == nullptr;
    if (has_written || may_hold_more) begin(call, now);
  }
  // The reply waits until it may be exposed to be read.
  void exposing(AnsweredCall& call, std::span<const Fragment> stream, Instant now) noexcept {
    for (const Fragment& run : stream) call.chunked->written += run.size;
    begin(call, now);
  }
  // The peer has taken it, or the call ends otherwise.
  void end(AnsweredCall& call, Instant now) noexcept {
    if (std::exchange(call.is_watched, false)) watch_.end(bytes_of(call), now);
  }
  void stop() noexcept { watch_.stop(); }
  bool is_late(Instant now) noexcept { return watch_.is_late(now); }
  Deadline deadline() const noexcept { return watch_.deadline(); }

 private:
  static std::uint64_t bytes_of(const AnsweredCall& call) noexcept {
    return call.chunked != nullptr ? call.chunked->written : 0;
  }
  void begin(AnsweredCall& call, Instant now) noexcept {
    if (!std::exchange(call.is_watched, true)) watch_.begin(bytes_of(call), now);
  }

  DrainWatch watch_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_REPLY_WATCH_H_
