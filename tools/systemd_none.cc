#include "tools/systemd.h"

namespace rpcrdma::tools::systemd {

void report_ready(const std::string& /*status*/) {}
void report_reloading() {}
void report_stopping() {}

std::vector<Socket> take_sockets() {
  return {};
}

}  // namespace rpcrdma::tools::systemd
