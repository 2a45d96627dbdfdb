// The provider of examples/own_provider.h: what a user's would need to run the suite.
#include "conformance/fabric.h"
#include "examples/own_provider.h"

namespace rpcrdma::test {
namespace {

class OwnProviderFabric final : public Fabric {
 public:
  rdma::Provider& client() override { return client_; }
  rdma::Provider& server() override { return server_; }
  std::string listen_address() const override { return "here:0"; }
  std::string dead_address() const override { return "nowhere:1"; }
  bool pump_until(const std::function<bool()>& condition) override {
    for (int i = 0; i < 10'000; ++i) {
      if (condition()) return true;
      client_.progress();
      server_.progress();
    }
    return false;
  }
  bool copies_sends() const override { return false; }
  bool counts_wire_bytes() const override { return false; }

 private:
  own::Wire wire_;
  own::Provider client_{wire_}, server_{wire_};
};

}  // namespace

std::vector<FabricKind> own_provider_fabrics() {
  return {{"own_provider", [] { return std::make_unique<OwnProviderFabric>(); }}};
}

}  // namespace rpcrdma::test
