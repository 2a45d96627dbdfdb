// Has the kernel end a TCP connection whose peer is gone without a word.
#ifndef RPCRDMA_POSIX_VANISHED_PEER_H_
#define RPCRDMA_POSIX_VANISHED_PEER_H_

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace rpcrdma::posix {

// A host that lost its power or its network is noticed within a minute, whether there is nothing to
// send to it (by probes) or bytes are under way (else only after a quarter of an hour, in which the
// connection keeps its place). A peer that takes nothing for as long is gone as well. These are
// wishes: sockets of other families, and a kernel without an option, go on without.
inline void notice_vanished_peer(int fd) noexcept {
  constexpr int kIdleS = 30, kBetweenProbesS = 10, kProbes = 3;
  constexpr int kUnansweredMs = (kIdleS + kBetweenProbesS * kProbes) * 1000;
  const auto set = [fd](int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kIdleS);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kBetweenProbesS);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUnansweredMs);
}

}  // namespace rpcrdma::posix

#endif  // RPCRDMA_POSIX_VANISHED_PEER_H_
