// `rpcrdma serve` as a service of systemd: it reports its state, and takes the sockets of its unit.
// Without systemd, and in a build without libsystemd, nothing happens and there are no sockets.
#ifndef RPCRDMA_TOOLS_SYSTEMD_H_
#define RPCRDMA_TOOLS_SYSTEMD_H_

#include <string>
#include <vector>

namespace rpcrdma::tools::systemd {

// Reports a change of state, with a line for `systemctl status`. From any thread.
void report_ready(const std::string& status);
void report_reloading();
void report_stopping();

// A socket that listens, and its FileDescriptorName=.
struct Socket {
  int descriptor;
  std::string name;
};
// Returns the sockets that the service was started with. They are the caller's from then on: a
// second call returns none.
std::vector<Socket> take_sockets();

}  // namespace rpcrdma::tools::systemd

#endif  // RPCRDMA_TOOLS_SYSTEMD_H_
