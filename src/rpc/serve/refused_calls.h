// Remembers Calls whose chunks the peer refused to open, for the time when they are made again.
#ifndef RPCRDMA_RPC_SERVE_REFUSED_CALLS_H_
#define RPCRDMA_RPC_SERVE_REFUSED_CALLS_H_

#include <chrono>
#include <cstdint>

#include "base/newest.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// RFC 8166 §4.5.4: a failed RDMA operation ends the connection, and a requester that makes the same
// Call again would end the next one as well. A Call found here is answered ERR_CHUNK before any of
// its chunks is touched. Only refusals of the peer belong here: a lost link says nothing of a Call.
//
// An entry goes when the reply cache would have dropped the Call's reply, had it been answered
// then, or after kLifetime, since an idempotent workload never turns the cache over.
//
// Part of ReplyCache, under its lock.
class RefusedCalls {
 public:
  static constexpr std::chrono::minutes kLifetime{5};

  // `replies_max`: entries of the reply cache.
  explicit RefusedCalls(std::uint64_t replies_max) noexcept : replies_max_(replies_max) {}

  // `call` names a Call by everything that stays the same when it is made again; 0 is none.
  // `replies`: how many replies the cache has taken so far.
  void note(std::uint64_t call, std::uint64_t replies, Instant now) {
    if (call == 0) return;
    entries_.note({call, replies, now});
  }
  bool contains(std::uint64_t call, std::uint64_t replies, Instant now) const noexcept {
    return entries_.find([&](const Entry& entry) {
      return entry.call == call && now - entry.noted_at <= kLifetime &&
             (replies_max_ == 0 || replies - entry.replies < replies_max_);
    }) != nullptr;
  }

 private:
  struct Entry {
    std::uint64_t call;
    std::uint64_t replies;
    Instant noted_at;
  };
  const std::uint64_t replies_max_;
  Newest<Entry> entries_{64};
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_REFUSED_CALLS_H_
