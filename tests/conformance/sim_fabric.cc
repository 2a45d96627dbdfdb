// The simulator, calm, in bad weather, and with little to offer.
#include <chrono>

#include "conformance/fabric.h"
#include "rdma/sim/provider.h"
#include "rdma/sim/world.h"

namespace rpcrdma::test {
namespace {

using SimOptions = rdma::sim::Options;

class SimFabric final : public Fabric {
 public:
  SimFabric(std::uint64_t seed, const SimOptions& options)
      : world_(seed, options), client_(world_, "client"), server_(world_, "server") {}

  rdma::Provider& client() override { return client_; }
  rdma::Provider& server() override { return server_; }
  std::string listen_address() const override { return "127.0.0.1:0"; }
  std::string dead_address() const override { return "127.0.0.1:1"; }
  bool pump_until(const std::function<bool()>& condition) override {
    for (int i = 0; i < 1'000'000; ++i) {
      if (condition()) return true;
      if (!world_.next_event()) return false;
      client_.wait();
      client_.progress();
      server_.progress();
    }
    return false;
  }

 private:
  rdma::sim::World world_;
  rdma::sim::Provider client_, server_;
};

FabricKind sim_kind(std::string name, const SimOptions& options) {
  return {std::move(name), [options] { return std::make_unique<SimFabric>(1, options); }};
}

}  // namespace

std::vector<FabricKind> sim_fabrics() {
  SimOptions late;
  late.completion_delay_max = std::chrono::milliseconds(5);
  SimOptions bunched;
  bunched.granularity = std::chrono::microseconds(50);
  SimOptions eager;
  eager.completes_before_arrival = true;
  eager.completion_delay_max = std::chrono::microseconds(20);
  SimOptions narrow;
  narrow.reads_in_flight_max = 1;
  return {sim_kind("sim", {}), sim_kind("sim_late", late), sim_kind("sim_bunched", bunched),
          sim_kind("sim_eager", eager), sim_kind("sim_narrow", narrow)};
}

}  // namespace rpcrdma::test
