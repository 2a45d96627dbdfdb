// RDMA devices, of the kernel in the lab: both ends at one address of this machine.
#include <sys/utsname.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "conformance/fabric.h"
#include "rdma/verbs/loader.h"

namespace rpcrdma::test {
namespace {

using VerbsOptions = rdma::verbs::Options;
using rdma::verbs::Registration;

struct Device {
  std::string address;  // numeric, without a port
  bool is_iwarp = false;
  bool keeps_shared_receives = true;
};

class VerbsFabric final : public Fabric {
 public:
  VerbsFabric(std::unique_ptr<rdma::Provider> client, std::unique_ptr<rdma::Provider> server,
              const Device& device, const VerbsOptions& options)
      : client_(std::move(client)),
        server_(std::move(server)),
        device_(device),
        options_(options) {}

  rdma::Provider& client() override { return *client_; }
  rdma::Provider& server() override { return *server_; }
  std::string listen_address() const override { return device_.address + ":0"; }
  std::string dead_address() const override { return device_.address + ":1"; }
  bool pump_until(const std::function<bool()>& condition) override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline) {
      if (condition()) return true;
      client_->progress();
      server_->progress();
    }
    return condition();
  }
  bool chooses_tags() const override { return false; }
  bool copies_sends() const override { return options_.inline_max >= 100 && !device_.is_iwarp; }
  bool tells_mistakes() const override { return false; }
  bool knows_whose_tag_it_is() const override {
    return device_.is_iwarp || options_.registration == Registration::kPerCall;
  }
  bool knows_who_may_read() const override { return !device_.is_iwarp; }
  bool keeps_shared_receives() const override { return device_.keeps_shared_receives; }
  bool counts_what_the_peer_does() const override { return false; }
  bool counts_wire_bytes() const override { return false; }
  bool counts_when_complete() const override { return true; }
  bool counts_copied_sends() const override { return false; }
  bool sends_again() const override { return !device_.is_iwarp; }
  bool keeps_private_data_sizes() const override { return device_.is_iwarp; }

 private:
  std::unique_ptr<rdma::Provider> client_, server_;
  const Device device_;
  const VerbsOptions options_;
};

std::unique_ptr<Fabric> make(const Device& device, const VerbsOptions& options) {
  const auto plugin = rdma::verbs::load();
  if (!plugin) {
    std::cerr << plugin.error() << "\n";
    return nullptr;
  }
  auto client = (*plugin)->make_provider(options);
  auto server = (*plugin)->make_provider(options);
  if (!client.has_value() || !server.has_value()) return nullptr;
  return std::make_unique<VerbsFabric>(std::move(*client), std::move(*server), device, options);
}

FabricKind verbs_kind(std::string name, const Device& device, const VerbsOptions& options) {
  return {std::move(name), [device, options] { return make(device, options); }};
}

bool is_iwarp(const std::string& address) {
  const auto plugin = rdma::verbs::load();
  if (!plugin) return false;
  const auto choice = (*plugin)->device_for(address + ":0", true);
  for (const auto& device : (*plugin)->devices(Registration::kAuto)) {
    if (choice && device.name == choice->name) return device.transport == "iWARP";
  }
  return false;
}

// Than 6.1, which keeps them; 6.12 does not.
bool is_rxe_of_a_later_kernel(const std::string& address) {
  const auto plugin = rdma::verbs::load();
  utsname kernel{};
  if (!plugin || uname(&kernel) != 0) return false;
  const auto device = (*plugin)->device_for(address + ":0", true);
  return device && device->name.starts_with("rxe") &&
         !std::string(kernel.release).starts_with("6.1.");
}

}  // namespace

std::vector<FabricKind> verbs_fabrics() {
  const char* const address = std::getenv("RPCRDMA_LAB_ADDRESS");
  if (address == nullptr) return {};
  const Device device{address, is_iwarp(address)};
  VerbsOptions per_call;
  per_call.registration = Registration::kPerCall;
  VerbsOptions nothing_inline;
  nothing_inline.inline_max = 0;
  return {verbs_kind("verbs", device, {}), verbs_kind("verbs_per_call", device, per_call),
          verbs_kind("verbs_nothing_inline", device, nothing_inline)};
}

std::vector<FabricKind> verbs_sharing_fabrics() {
  const char* const address = std::getenv("RPCRDMA_LAB_ADDRESS");
  if (address == nullptr) return {};
  VerbsOptions options;
  options.shared_receives = {kSharedReceives, kSharedSize, true};
  const Device device{address, is_iwarp(address), !is_rxe_of_a_later_kernel(address)};
  return {verbs_kind("verbs_sharing", device, options)};
}

}  // namespace rpcrdma::test
