#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rpcrdma/providers.h"
#include "rpcrdma/version.h"
#include "tools/command.h"

namespace rpcrdma::tools {
namespace {

nlohmann::json device_json(const DeviceFacts& device) {
  return {{"name", device.name},
          {"transport", device.transport},
          {"registration", device.registration},
          {"addresses", device.addresses},
          {"reads_max", device.reads_max},
          {"slices_max", device.slices_max},
          {"shared_receives", device.shared_receives},
          {"takes_invalidation", device.takes_invalidation},
          {"caution", device.caution},
          {"problem", device.problem}};
}

nlohmann::json provider_facts() {
  nlohmann::json all = nlohmann::json::array();
  for (const ProviderFacts& provider : providers()) {
    nlohmann::json devices = nlohmann::json::array();
    for (const DeviceFacts& device : provider.devices) devices.push_back(device_json(device));
    all.push_back({{"name", provider.name},
                   {"available", provider.is_available},
                   {"what", provider.what},
                   {"problem", provider.problem},
                   {"devices", devices}});
  }
  return all;
}

void print_device(const nlohmann::json& device) {
  const auto text = [&](const char* key) { return device[key].get<std::string>(); };
  fmt::print("           {}: {}, {}{}\n", text("name"), text("transport"), text("registration"),
             device["takes_invalidation"].get<bool>() ? ", remote invalidation" : "");
  const auto addresses = device["addresses"].get<std::vector<std::string>>();
  if (!addresses.empty()) fmt::print("             addresses {}\n", fmt::join(addresses, ", "));
  fmt::print("             at most {} RDMA Reads at a time, {} slices in a message\n",
             device["reads_max"].get<std::uint32_t>(), device["slices_max"].get<std::uint32_t>());
  if (const auto shared = device["shared_receives"].get<std::uint32_t>(); shared > 0) {
    fmt::print("             a shared receive queue of up to {} (serve --receives-max)\n", shared);
  }
  if (const auto caution = text("caution"); !caution.empty()) {
    fmt::print("             caution: {}\n", caution);
  }
  if (const auto problem = text("problem"); !problem.empty()) {
    fmt::print("             cannot be used: {}\n", problem);
  }
}

nlohmann::json facts() {
  const ConnectionOptions connection;
  const ClientOptions client;
  const ServerOptions server;
  return {
      {"version", kLibraryVersion},
      {"protocol", "RPC-over-RDMA version 1 (RFC 8166), private data of RFC 8797"},
      {"providers", provider_facts()},
      {"defaults",
       {{"port", kDefaultPort},
        {"inline_bytes", connection.inline_size},
        {"credits", connection.credits},
        {"reduce_size_min_bytes", connection.reduce_size_min},
        {"calls_max", client.calls_max},
        {"bulk_argument_max_bytes", server.bulk_size_max},
        {"long_call_max_bytes", server.long_call_size_max},
        {"connections_max", server.connections_max},
        {"server_memory_max_bytes", server.memory_max}}},
  };
}

void info(bool json) {
  const nlohmann::json value = facts();
  if (json) {
    fmt::print("{}\n", value.dump());
    return;
  }
  fmt::print("rpcrdma {}\n{}\n\nproviders:\n", kLibraryVersion,
             value["protocol"].get<std::string>());
  for (const auto& provider : value["providers"]) {
    fmt::print("  {:<8} {:<4} {}\n", provider["name"].get<std::string>(),
               provider["available"].get<bool>() ? "yes" : "no",
               provider["what"].get<std::string>());
    if (const auto problem = provider["problem"].get<std::string>(); !problem.empty()) {
      fmt::print("                {}\n", problem);
    }
    for (const auto& device : provider["devices"]) print_device(device);
  }
  fmt::print("\ndefaults and limits:\n");
  for (const auto& [name, number] : value["defaults"].items()) {
    fmt::print("  {:<26} {}\n", name, number.get<std::uint64_t>());
  }
}

}  // namespace

void add_info(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("info", "show version, providers, defaults and limits");
  command->add_flag("--json", *json, "print the result as JSON");
  command->callback([json] { info(*json); });
}

}  // namespace rpcrdma::tools
