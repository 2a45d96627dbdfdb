// A time at which something is to be done, or never.
#ifndef RPCRDMA_BASE_DEADLINE_H_
#define RPCRDMA_BASE_DEADLINE_H_

#include <algorithm>
#include <chrono>
#include <optional>

#include "rpcrdma/types.h"

namespace rpcrdma {

// Does what std::optional<Instant> does, in one word and without branches: turns of connections
// compare several of them each time.
class Deadline {
 public:
  constexpr Deadline() noexcept = default;
  constexpr Deadline(Instant when) noexcept : when_(when) {}  // NOLINT: a time is a deadline
  constexpr Deadline(std::nullopt_t /*never*/) noexcept {}    // NOLINT: as is none
  // NOLINTNEXTLINE: and providers pass either
  constexpr Deadline(std::optional<Instant> when) noexcept : when_(when.value_or(kNever)) {}

  constexpr void reset() noexcept { when_ = kNever; }
  constexpr explicit operator bool() const noexcept { return when_ != kNever; }
  // Precondition: there is one.
  constexpr Instant operator*() const noexcept { return when_; }
  constexpr bool is_over(Instant now) const noexcept { return when_ <= now; }
  constexpr operator std::optional<Instant>() const noexcept {  // NOLINT: both say the same
    return when_ != kNever ? std::optional(when_) : std::nullopt;
  }
  friend constexpr bool operator==(Deadline, Deadline) noexcept = default;
  friend constexpr Deadline earlier(Deadline one, Deadline other) noexcept {
    return std::min(one.when_, other.when_);
  }

 private:
  static constexpr Instant kNever = Instant::max();
  Instant when_ = kNever;
};

// How much later than its end a time is looked at, at most. Later, this side was away.
inline constexpr std::chrono::milliseconds kPunctual{100};

// Returns whether a peer has let its time pass. Where this side was away at the end, what the peer
// has done meanwhile is still to be looked at: the time is a little longer then, once.
// `had_grace`: false when the deadline was set.
inline bool has_peer_let_pass(Deadline& deadline, bool& had_grace, Instant now) noexcept {
  constexpr std::chrono::seconds kGrace{1};
  if (!deadline.is_over(now)) return false;
  if (had_grace || now - *deadline <= kPunctual) return true;
  had_grace = true;
  deadline = now + kGrace;
  return false;
}

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_DEADLINE_H_
