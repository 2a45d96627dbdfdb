// The Sends of a connection's Calls, which leave in the order of their posting.
#ifndef RPCRDMA_ENGINE_LEAVING_SENDS_H_
#define RPCRDMA_ENGINE_LEAVING_SENDS_H_

#include <chrono>
#include <cstdint>

#include "engine/types.h"

namespace rpcrdma::engine {

// While those that were posted before a call's own work leave, its work will: on a slow link
// arguments queue up. When later ones leave, it is held back by something else, such as a Write
// that the peer has begun into its memory and does not end.
class LeavingSends {
 public:
  void ask() noexcept { ++asked_; }
  void note_complete(Instant now) noexcept {
    last_ = now;
    ++complete_;
  }
  // Returns the place of the work that is posted next.
  std::uint32_t place() const noexcept { return asked_; }
  // Returns until when work of that place has reason to wait, if others may take `patience` each.
  Instant reason_to_wait(std::uint32_t place, std::chrono::nanoseconds patience) const noexcept {
    const bool have_later_left =
        static_cast<std::int32_t>(complete_ - place) > 0;  // may have wrapped
    return have_later_left ? Instant::min() : last_ + patience;
  }

 private:
  std::uint32_t asked_ = 0, complete_ = 0;
  Instant last_{};  // when one was complete
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_LEAVING_SENDS_H_
