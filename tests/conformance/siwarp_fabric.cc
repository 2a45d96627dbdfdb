// Software iWARP over loopback, with and without CRC.
#include <chrono>

#include "conformance/fabric.h"
#include "rdma/siwarp/provider.h"

namespace rpcrdma::test {
namespace {

using SiwarpOptions = rdma::siwarp::Options;

class SiwarpFabric final : public Fabric {
 public:
  SiwarpFabric(std::unique_ptr<rdma::Provider> client, std::unique_ptr<rdma::Provider> server)
      : client_(std::move(client)), server_(std::move(server)) {}

  rdma::Provider& client() override { return *client_; }
  rdma::Provider& server() override { return *server_; }
  std::string listen_address() const override { return "127.0.0.1:0"; }
  // The port of the TCP multiplexer, which nobody has run for decades.
  std::string dead_address() const override { return "127.0.0.1:1"; }
  bool pump_until(const std::function<bool()>& condition) override {
    // Both ends live in this thread, so neither may block; both are asked again and again.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline) {
      if (condition()) return true;
      client_->progress();
      server_->progress();
    }
    return condition();
  }

 private:
  std::unique_ptr<rdma::Provider> client_, server_;
};

std::unique_ptr<Fabric> make(const SiwarpOptions& options) {
  auto client = rdma::siwarp::make_provider(options);
  auto server = rdma::siwarp::make_provider(options);
  if (!client.has_value() || !server.has_value()) return nullptr;
  return std::make_unique<SiwarpFabric>(std::move(*client), std::move(*server));
}

FabricKind siwarp_kind(std::string name, const SiwarpOptions& options) {
  return {std::move(name), [options] { return make(options); }};
}

}  // namespace

std::vector<FabricKind> siwarp_fabrics() {
  SiwarpOptions plain;
  plain.crc = false;
  SiwarpOptions small_segments;
  small_segments.segment_size_max = 1428;  // as over Ethernet
  return {siwarp_kind("siwarp", {}), siwarp_kind("siwarp_no_crc", plain),
          siwarp_kind("siwarp_small_segments", small_segments)};
}

}  // namespace rpcrdma::test
