// Watches one client connection's credits from outside of the engine: by the headers that really
// pass (I2, RFC 8166 §3.3.1).
#ifndef RPCRDMA_TESTS_SIM_CREDIT_MONITOR_H_
#define RPCRDMA_TESTS_SIM_CREDIT_MONITOR_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "sim/verdict.h"

namespace rpcrdma::simulation {

class CreditMonitor {
 public:
  // `newest_counts`: also above what was asked for (RFC 5666 §3.3).
  explicit CreditMonitor(bool newest_counts = false) noexcept : newest_counts_(newest_counts) {}

  void call_sent(std::uint32_t requested, Verdict& verdict) {
    if (requested == 0) verdict.broken(2, "a Call asks for no credits");
    ++unanswered_;
    const std::uint32_t limit = newest_counts_ ? possible_ : std::min(requested, possible_);
    if (unanswered_ > limit) {
      verdict.broken(2, std::to_string(unanswered_) + " Calls without an answer, with " +
                            std::to_string(limit) + " credits");
    }
  }
  void reply_received(std::uint32_t granted, Verdict& verdict) {
    if (granted == 0) verdict.broken(2, "a reply grants no credits");
    if (unanswered_ == 0) {
      verdict.broken(5, "more replies than Calls");
    } else {
      --unanswered_;
    }
    // A smaller grant takes nothing back: Calls that were let go under the one before may still
    // come, for example behind the registration of their memory.
    possible_ = std::max(granted, possible_ - 1);
  }

 private:
  const bool newest_counts_;
  std::uint32_t unanswered_ = 0;
  std::uint32_t possible_ = 1;  // Calls without an answer; one until the first reply
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_CREDIT_MONITOR_H_
