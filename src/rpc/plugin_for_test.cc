// Takes the place of librpcrdma_verbs.so: a device for each address but 192.0.2.1, whose use fails.
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
  Expected<DeviceChoice, std::string> device_for(std::string_view address, bool) override {
    if (address.starts_with("192.0.2.1:")) return Unexpected<std::string>("there is none");
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
