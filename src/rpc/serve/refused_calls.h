// Remembers Calls whose chunks their peer refused to open.
#ifndef RPCRDMA_RPC_SERVE_REFUSED_CALLS_H_
#define RPCRDMA_RPC_SERVE_REFUSED_CALLS_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// A Call is remembered for the time when it is made again. RFC 8166 §4.5.4: a failed RDMA operation
// ends the connection, and a requester that makes the same Call again would end the next one as
// well. A Call found here is answered ERR_CHUNK before any of its chunks is touched. Only refusals
// of the peer belong here: a lost link says nothing of a Call.
//
// Once there are kMax of them, the host that has most loses its oldest for a further one: a host
// that refuses much pushes out nobody else's.
//
// Part of ReplyCache, under its lock.
class RefusedCalls {
 public:
  static constexpr std::chrono::minutes kLifetime{5};
  static constexpr std::size_t kMax = 64;

  // `call` names a Call by everything that stays the same when it is made again; 0 is none. `host`
  // names its peer. `now` is never before that of an earlier call.
  void note(std::uint64_t call, std::uint64_t host, Instant now) {
    if (call == 0) return;
    while (!entries_.empty() && !is_alive(entries_.front(), now)) entries_.pop_front();
    if (entries_.size() == kMax) drop_oldest_of(host_with_most());
    entries_.push_back({call, host, now});
  }
  bool contains(std::uint64_t call, Instant now) const noexcept {
    return std::ranges::any_of(
        entries_, [&](const Entry& each) { return each.call == call && is_alive(each, now); });
  }

 private:
  struct Entry {
    std::uint64_t call, host;
    Instant noted_at;
  };
  static bool is_alive(const Entry& entry, Instant now) noexcept {
    return now - entry.noted_at <= kLifetime;
  }
  std::uint64_t host_with_most() const {
    std::map<std::uint64_t, std::size_t> counts;
    for (const Entry& each : entries_) ++counts[each.host];
    return std::ranges::max_element(counts, {}, [](const auto& host) { return host.second; })
        ->first;
  }
  void drop_oldest_of(std::uint64_t host) {
    entries_.erase(std::ranges::find(entries_, host, &Entry::host));
  }

  std::deque<Entry> entries_;  // the oldest first
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_REFUSED_CALLS_H_
