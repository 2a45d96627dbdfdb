#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "rpcrdma/providers.h"
#include "rpcrdma/version.h"
#include "tools/command.h"
#include "tools/plug_in.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

Json device_json(const DeviceFacts& device) {
  return {{"name", device.name},
          {"transport", device.transport},
          {"registration", device.registration},
          {"addresses", Json::array(device.addresses)},
          {"reads_max", device.reads_max},
          {"slices_max", device.slices_max},
          {"shared_receives", device.shared_receives},
          {"takes_invalidation", device.takes_invalidation},
          {"caution", device.caution},
          {"problem", device.problem}};
}

Json provider_json(const ProviderFacts& provider) {
  Json devices = Json::array();
  for (const DeviceFacts& device : provider.devices) devices.push_back(device_json(device));
  return {{"name", provider.name},
          {"available", provider.is_available},
          {"what", provider.what},
          {"problem", provider.problem},
          {"devices", devices}};
}

constexpr std::array<const char*, 2> kProtocols = {
    "RPC-over-RDMA version 1 (RFC 8166), with private data (RFC 8797) and backward calls (RFC "
    "8167)",
    "RPC-over-RDMA version 2 (draft-cel-nfsv4-rpcrdma-version-two-01, with optional "
    "characteristics)"};

struct Feature {
  const char* name;
  const char* text;
  bool is_built;
  const char* packages;               // that a build needs
  std::string (*remedy)() = nullptr;  // of a part that this build has; null: it is no plug-in
};

constexpr auto kFeatures = std::to_array<Feature>(
    {{"verbs", "RDMA devices", RPCRDMA_WITH_VERBS != 0, "libibverbs-dev and librdmacm-dev",
      remedy_for_verbs},
     {"kerberos", "RPCSEC_GSS with Kerberos 5 (--sec)", RPCRDMA_WITH_KRB5 != 0, "libkrb5-dev",
      remedy_for_kerberos},
     {"libtirpc", "programs of libtirpc over RDMA (run)", RPCRDMA_WITH_TIRPC != 0, "libtirpc-dev",
      remedy_for_tirpc},
     {"cephfs", "exports of a CephFS (serve --nfs ceph:/PATH)", RPCRDMA_WITH_CEPH != 0,
      "libcephfs-dev", remedy_for_cephfs},
     {"http", "a page that says whether work is taken (serve --ready-port)", RPCRDMA_WITH_HTTP != 0,
      "libmicrohttpd-dev"},
     {"systemd", "states and sockets of a service (serve)", RPCRDMA_WITH_SYSTEMD != 0,
      "libsystemd-dev"},
     {"mount", "exports as directories here (mount)", RPCRDMA_WITH_FUSE != 0, "libfuse3-dev"},
     {"metrics", "a page for a monitoring system (serve --metrics)", RPCRDMA_WITH_HTTP != 0,
      "libmicrohttpd-dev"},
     {"probes", "probes for bpftrace, perf and SystemTap", RPCRDMA_WITH_PROBES != 0,
      "systemtap-sdt-dev"}});

// Returns what to do before the feature can be used; empty: nothing.
std::string remedy_for(const Feature& feature) {
  if (!feature.is_built) return fmt::format("install {}, and build again", feature.packages);
  return feature.remedy == nullptr ? std::string() : feature.remedy();
}

Json features_json() {
  Json all = Json::object();
  for (const Feature& each : kFeatures) {
    const std::string remedy = remedy_for(each);
    all.set(each.name,
            {{"built", each.is_built}, {"installed", remedy.empty()}, {"remedy", remedy}});
  }
  return all;
}

void print_features() {
  for (const Feature& each : kFeatures) {
    const std::string remedy = remedy_for(each);
    fmt::print("  {:<8} {:<4} {}{}{}\n", each.name, remedy.empty() ? "yes" : "no", each.text,
               remedy.empty() ? "" : ": ", printable(remedy));
  }
}

struct Default {
  const char* name;
  std::uint64_t value;
};

// Returns the defaults in the order of their names.
std::vector<Default> defaults() {
  const ConnectionOptions connection;
  const ClientOptions client;
  const ServerOptions server;
  return {{"bulk_argument_max_bytes", server.bulk_size_max},
          {"calls_max", client.calls_max},
          {"connections_max", server.connections_max},
          {"credits", connection.credits},
          {"inline_arguments_max_bytes", CommonOptions().inline_arguments},
          {"inline_bytes", connection.inline_size},
          {"long_call_max_bytes", server.long_call_size_max},
          {"port", kDefaultPort},
          {"reduce_size_min_bytes", connection.reduce_size_min},
          {"server_memory_max_bytes", server.memory_max}};
}

void print_as_json() {
  Json all = Json::array(), numbers = Json::object();
  for (const ProviderFacts& provider : providers()) all.push_back(provider_json(provider));
  for (const Default& each : defaults()) numbers.set(each.name, each.value);
  Json protocols = Json::array();
  for (const char* each : kProtocols) protocols.push_back(each);
  print_json({{"version", kLibraryVersion},
              {"protocols", protocols},
              {"features", features_json()},
              {"providers", all},
              {"defaults", numbers}});
}

void print_device(const DeviceFacts& device) {
  fmt::print("           {}: {}, {}{}\n", device.name, device.transport, device.registration,
             device.takes_invalidation ? ", remote invalidation" : "");
  if (!device.addresses.empty()) {
    fmt::print("             addresses {}\n", fmt::join(device.addresses, ", "));
  }
  fmt::print("             at most {} RDMA Reads at a time, {} slices in a message\n",
             device.reads_max, device.slices_max);
  if (device.shared_receives > 0) {
    fmt::print("             a shared receive queue of up to {} (serve --receives-max)\n",
               device.shared_receives);
  }
  if (!device.caution.empty()) fmt::print("             caution: {}\n", device.caution);
  if (!device.problem.empty()) fmt::print("             cannot be used: {}\n", device.problem);
}

struct InfoSettings {
  bool json = false;
};

void info(InfoSettings& settings) {
  if (settings.json) return print_as_json();
  fmt::print("rpcrdma {}\n{}\n\nfeatures of this build:\n", kLibraryVersion,
             fmt::join(kProtocols, "\n"));
  print_features();
  fmt::print("\nproviders:\n");
  for (const ProviderFacts& provider : providers()) {
    fmt::print("  {:<8} {:<4} {}\n", provider.name, provider.is_available ? "yes" : "no",
               provider.what);
    if (!provider.problem.empty()) fmt::print("                {}\n", provider.problem);
    for (const DeviceFacts& device : provider.devices) print_device(device);
  }
  fmt::print("\ndefaults and limits:\n");
  for (const Default& each : defaults()) fmt::print("  {:<26} {}\n", each.name, each.value);
}

}  // namespace

void add_info(Command& program) {
  Command& command = program.add_subcommand(
      "info", "show version, features of the build, providers, defaults and limits");
  InfoSettings& settings = command.on_call(info);
  command.add({{"--json", &settings.json, "print the result as JSON"}});
}

}  // namespace rpcrdma::tools
