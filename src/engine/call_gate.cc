#include "engine/call_gate.h"

#include <algorithm>

namespace rpcrdma::engine {

// Waits are counted here, out of the way of Calls that find a credit at once.

void CallGate::remove(std::uint16_t slot) {
  add_waited();
  waiting_.remove_if([slot](std::uint16_t each) { return each == slot; });
  blocked_ = std::min<std::uint64_t>(blocked_, waiting_.size());
}

void CallGate::note_waits() noexcept {
  add_waited();
  shared_.counters.credit_waits += waiting_.size() - blocked_;
  blocked_ = waiting_.size();
}

void CallGate::note_end_of_wait() noexcept {
  add_waited();
  --blocked_;
}

// Adds the time since the last look for each Call that has waited since then.
void CallGate::add_waited() noexcept {
  const auto passed = std::max(now_ - blocked_at_, Instant::duration(0));
  shared_.counters.credit_wait_ns += blocked_ * static_cast<std::uint64_t>(passed.count());
  blocked_at_ = now_;
}

}  // namespace rpcrdma::engine
