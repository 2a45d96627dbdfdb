// Hosts as numbers, for what is shared among them.
#ifndef RPCRDMA_FILES_HOST_NUMBER_H_
#define RPCRDMA_FILES_HOST_NUMBER_H_

#include <cstdint>
#include <string_view>

namespace files {

// Returns a number for the host of a peer, which is the same for all its ports. `peer` is
// CallContext::peer_address(): "ADDR:PORT", or the user and process behind a Unix socket.
std::uint64_t number_of_host(std::string_view peer) noexcept;

}  // namespace files

#endif  // RPCRDMA_FILES_HOST_NUMBER_H_
