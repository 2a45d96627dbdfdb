#include "nfs/plug_in.h"

#include "nfs/ceph/file_system.h"

namespace nfs::ceph {
namespace {

class CephBackEnd final : public BackEnd {
 public:
  rpcrdma::Expected<std::unique_ptr<FileSystem>, std::string> open(
      const BackEndSettings& settings, const HandleMaker& handles) override {
    return ceph::open(settings, handles);
  }
};

}  // namespace
}  // namespace nfs::ceph

extern "C" __attribute__((visibility("default"))) nfs::BackEnd* rpcrdma_nfs_back_end(
    const char* build) {
  static nfs::ceph::CephBackEnd back_end;
  return nfs::back_end_build() == build ? &back_end : nullptr;
}
