// New connections that other shards of a server have dealt to one.
#ifndef RPCRDMA_RPC_SERVE_SHARD_INBOX_H_
#define RPCRDMA_RPC_SERVE_SHARD_INBOX_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "posix/fd.h"
#include "rpc/serve/server_loop.h"
#include "rpcrdma/provider.h"
#include "tcp/accepted.h"

namespace rpcrdma::rpc {

// Refuses or closes what it still holds when it is destroyed.
class ShardInbox {
 public:
  struct Items {
    std::vector<std::unique_ptr<rdma::Incoming>> requests;  // admitted, and left by their provider
    std::vector<tcp::Accepted> sockets;
    std::vector<posix::Fd> stepping_up;  // TCP connections to be taken over; the first shard's
    bool empty() const noexcept {
      return requests.empty() && sockets.empty() && stepping_up.empty();
    }
  };

  // The inbox wakes the loop of its shard, which outlives it.
  explicit ShardInbox(ServerLoop& loop) noexcept : loop_(loop) {}

  // Return false if the shard has drained; the item is unchanged then, and the caller keeps it.
  // From any thread.
  [[nodiscard]] bool put(std::unique_ptr<rdma::Incoming>& request) {
    return put(&Items::requests, request);
  }
  [[nodiscard]] bool put(tcp::Accepted& accepted) { return put(&Items::sockets, accepted); }
  [[nodiscard]] bool step_up(posix::Fd& socket) { return put(&Items::stepping_up, socket); }
  // Takes what has come. The shard's thread calls it.
  Items take() {
    Items taken;
    if (!is_any_.load(std::memory_order_acquire)) return taken;
    const std::lock_guard lock(mutex_);
    is_any_.store(false, std::memory_order_relaxed);
    std::swap(taken, items_);
    return taken;
  }
  // Takes what is left, and lets nothing in any more.
  Items close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    return std::exchange(items_, {});
  }

 private:
  template <class T>
  bool put(std::vector<T> Items::*list, T& item) {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    (items_.*list).push_back(std::move(item));
    is_any_.store(true, std::memory_order_release);
    loop_.wake();  // under the lock: the shard may end as soon as it has what it waits for
    return true;
  }

  ServerLoop& loop_;
  std::atomic<bool> is_any_ = false;
  std::mutex mutex_;
  Items items_;             // guarded by mutex_
  bool is_closed_ = false;  // guarded by mutex_
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_SHARD_INBOX_H_
