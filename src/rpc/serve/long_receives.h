// Tells which connections of a server may have Receives for bulk arguments.
#ifndef RPCRDMA_RPC_SERVE_LONG_RECEIVES_H_
#define RPCRDMA_RPC_SERVE_LONG_RECEIVES_H_

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "rpc/serve/duplicate_calls.h"

namespace rpcrdma::rpc {

// Long Receives that cost a quiet connection nothing may still all be filled at once, and stay so
// for as long as the calls are answered. So that this memory is bounded, there is a number of
// connections that have them; on the others bulk arguments go by RDMA Reads, which takes a round
// trip more. A host that comes first does not get all of them: it never has more than are left for
// others, or the only one. All shards of a server ask one object.
class LongReceives {
 public:
  // `bytes_max`: of all long Receives together; `bytes_each`: of those of a connection.
  LongReceives(std::size_t bytes_max, std::size_t bytes_each) noexcept
      : connections_max_(bytes_each == 0 ? 0 : bytes_max / bytes_each) {}

  // Returns whether a further connection of the peer, "ADDR:PORT", gets them; then they are given
  // back when it has ended.
  bool take(std::string_view peer_address) {
    const std::string host = host_of(peer_address);
    const std::lock_guard lock(mutex_);
    const auto own = of_hosts_.find(host);
    const std::size_t own_count = own != of_hosts_.end() ? own->second : 0;
    if (own_count >= connections_max_ - taken_) return false;
    ++of_hosts_[host];
    ++taken_;
    return true;
  }
  void give_back(std::string_view peer_address) {
    const std::string host = host_of(peer_address);
    const std::lock_guard lock(mutex_);
    const auto own = of_hosts_.find(host);
    if (own == of_hosts_.end()) return;
    if (--own->second == 0) of_hosts_.erase(own);
    --taken_;
  }

 private:
  const std::size_t connections_max_;
  std::mutex mutex_;
  std::map<std::string, std::size_t> of_hosts_;  // connections; hosts that have any
  std::size_t taken_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_LONG_RECEIVES_H_
