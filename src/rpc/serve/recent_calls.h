// Names of the newest Calls with chunks that were answered on a connection.
#ifndef RPCRDMA_RPC_SERVE_RECENT_CALLS_H_
#define RPCRDMA_RPC_SERVE_RECENT_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/recent_writes.h"
#include "engine/types.h"

namespace rpcrdma::rpc {

// A Call may be done when the peer says that it refuses an RDMA Write for it, see
// engine::RecentWrites: as many are remembered. Memory is taken with the first.
class RecentCalls {
 public:
  // `name`: for RefusedCalls; 0 is none.
  void note(engine::CallId call, std::uint64_t name) {
    if (calls_.size() < kMax) {
      calls_.reserve(kMax);
      calls_.push_back({call, name});
    } else {
      calls_[next_] = {call, name};
    }
    next_ = (next_ + 1) % kMax;
  }
  // 0: it is not one of them.
  std::uint64_t name_of(engine::CallId call) const noexcept {
    for (const Entry& entry : calls_) {
      if (entry.call == call) return entry.name;
    }
    return 0;
  }

 private:
  static constexpr std::size_t kMax = engine::RecentWrites::kMax;
  struct Entry {
    engine::CallId call;
    std::uint64_t name;
  };
  std::vector<Entry> calls_;
  std::size_t next_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_RECENT_CALLS_H_
