#include "rdma/verbs/device_watch.h"

#include <algorithm>
#include <utility>

#include "rdma/verbs/interfaces.h"

namespace rpcrdma::rdma::verbs {

std::unique_ptr<DeviceWatch> DeviceWatch::bind(CmChannel& cm, const posix::Address& address) {
  std::unique_ptr<DeviceWatch> made(new DeviceWatch);
  made->id_ = cm.make_id(*made);
  posix::Address copy = address;  // whose port is 0: any free one
  if (!made->id_ || rdma_bind_addr(made->id_.get(), copy.pointer()) != 0) return nullptr;
  made->device_ = made->id_->verbs;
  return made->device_ != nullptr ? std::move(made) : nullptr;
}

// The kernel delays removal until bound ids close.
void DeviceWatch::handle_cm(CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) id_.reset();
}

std::vector<std::unique_ptr<DeviceWatch>> watch_devices(CmChannel& cm) {
  std::vector<std::unique_ptr<DeviceWatch>> found;
  for (const Interface& each : interfaces()) {
    auto watch = DeviceWatch::bind(cm, each.address);
    const auto is_same = [&](const auto& other) { return &other->device() == &watch->device(); };
    if (watch && std::ranges::none_of(found, is_same)) found.push_back(std::move(watch));
  }
  return found;
}

}  // namespace rpcrdma::rdma::verbs
