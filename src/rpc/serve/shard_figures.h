// The figures that a shard of a server reports to other threads.
#ifndef RPCRDMA_RPC_SERVE_SHARD_FIGURES_H_
#define RPCRDMA_RPC_SERVE_SHARD_FIGURES_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "rpc/counters.h"
#include "rpcrdma/counters.h"

namespace rpcrdma::rpc {

struct ShardFigures {
  std::size_t receives_posted = 0;
  std::size_t memory_in_use = 0;  // bytes
  bool shares_receives = false;
  TransferCounters counters;

  void add(const ShardFigures& other) {
    receives_posted += other.receives_posted;
    memory_in_use += other.memory_in_use;
    shares_receives = shares_receives || other.shares_receives;
    rpc::add(counters, other.counters);
  }
};

// A shard makes its figures when somebody asks, on its own thread: they are spread over its
// connections, and no call should pay for them.
class FigureBoard {
 public:
  // Makes the figures if somebody has asked. The shard's thread calls it in each round.
  template <class Make>
  void answer(Make&& make) {
    if (!is_wanted_.load(std::memory_order_acquire)) return;
    {
      const std::lock_guard lock(mutex_);
      figures_ = make();
      is_wanted_.store(false, std::memory_order_release);
    }
    answered_.notify_all();
  }

  // Other threads ask, wake the shard, wait, and read its latest answer.
  void ask() noexcept { is_wanted_.store(true, std::memory_order_release); }
  bool wait_for(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return answered_.wait_for(lock, patience, [this] { return !is_wanted_.load(); });
  }
  ShardFigures latest() {
    const std::lock_guard lock(mutex_);
    return figures_;
  }

 private:
  std::atomic<bool> is_wanted_ = false;
  std::mutex mutex_;
  std::condition_variable answered_;
  ShardFigures figures_;  // guarded by mutex_
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_SHARD_FIGURES_H_
