// Limits how long the peer may leave our work waiting.
#ifndef RPCRDMA_ENGINE_PEER_WATCH_H_
#define RPCRDMA_ENGINE_PEER_WATCH_H_

#include <chrono>
#include <cstdint>

#include "base/deadline.h"
#include "engine/types.h"

namespace rpcrdma::engine {

// While work is under way, each completion gives the peer its time anew.
class PeerWatch {
 public:
  explicit PeerWatch(std::chrono::nanoseconds timeout) noexcept : timeout_(timeout) {}

  void posted(Instant now) noexcept {
    if (under_way_++ == 0) set(now);
  }
  // `connected`: else what is left only comes back, and is not waited for.
  void done(Instant now, bool connected) noexcept {
    deadline_.reset();
    if (--under_way_ > 0 && connected) set(now);
  }
  // True once: the time is over.
  bool expired(Instant now) noexcept {
    if (!has_peer_let_pass(deadline_, had_grace_, now)) return false;
    deadline_.reset();
    return true;
  }
  void stop() noexcept { deadline_.reset(); }
  Deadline deadline() const noexcept { return deadline_; }

 private:
  void set(Instant now) noexcept {
    deadline_ = now + timeout_;
    had_grace_ = false;
  }

  const std::chrono::nanoseconds timeout_;
  std::uint32_t under_way_ = 0;
  Deadline deadline_;
  bool had_grace_ = false;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_PEER_WATCH_H_
