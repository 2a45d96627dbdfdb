#include "rdma/verbs/plugin.h"

#include "rdma/verbs/preflight.h"
#include "rdma/verbs/provider.h"

namespace rpcrdma::rdma::verbs {
namespace {

class PluginOfThisBuild final : public Plugin {
 public:
  Expected<std::unique_ptr<Provider>, Error> make_provider(const Options& options) override {
    return verbs::make_provider(options);
  }
  std::vector<DeviceFacts> devices(Registration wish) override { return verbs::devices(wish); }
  std::string why_no_device() override { return verbs::why_no_device(); }
  Expected<DeviceChoice, std::string> device_for(std::string_view address,
                                                 bool to_listen) override {
    return verbs::device_for(address, to_listen);
  }
  std::string remedy(const Error& error) override { return remedy_for(error); }
};

}  // namespace
}  // namespace rpcrdma::rdma::verbs

extern "C" __attribute__((visibility("default"))) rpcrdma::rdma::verbs::Plugin*
rpcrdma_verbs_plugin(const char* build) {
  namespace verbs = rpcrdma::rdma::verbs;
  static verbs::PluginOfThisBuild plugin;
  return build == verbs::plugin_build() ? &plugin : nullptr;
}
