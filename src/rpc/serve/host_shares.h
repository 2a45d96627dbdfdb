// Tells which host has more than its share of a server's connections.
#ifndef RPCRDMA_RPC_SERVE_HOST_SHARES_H_
#define RPCRDMA_RPC_SERVE_HOST_SHARES_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "rpc/serve/duplicate_calls.h"

namespace rpcrdma::rpc {

// When all connections are taken, or what they need has run out, a host that has fewer may take
// idle ones of the host that has most, until both have as many: otherwise one host could keep all
// others out with a call now and then on each connection. The other host's clients connect again
// when they have to.
class HostShares {
 public:
  // Counts a connection by its peer's address, "ADDR:PORT".
  void add(std::string_view peer_address) { ++counts_[host_of(peer_address)]; }
  // Forgets a connection that has ended.
  void remove(std::string_view peer_address) {
    const auto own = counts_.find(host_of(peer_address));
    if (own != counts_.end() && --own->second == 0) counts_.erase(own);
  }
  // Returns how many the host has that has most.
  std::size_t most() const {
    const auto most = host_with_most();
    return most != counts_.end() ? most->second : 0;
  }
  // Returns the host that has to leave a connection to `peer`, the peer of a further one; nullopt
  // if no host has so many more. `peer` may be empty: nobody knows it yet, and it has none.
  std::optional<std::string> host_above(std::string_view peer) const {
    const auto most = host_with_most();
    const auto own = counts_.find(host_of(peer));
    const std::size_t own_count = own != counts_.end() ? own->second : 0;
    if (most == counts_.end() || most->second <= own_count + 1) return std::nullopt;
    return most->first;
  }

 private:
  using Counts = std::map<std::string, std::size_t>;
  Counts::const_iterator host_with_most() const {
    return std::ranges::max_element(
        counts_, [](const auto& a, const auto& b) { return a.second < b.second; });
  }

  Counts counts_;
};

// Lets one connection a second be taken, so that strangers who connect and leave again and again do
// little harm, and cost little: each time the server looks at all connections.
class SparePace {
 public:
  bool may_take(Instant now) noexcept {
    if (now < next_) return false;
    next_ = now + std::chrono::seconds(1);
    return true;
  }

 private:
  Instant next_{};
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_HOST_SHARES_H_
