// How a shard of a server reports its figures to other threads.
#ifndef RPCRDMA_RPC_SERVE_BOARD_H_
#define RPCRDMA_RPC_SERVE_BOARD_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "rpcrdma/statistics.h"

namespace rpcrdma::rpc {

// A shard makes its figures when somebody asks, on its own thread: they are spread over its
// connections, and no call should pay for them.
class Board {
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
  ServerStatistics latest() {
    const std::lock_guard lock(mutex_);
    return figures_;
  }

 private:
  std::atomic<bool> is_wanted_ = false;
  std::mutex mutex_;
  std::condition_variable answered_;
  ServerStatistics figures_;  // guarded by mutex_
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_BOARD_H_
