// The devices behind a wildcard address. The connection manager tells the removal of one only to
// who is bound to it; a listener at a wildcard address is bound to none.
#ifndef RPCRDMA_RDMA_VERBS_DEVICE_WATCH_H_
#define RPCRDMA_RDMA_VERBS_DEVICE_WATCH_H_

#include <infiniband/verbs.h>

#include <memory>
#include <vector>

#include "rdma/verbs/cm.h"

namespace rpcrdma::rdma::verbs {

class DeviceWatch final : private CmTarget {
 public:
  // Null: no device has the address.
  static std::unique_ptr<DeviceWatch> bind(CmChannel& cm, const posix::Address& address);
  ~DeviceWatch() override = default;
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  bool removed() const noexcept { return id_ == nullptr; }
  ibv_context& device() const noexcept { return *device_; }  // the connection manager's

 private:
  DeviceWatch() = default;
  void handle_cm(CmEvent& event) override;

  CmId id_;  // null: it was removed
  ibv_context* device_ = nullptr;
};

// One for each device that has an address of this machine.
std::vector<std::unique_ptr<DeviceWatch>> watch_devices(CmChannel& cm);

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_DEVICE_WATCH_H_
