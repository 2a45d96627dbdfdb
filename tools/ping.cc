#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "nfs/client/url.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/nfs_commands.h"
#include "tools/ping_loop.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

struct PingSettings {
  ClientSettings client;
  NfsSettings nfs;
  std::uint32_t count = 0;
  bool has_count = false;
  double interval_s = 1;
  bool has_interval = false;
  bool is_ready = false;  // whether it takes work, and nothing else
};

// The time-out of each call without --timeout, of a server that is asked whether it is ready, or
// watched: short, since a load balancer may have to send clients elsewhere soon, and since somebody
// is watching.
constexpr double kReadyTimeout_s = 5;

constexpr const char* kInterruptedLine = "rpcrdma: interrupted before there was a connection\n";

void measure(PingSettings& settings) {
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

void print_summary(const PingSettings& settings, const Client& client, PingLoop& loop) {
  const ConnectionInfo connection = client.connection();
  const Latency latency = loop.samples().latency();
  if (settings.client.common.json) {
    return print_json({{"peer", connection.peer_address},
                       {"provider", connection.provider_name},
                       {"program", settings.client.program},
                       {"version", settings.client.version},
                       {"rpcrdma_version", connection.protocol_version},
                       {"count", loop.calls()},
                       {"lost", loop.lost()},
                       {"latency", to_json(latency)},
                       {"counters", to_json(client.counters())}});
  }
  fmt::print("\n{} NULL calls to program {} version {}, {} lost\n", loop.calls(),
             settings.client.program, settings.client.version, loop.lost());
  if (loop.samples().count() == 0) return;
  fmt::print("  min {:.1f}  avg {:.1f}  p50 {:.1f}  p99 {:.1f}  max {:.1f} us\n", latency.min_us,
             latency.avg_us, latency.p50_us, latency.p99_us, latency.max_us);
}

// Shows each call and goes on when some are lost, until the calls are made or somebody has seen
// enough.
void watch(PingSettings& settings) {
  Interrupt interrupt(kInterruptedLine, kNoConnection);
  if (!settings.client.has_timeout) settings.client.timeout_s = kReadyTimeout_s;
  // A call that was repeated later would say nothing of the time between.
  settings.client.may_reconnect = true;
  settings.client.repeats_calls = false;
  auto client = settings.client.connect();
  interrupt.wait_for_it();
  PingLoop loop(
      *client,
      {.procedure = {settings.client.program, settings.client.version, 0},
       .calls_max = settings.count,
       .interval = std::chrono::nanoseconds(static_cast<std::int64_t>(settings.interval_s * 1e9)),
       .json = settings.client.common.json},
      interrupt);
  loop.run();
  print_summary(settings, *client, loop);
  if (loop.samples().count() > 0) return;
  if (loop.last_error()) fail(*loop.last_error(), "no call was answered", *client);
  fail(kFailed, "no call was answered");
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
  if (settings.is_ready) return ask_if_ready(settings);
  settings.client.common.refuse({"--mount-port"}, "NFS URLs, with --ready");
  settings.has_count && !settings.has_interval ? measure(settings) : watch(settings);
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
      {"--count",
       &settings.count,
       "make so many calls, one right after the other, and print their times alone; without it, "
       "calls are made until Ctrl-C or SIGTERM, with a line for each and a summary at the end",
       {.range = {1, 100'000'000}, .hides_default = true, .is_given = &settings.has_count}},
      {"--interval",
       &settings.interval_s,
       "seconds from one call to the next; with --count, there is a line for each as well. A call "
       "without an answer is given up after --timeout, 5 unless it is given, and counted as lost",
       {.range = {0.001, 86400.0}, .is_given = &settings.has_interval}},
      {"--ready",
       &settings.is_ready,
       "say whether the server takes work, and exit 0 if it does: of an nfs+rdma:// or nfs+tcp:// "
       "URL its export is mounted, and asked for its space, at each server that is named; else "
       "NULL is called once. --timeout is of each call, and 5 unless it is given; with --json "
       "there is a line for each server",
       {.excludes = "--count|--interval"}},
  });
  settings.nfs.add_mount_to(command);
  command.set_footer(
      "Example, a Linux NFS server: rpcrdma ping rdma://HOST --program 100003 --version 3\n"
      "It goes on until Ctrl-C; for scripts there is --count N. Exit status 0: some call was "
      "answered.\n"
      "A program that its host's rpcbind knows: rpcrdma ping HOST --program N --version V\n"
      "Which of several gateways take work: rpcrdma ping --ready nfs+rdma://HOST1,HOST2/EXPORT");
}

}  // namespace rpcrdma::tools
