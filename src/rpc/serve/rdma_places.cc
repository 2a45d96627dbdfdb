#include "rpc/serve/rdma_places.h"

#include <utility>

#include "rpc/serve/rdma_peer.h"

namespace rpcrdma::rpc {

bool RdmaPlaces::end_spare(std::string_view peer, const PeerTable& peers, Instant now) {
  const auto host = shares_.host_above(peer);
  return host && spare_pace_.may_take(now) && RdmaPeer::end_spare_of(*host, peers, now);
}

void RdmaPlaces::make_up_for_lack(const PeerTable& peers, TcpServer& tcp, Instant now) {
  const std::string peer = *std::exchange(lacking_, std::nullopt);
  if (!lack_pace_.may_take(now)) return;  // it is noted again if it lasts
  const bool is_tcp_first = tcp.shares().most() > shares_.most();
  if (is_tcp_first && tcp.end_spare(peer, now)) return;
  if (!end_spare(peer, peers, now) && !is_tcp_first) (void)tcp.end_spare(peer, now);
}

}  // namespace rpcrdma::rpc
