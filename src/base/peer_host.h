// Tells from a peer's name whose share of a server it counts towards.
#ifndef RPCRDMA_BASE_PEER_HOST_H_
#define RPCRDMA_BASE_PEER_HOST_H_

#include <string>
#include <string_view>

namespace rpcrdma {

// Returns the host of "ADDR:PORT", and the user of "local (user N, process M)": a host can open
// many connections, and a user have many processes, but an address and a user are one.
inline std::string host_of_peer(std::string_view peer) {
  const std::size_t process = peer.find(", process ");
  return std::string(peer.substr(0, process != peer.npos ? process : peer.rfind(':')));
}

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_PEER_HOST_H_
