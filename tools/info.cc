#include <fmt/format.h>

#include <memory>

#include "rpcrdma/version.h"
#include "tools/command.h"

namespace rpcrdma::tools {
namespace {

nlohmann::json facts() {
  const ConnectionOptions connection;
  const ClientOptions client;
  const ServerOptions server;
  return {
      {"version", kLibraryVersion},
      {"protocol", "RPC-over-RDMA version 1 (RFC 8166), private data of RFC 8797"},
      {"providers",
       {{{"name", "siwarp"},
         {"available", true},
         {"what",
          "software iWARP over TCP: MPA revision 1 and 2, DDP, RDMAP; no RDMA device needed"}},
        {{"name", "verbs"},
         {"available", false},
         {"what", "RDMA devices by rdma-core; not part of this version"}}}},
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
