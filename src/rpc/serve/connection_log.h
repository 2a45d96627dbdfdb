// Counts the connections of a server, over all transports and shards, and reports them to the
// application.
#ifndef RPCRDMA_RPC_SERVE_CONNECTION_LOG_H_
#define RPCRDMA_RPC_SERVE_CONNECTION_LOG_H_

#include <fmt/core.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/probes.h"
#include "rpcrdma/options.h"

namespace rpcrdma::rpc {

// May be used from any thread; the application gets one report at a time.
class ConnectionLog {
 public:
  // `options`: of a shard. `tcp_max`: the bound for connections over TCP of all shards; 0: none.
  ConnectionLog(const ServerOptions& options, std::size_t tcp_max) noexcept
      : options_(options), tcp_max_(tcp_max) {}

  std::size_t connections() const noexcept { return connections_; }
  void add_to(ServerStatistics& sum) const noexcept {
    sum.connections_opened = opened_;
    sum.connections_refused = refused_;
    sum.connections_lost = lost_;
  }
  // Sets what is called when the last connection has gone, on the thread where it went.
  void when_empty(std::function<void()> tell) { when_empty_ = std::move(tell); }

  // Connections over TCP have a bound of their own where TcpOptions::connections_max is set, so
  // that neither transport can take the connections of the other.
  enum class Transport : std::uint8_t { kRdma, kTcp };

  // Returns whether a further connection would be one too many.
  bool is_full(Transport transport) noexcept { return count_of(transport) >= most_of(transport); }
  // Counts one more connection; returns false, and reports the refusal, if there are too many.
  // `may_exceed`: another one is about to go for it.
  bool admit(std::string_view peer, Transport transport, bool may_exceed = false) {
    ++connections_;
    constexpr std::size_t kAboutToGo = 16;
    const std::size_t most = most_of(transport) + (may_exceed ? kAboutToGo : 0);
    const std::size_t before = count_of(transport)++;
    if (before < most) return true;
    drop(peer, transport,
         {Errc::kNoResources, "accepting", std::string(peer),
          fmt::format("there are {} connections, as many as there may be", before)});
    return false;
  }
  void refuse(std::string_view peer, const Error& error) {
    ++refused_;
    probes::server_connection_refused(peer);
    tell({.kind = ConnectionEvent::Kind::kRefused, .peer = peer, .error = &error});
  }
  // Refuses a connection that was admitted.
  void drop(std::string_view peer, Transport transport, const Error& error) {
    const bool is_empty = leave(transport);
    refuse(peer, error);
    if (is_empty && when_empty_) when_empty_();
  }
  // Reports a connection that was admitted, and returns its number.
  std::uint64_t open(std::string_view peer) {
    const std::uint64_t number = ++opened_;
    probes::server_connection_opened(peer);
    tell({.kind = ConnectionEvent::Kind::kOpened, .peer = peer, .number = number});
    return number;
  }
  // Reports that the set-up of a connection is complete.
  void note_ready(std::string_view peer, std::uint64_t number, const ConnectionTerms& terms) {
    probes::server_connection_ready(peer);
    tell({.kind = ConnectionEvent::Kind::kReady, .peer = peer, .number = number, .terms = &terms});
  }
  // Reports the end of a connection. `error`: null if it ended in order.
  void end(std::string_view peer, std::uint64_t number, Transport transport, const Error* error,
           bool was_reset_at_rest, const TransferCounters& counters) {
    probes::server_connection_ended(peer, counters.calls, error == nullptr ? 1 : 0);
    const bool is_empty = leave(transport);
    if (error != nullptr) ++lost_;
    tell({.kind = ConnectionEvent::Kind::kEnded,
          .peer = peer,
          .number = number,
          .error = error,
          .was_reset_at_rest = was_reset_at_rest,
          .counters = counters});
    if (is_empty && when_empty_) when_empty_();
  }

 private:
  bool has_own_bound(Transport transport) const noexcept {
    return transport == Transport::kTcp && tcp_max_ > 0;
  }
  std::atomic<std::size_t>& count_of(Transport transport) noexcept {
    return has_own_bound(transport) ? tcp_ : counted_;
  }
  std::size_t most_of(Transport transport) const noexcept {
    // Shards make room themselves; a few connections may be on their way to them.
    constexpr std::size_t kOnTheirWay = 128;
    return has_own_bound(transport) ? tcp_max_ + kOnTheirWay : options_.connections_max;
  }
  // Returns whether it was the last one.
  bool leave(Transport transport) noexcept {
    --count_of(transport);
    return --connections_ == 0;
  }
  void tell(ConnectionEvent event) {
    if (!options_.on_connection) return;
    const std::lock_guard lock(mutex_);
    event.connections = connections_;
    options_.on_connection(event);
  }

  const ServerOptions& options_;
  const std::size_t tcp_max_;
  std::function<void()> when_empty_;
  std::atomic<std::size_t> connections_ = 0;
  std::atomic<std::size_t> counted_ = 0;  // of these, against ServerOptions::connections_max
  std::atomic<std::size_t> tcp_ = 0;      // the others
  std::atomic<std::uint64_t> opened_ = 0, refused_ = 0, lost_ = 0;  // so far
  std::mutex mutex_;                                                // one on_connection() at a time
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_CONNECTION_LOG_H_
