// How many connections a server has, over all transports, and who hears of them.
#ifndef RPCRDMA_RPC_SERVE_CONNECTION_LOG_H_
#define RPCRDMA_RPC_SERVE_CONNECTION_LOG_H_

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "rpcrdma/options.h"

namespace rpcrdma::rpc {

class ConnectionLog {
 public:
  explicit ConnectionLog(const ServerOptions& options) noexcept : options_(options) {}

  std::size_t connections() const noexcept { return connections_; }

  // Whether one more may come; if not, its peer is told to be refused.
  bool admit(std::string_view peer) const {
    if (connections_ < options_.connections_max) return true;
    refuse(peer, {Errc::kNoResources, "accepting", std::string(peer),
                  fmt::format("there are {} connections, as many as there may be", connections_)});
    return false;
  }
  void refuse(std::string_view peer, const Error& error) const {
    tell({.kind = ConnectionEvent::Kind::kRefused, .peer = peer, .error = &error});
  }
  void open(std::string_view peer) {
    ++connections_;
    tell({.kind = ConnectionEvent::Kind::kOpened, .peer = peer});
  }
  // Null: in order.
  void end(std::string_view peer, const Error* error, const TransferCounters& counters) {
    --connections_;
    tell({.kind = ConnectionEvent::Kind::kEnded,
          .peer = peer,
          .error = error,
          .counters = counters});
  }

 private:
  void tell(ConnectionEvent event) const {
    if (!options_.on_connection) return;
    event.connections = connections_;
    options_.on_connection(event);
  }

  const ServerOptions& options_;
  std::size_t connections_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_CONNECTION_LOG_H_
