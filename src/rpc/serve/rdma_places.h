// The places that the hosts have among the RDMA connections of a server.
#ifndef RPCRDMA_RPC_SERVE_RDMA_PLACES_H_
#define RPCRDMA_RPC_SERVE_RDMA_PLACES_H_

#include <optional>
#include <string>
#include <string_view>

#include "rpc/serve/host_shares.h"
#include "rpc/serve/peer_table.h"
#include "rpc/serve/tcp_server.h"

namespace rpcrdma::rpc {

class RdmaPlaces {
 public:
  // Count a connection by its peer's address.
  void add(std::string_view peer) { shares_.add(peer); }
  void remove(std::string_view peer) { shares_.remove(peer); }
  // Ends a spare connection of the host that has to leave one to `peer`. False: there is none, or
  // one has gone just before.
  bool end_spare(std::string_view peer, const PeerTable& peers, Instant now);

  // Descriptors, or what a device has for connections, may run out before all are taken. Note for
  // whose connection something was lacking; empty: nobody knows its peer yet.
  void note_lack(std::string_view peer = {}) { lacking_ = peer; }
  bool is_lacking() const noexcept { return lacking_.has_value(); }
  // Has the host with most leave a connection in this case, too; both transports take descriptors.
  void make_up_for_lack(const PeerTable& peers, TcpServer& tcp, Instant now);

 private:
  HostShares shares_;
  SparePace spare_pace_, lack_pace_;
  std::optional<std::string> lacking_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_RDMA_PLACES_H_
