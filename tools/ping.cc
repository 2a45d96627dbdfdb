#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "nfs/client/url.h"
#include "tools/command.h"
#include "tools/nfs_commands.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

struct PingSettings {
  ClientSettings client;
  NfsSettings nfs;
  std::uint32_t count = 100;
  bool is_ready = false;  // whether it takes work, and nothing else
};

// The time-out of each call without --timeout: short, since a load balancer may have to send
// clients elsewhere soon.
constexpr double kReadyTimeout_s = 5;

void measure(PingSettings& settings) {
  settings.client.common.refuse({"--mount-port"}, "NFS URLs, with --ready");
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
    if (!reply)
      fail(with_nfs_hint(reply.error(), *client),
           fmt::format("call {} of {}", i + 1, settings.count));
    samples_ns.push_back(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count()));
  }
  const Latency latency = Latency::of(samples_ns);
  const ConnectionInfo connection = client->connection();
  if (settings.client.common.json) {
    print_json({{"peer", connection.peer_address},
                {"provider", connection.provider_name},
                {"program", settings.client.program},
                {"version", settings.client.version},
                {"rpcrdma_version", connection.protocol_version},
                {"count", settings.count},
                {"latency", to_json(latency)},
                {"counters", to_json(client->counters())}});
    return;
  }
  fmt::print(
      "{} NULL calls to program {} version {} at {} ({}, RPC-over-RDMA version {}):\n"
      "  min {:.1f}  avg {:.1f}  p50 {:.1f}  p99 {:.1f}  p99.9 {:.1f}  max {:.1f} us\n",
      settings.count, settings.client.program, settings.client.version, connection.peer_address,
      connection.provider_name, connection.protocol_version, latency.min_us, latency.avg_us,
      latency.p50_us, latency.p99_us, latency.p999_us, latency.max_us);
}

void say_ready(const PingSettings& settings, const std::string& url) {
  if (settings.client.common.json) {
    print_json({{"url", url}, {"ready", true}});
  } else {
    fmt::print("ready {}\n", url);
  }
}

// Prints the line of a server that takes no work; its error is on stderr already.
void say_not_ready(const PingSettings& settings, const std::string& url, const Exit& exit) {
  if (!settings.client.common.json) return;
  print_json({{"url", url}, {"ready", false}, {"error", exit.text}});
}

// One server of the URL after the other.
void ask_exports(PingSettings& settings) {
  const nfs::NfsUrl all = parsed_nfs_url(settings.client.url);
  ExitCode result = kSuccess;
  for (const nfs::NfsUrl::Server& each : all.servers) {
    nfs::NfsUrl one = all;
    one.servers = {each};
    try {
      const auto server = mount(settings.client, settings.nfs, one.text());
      // The storage has to answer as well; MOUNT may be answered without it, and attributes from a
      // gateway's memory.
      (void)take(*server, one.text(), server->space());
      say_ready(settings, one.text());
    } catch (const Exit& exit) {
      say_not_ready(settings, one.text(), exit);
      result = std::max(result, exit.code);
    }
  }
  if (result != kSuccess) throw Exit{result};
}

void ask_if_ready(PingSettings& settings) {
  if (!settings.client.has_timeout) settings.client.timeout_s = kReadyTimeout_s;
  if (nfs::is_nfs_url(settings.client.url)) return ask_exports(settings);
  settings.client.common.refuse({"--mount-port"}, "NFS URLs, and this is none");
  try {
    auto client = settings.client.connect();
    auto call = client->prepare({settings.client.program, settings.client.version, 0});
    if (!call) fail(call.error());
    call->expect_results(0);
    if (auto reply = client->call(std::move(*call)); !reply) {
      fail(with_nfs_hint(reply.error(), *client));
    }
  } catch (const Exit& exit) {
    say_not_ready(settings, settings.client.url, exit);
    throw;
  }
  say_ready(settings, settings.client.url);
}

void ping(PingSettings& settings) {
  settings.is_ready ? ask_if_ready(settings) : measure(settings);
}

}  // namespace

void add_ping(Command& program) {
  Command& command = program.add_subcommand(
      "ping", "call the NULL procedure of any program and show how long it takes");
  PingSettings& settings = command.on_call(ping);
  settings.client.add_to(command);
  command.add({
      {"--program",
       &settings.client.program,
       "program number (default: the blob program)",
       {.hides_default = true}},
      {"--version", &settings.client.version, "program version"},
      {"--count", &settings.count, "calls, one after the other", {.range = {1, 100'000'000}}},
      {"--ready",
       &settings.is_ready,
       "say whether the server takes work, and exit 0 if it does: of an nfs+rdma:// or nfs+tcp:// "
       "URL its export is mounted, and asked for its space, at each server that is named; else "
       "NULL is called once. --timeout is of each call, and 5 unless it is given; with --json "
       "there is a line for each server",
       {.excludes = "--count"}},
  });
  settings.nfs.add_mount_to(command);
  command.set_footer(
      "Example, a Linux NFS server: rpcrdma ping rdma://HOST --program 100003 --version 3\n"
      "A program that its host's rpcbind knows: rpcrdma ping HOST --program N --version V\n"
      "Which of several gateways take work: rpcrdma ping --ready nfs+rdma://HOST1,HOST2/EXPORT");
}

}  // namespace rpcrdma::tools
