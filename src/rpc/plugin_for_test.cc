// Takes the place of librpcrdma_verbs.so: a device for each address but 192.0.2.1, whose use fails;
// for 192.0.2.3 only where one listens, and for 192.0.2.4 one that has a problem.
#include "rdma/verbs/plugin.h"

namespace rpcrdma::rdma::verbs {
namespace {

class PluginForTest final : public Plugin {
 public:
  Expected<std::unique_ptr<Provider>, Error> make_provider(const Options&) override {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "the test's device"});
  }
  std::vector<DeviceFacts> devices(Registration) override { return {}; }
  std::string why_no_device() override { return {}; }
  Expected<DeviceChoice, std::string> device_for(std::string_view address,
                                                 bool to_listen) override {
    if (address.starts_with("192.0.2.1:") || (address.starts_with("192.0.2.3:") && !to_listen)) {
      return Unexpected<std::string>("there is none");
    }
    if (address.starts_with("192.0.2.4:")) return DeviceChoice{"test0", "it is not up"};
    return DeviceChoice{"test0", {}};
  }
  std::string remedy(const Error&) override { return {}; }
};

}  // namespace
}  // namespace rpcrdma::rdma::verbs

extern "C" __attribute__((visibility("default"))) rpcrdma::rdma::verbs::Plugin*
rpcrdma_verbs_plugin(const char* build) {
  namespace verbs = rpcrdma::rdma::verbs;
  static verbs::PluginForTest plugin;
  return build == verbs::plugin_build() ? &plugin : nullptr;
}
