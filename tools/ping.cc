#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tools/command.h"

namespace rpcrdma::tools {
namespace {

struct PingSettings {
  ClientSettings client;
  std::uint32_t count = 100;
};

void ping(PingSettings& settings) {
  using Clock = std::chrono::steady_clock;
  auto client = settings.client.connect();
  std::vector<std::uint64_t> samples_ns;
  samples_ns.reserve(settings.count);
  for (std::uint32_t i = 0; i < settings.count; ++i) {
    const auto start = Clock::now();
    auto call = client->prepare({settings.client.program, settings.client.version, 0});
    if (!call) fail(call.error());
    call->expect_results(0);
    auto reply = client->call(std::move(*call));
    if (!reply) fail(reply.error(), fmt::format("call {} of {}", i + 1, settings.count));
    samples_ns.push_back(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count()));
  }
  const Latency latency = Latency::of(samples_ns);
  if (settings.client.common.json) {
    fmt::print("{}\n", nlohmann::json{{"peer", client->peer_address()},
                                      {"provider", client->provider_name()},
                                      {"program", settings.client.program},
                                      {"version", settings.client.version},
                                      {"rpcrdma_version", client->protocol_version()},
                                      {"count", settings.count},
                                      {"latency", to_json(latency)},
                                      {"counters", to_json(client->counters())}}
                           .dump());
    return;
  }
  fmt::print(
      "{} NULL calls to program {} version {} at {} ({}, RPC-over-RDMA version {}):\n"
      "  min {:.1f}  avg {:.1f}  p50 {:.1f}  p99 {:.1f}  p99.9 {:.1f}  max {:.1f} us\n",
      settings.count, settings.client.program, settings.client.version, client->peer_address(),
      client->provider_name(), client->protocol_version(), latency.min_us, latency.avg_us,
      latency.p50_us, latency.p99_us, latency.p999_us, latency.max_us);
}

}  // namespace

void add_ping(CLI::App& app) {
  auto settings = std::make_shared<PingSettings>();
  CLI::App* command = app.add_subcommand(
      "ping", "call the NULL procedure of any program and show how long it takes");
  settings->client.add_to(*command);
  command->add_option("--program", settings->client.program,
                      "program number (default: the blob program)");
  command->add_option("--version", settings->client.version, "program version")
      ->capture_default_str();
  command->add_option("--count", settings->count, "calls, one after the other")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  command->footer(
      "Example, a Linux NFS server: rpcrdma ping rdma://HOST --program 100003 --version 3\n"
      "A program that its host's rpcbind knows: rpcrdma ping HOST --program N --version V");
  command->callback([settings] { ping(*settings); });
}

}  // namespace rpcrdma::tools
