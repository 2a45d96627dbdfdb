#include "rpcrdma/providers.h"

#include <algorithm>
#include <utility>

#include "rdma/verbs/loader.h"

namespace rpcrdma {
namespace {

ProviderFacts verbs() {
  ProviderFacts facts;
  facts.name = "verbs";
  facts.what = "RDMA devices: iWARP, RoCE and InfiniBand, by rdma-core";
  const auto plugin = rdma::verbs::load();
  if (!plugin) {
    facts.is_installed = false;
    facts.problem = plugin.error();
    return facts;
  }
  for (auto& device : (*plugin)->devices(rdma::verbs::Registration::kAuto)) {
    facts.devices.push_back(
        {std::move(device.name), std::move(device.transport), std::move(device.registration),
         std::move(device.addresses), device.reads_max, device.slices_max, device.shared_receives,
         device.takes_invalidation, std::move(device.caution), std::move(device.problem)});
  }
  facts.is_available = std::ranges::any_of(
      facts.devices, [](const DeviceFacts& device) { return device.problem.empty(); });
  if (facts.devices.empty()) facts.problem = (*plugin)->why_no_device();
  if (!facts.devices.empty() && !facts.is_available) facts.problem = "see its devices";
  return facts;
}

}  // namespace

std::vector<ProviderFacts> providers() {
  ProviderFacts siwarp;
  siwarp.name = "siwarp";
  siwarp.is_available = true;
  siwarp.what = "software iWARP over TCP: MPA revision 1 and 2, DDP, RDMAP; no RDMA device needed";
  return {siwarp, verbs()};
}

}  // namespace rpcrdma
