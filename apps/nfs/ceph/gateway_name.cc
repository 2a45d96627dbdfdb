#include "nfs/ceph/gateway_name.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace nfs::ceph {
namespace {

// Names of hosts come twice more easily than these.
std::string machine() {
  std::string id;
  std::ifstream("/etc/machine-id") >> id;
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  return id + "/" + host.data();
}

}  // namespace

rpcrdma::Expected<GatewayName, std::string> GatewayName::take(const std::string& state_path) {
  if (state_path.empty()) return GatewayName({}, {});
  constexpr int kGatewaysMax = 1000;
  for (int number = 0; number < kGatewaysMax; ++number) {
    const std::string path = state_path + "-" + std::to_string(number) + ".lock";
    files::File lock(path, O_RDWR | O_CREAT, 0600);
    if (!lock.is_open()) {
      return rpcrdma::Unexpected<std::string>(path + ": " + std::strerror(errno));
    }
    if (::flock(lock.descriptor(), LOCK_EX | LOCK_NB) != 0) continue;
    const std::string name =
        "rpcrdma " + machine() + std::filesystem::absolute(path).lexically_normal().string();
    return GatewayName(name, std::move(lock));
  }
  return rpcrdma::Unexpected<std::string>(state_path + ": too many gateways have a number there");
}

}  // namespace nfs::ceph
