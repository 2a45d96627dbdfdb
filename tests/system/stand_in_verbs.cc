// librpcrdma_verbs.so of tests: software iWARP by the name of the RDMA devices, for what depends on
// the name alone.
#include <memory>
#include <utility>

#include "rdma/siwarp/provider.h"
#include "rdma/verbs/plugin.h"
#include "support/forwarding_provider.h"

namespace rpcrdma::test {
namespace {

class NamedVerbs final : public ForwardingProvider {
 public:
  explicit NamedVerbs(std::unique_ptr<rdma::Provider> inner)
      : ForwardingProvider(*inner), owned_(std::move(inner)) {}
  std::string_view name() const noexcept override { return "verbs"; }

 private:
  const std::unique_ptr<rdma::Provider> owned_;
};

class StandIn final : public rdma::verbs::Plugin {
 public:
  Expected<std::unique_ptr<rdma::Provider>, rdma::Error> make_provider(
      const rdma::verbs::Options& /*options*/) override {
    auto made = rdma::siwarp::make_provider({});
    if (!made) return made;
    return std::make_unique<NamedVerbs>(std::move(*made));
  }
  std::vector<rdma::verbs::DeviceFacts> devices(rdma::verbs::Registration /*wish*/) override {
    return {};
  }
  std::string why_no_device() override { return "this is a stand-in"; }
  Expected<rdma::verbs::DeviceChoice, std::string> device_for(std::string_view /*address*/,
                                                              bool /*to_listen*/) override {
    return rdma::verbs::DeviceChoice{"stand-in", {}};
  }
  std::string remedy(const rdma::Error& /*error*/) override { return {}; }
};

}  // namespace
}  // namespace rpcrdma::test

extern "C" __attribute__((visibility("default"))) rpcrdma::rdma::verbs::Plugin*
rpcrdma_verbs_plugin(const char* build) {
  static rpcrdma::test::StandIn plugin;
  return build == rpcrdma::rdma::verbs::plugin_build() ? &plugin : nullptr;
}
