// Remembers clients whose next connection must go to a certain shard.
#ifndef RPCRDMA_RPC_SERVE_HOME_SHARDS_H_
#define RPCRDMA_RPC_SERVE_HOME_SHARDS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace rpcrdma::rpc {

class ShardInbox;

// A client that is called over more than one connection (BackwardOptions::outlives_connection) is
// known by its host: calls to it wait on the shard that had its last connection. From any thread.
class HomeShards {
 public:
  void note(std::string host, ShardInbox& shard) {
    const std::lock_guard lock(mutex_);
    const auto at = find_entry(host);
    if (at != entries_.end()) {
      at->second = &shard;
      return;
    }
    if (entries_.size() == kHostsMax) entries_.pop_front();
    entries_.emplace_back(std::move(host), &shard);
    is_any_ = true;
  }
  // Returns null if any shard may have it.
  ShardInbox* find(std::string_view host) {
    if (!is_any_) return nullptr;  // the usual case
    const std::lock_guard lock(mutex_);
    const auto at = find_entry(host);
    return at == entries_.end() ? nullptr : at->second;
  }

 private:
  static constexpr std::size_t kHostsMax = 4096;
  using Entries = std::deque<std::pair<std::string, ShardInbox*>>;

  Entries::iterator find_entry(std::string_view host) {
    return std::ranges::find(entries_, host, &Entries::value_type::first);
  }

  std::atomic<bool> is_any_ = false;
  std::mutex mutex_;
  Entries entries_;  // guarded by mutex_; the oldest first
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_HOME_SHARDS_H_
