// Tells a record that its peer has left incomplete from one that is on its way.
#ifndef RPCRDMA_RPC_SERVE_REST_OF_RECORD_H_
#define RPCRDMA_RPC_SERVE_REST_OF_RECORD_H_

#include <chrono>
#include <cstdint>

#include "rpc/serve/duplicate_calls.h"

namespace rpcrdma::rpc {

// Looks at a connection behind each of its turns.
class RestOfRecord {
 public:
  // `awaits`: nothing is under way but a record of which the peer has not sent all. `is_new`: it is
  // another one than behind the last turn. `received`: bytes over the connection so far.
  void note(Instant now, bool awaits, bool is_new, std::uint64_t received) noexcept {
    if (awaits && (!awaits_ || is_new)) {
      since_ = now;
      from_ = received;
    }
    awaits_ = awaits;
    received_ = received;
  }
  // Returns whether it is awaited for more than a second longer than what has come of it takes at
  // `rate_min`, bytes per second; 0: whatever has come.
  bool is_left(Instant now, std::uint32_t rate_min) const noexcept {
    if (!awaits_) return false;
    auto allowed = std::chrono::milliseconds(1000);
    if (rate_min > 0) allowed += std::chrono::milliseconds((received_ - from_) * 1000 / rate_min);
    return now - since_ >= allowed;
  }

 private:
  bool awaits_ = false;
  Instant since_{};
  std::uint64_t from_ = 0, received_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_REST_OF_RECORD_H_
