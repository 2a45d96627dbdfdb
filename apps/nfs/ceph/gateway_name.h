// The name by which the cluster knows an export of a gateway. A gateway that takes over the name of
// one that was killed can end at once all that the other held. Two that live never have the same
// name: each would end the other.
#ifndef RPCRDMA_NFS_CEPH_GATEWAY_NAME_H_
#define RPCRDMA_NFS_CEPH_GATEWAY_NAME_H_

#include <cstdint>
#include <string>
#include <utility>

#include "files/file.h"
#include "rpcrdma/error.h"

namespace nfs::ceph {

class GatewayName {
 public:
  // The first number that no process of this machine has, by a lock on STATE_PATH-N.lock, which is
  // released when the process ends, however it ends. Empty `state_path`: no name.
  static rpcrdma::Expected<GatewayName, std::string> take(const std::string& state_path);
  // Returns the one that was given, with the export's number: each export is a client of the
  // cluster for itself. Whoever gives it sees to it that no other process has it.
  static GatewayName given(const std::string& name, std::uint64_t fsid) {
    return GatewayName(name + "/" + std::to_string(fsid), {});
  }

  const std::string& text() const noexcept { return text_; }

 private:
  GatewayName(std::string text, files::File lock)
      : text_(std::move(text)), lock_(std::move(lock)) {}

  std::string text_;
  files::File lock_;
};

}  // namespace nfs::ceph

#endif  // RPCRDMA_NFS_CEPH_GATEWAY_NAME_H_
