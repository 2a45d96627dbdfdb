// The program behind `rpcrdma bench`. It is a program of its own, since it replaces operator new to
// count, and is linked with libtirpc to compare.
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "rpcrdma/client.h"
#include "tools/bench/options.h"
#include "tools/bench/runner.h"

namespace rpcrdma::tools::bench {
namespace {

// The same codes as those of the command (tools/command.h).
enum ExitCode : int { kSuccess = 0, kFailed = 1, kUsage = 2, kNoConnection = 3 };

struct WrongUsage : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct NoServer : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The CPUs that this process may use, in order.
std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

Layout layout_of(const std::string& cpu) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.empty()) throw std::runtime_error("cannot ask which CPUs this process may use");
  Layout layout;
  layout.client_cpu = layout.server_cpu = cpus[0];
  if (cpu == "same") return layout;
  if (cpus.size() < 2) {
    throw WrongUsage("--cpu spread needs two CPUs, and this process may use one; take --cpu same");
  }
  layout.server_cpu = cpus[1];
  return layout;
}

void list_cases() {
  for (const Group& group : all_groups()) {
    fmt::print("{}\n", group.raw.name);
    for (const Case& each : group.cases) {
      if (!each.crc) fmt::print("  {}\n", each.name);
    }
  }
}

// Returns the load, with the CRC of the cases if they agree on one, else without.
Case load_of(const Settings& settings) {
  std::vector<std::string> unknown;
  const auto groups = select({settings.beside}, settings.crc == "on" ? "on" : "off", unknown);
  if (!unknown.empty() || groups.empty() || groups[0].cases.empty() ||
      groups[0].cases[0].who != Who::kRpcrdma) {
    throw WrongUsage(
        fmt::format("--beside {}: there is no such case of rpcrdma; --list shows "
                    "those there are",
                    settings.beside));
  }
  return groups[0].cases[0];
}

// Connects once beforehand. Without this each process of the load would report that nobody answers,
// and the exit status would not show it.
void look_for_server(const Settings& settings) {
  ClientOptions options;
  options.provider.name = settings.provider;
  if (auto client = Client::connect(settings.url, options); !client) {
    throw NoServer(client.error().message());
  }
}

std::string footer(const Settings& settings, const Plan& plan) {
  const std::string cpus = settings.cpu == "same" ? "one CPU" : "two CPUs";
  std::string text =
      settings.url.empty()
          ? fmt::format(
                "\nMedians of {} rounds, {:.2f} s a case; client and server are two processes "
                "on {}.\n",
                plan.rounds, plan.seconds, cpus)
          : fmt::format(
                "\nMedians of {} rounds, {:.2f} s a case; the client is a process here, and "
                "the server at {}.\n",
                plan.rounds, plan.seconds, settings.url);
  if (settings.url.empty()) {
    text +=
        "`of raw`: calls/s over those of bare TCP right before and after; iqr: its spread over the "
        "rounds.\n";
  }
  return text;
}

void run_bench(const Settings& settings) {
  if (settings.list) return list_cases();
  Plan plan;
  std::vector<std::string> unknown;
  plan.groups = select(settings.cases, settings.crc, unknown);
  if (!unknown.empty()) {
    throw WrongUsage(fmt::format("there is no case {}; --list shows those there are", unknown[0]));
  }
  plan.rounds = settings.rounds;
  plan.seconds = settings.seconds;
  plan.layout = layout_of(settings.cpu);
  plan.layout.provider = settings.provider;
  plan.layout.address = settings.address;
  plan.layout.transport = settings.transport;
  for (const Group& group : plan.groups) {
    plan.layout.depth_max = std::max(plan.layout.depth_max, group.raw.depth);
  }
  plan.layout.is_verbose = settings.is_verbose;
  plan.layout.server_url = settings.url;
  plan.layout.threads = settings.threads;
  plan.layout.idle = settings.idle;
  plan.layout.connections = settings.connections;
  if (!settings.beside.empty()) {
    plan.beside = load_of(settings);
    plan.layout.depth_max = std::max(plan.layout.depth_max, plan.beside->depth);
  }
  // libtirpc is measured on one connection of this machine.
  if (settings.connections > 0 || !settings.url.empty()) {
    for (Group& group : plan.groups) {
      std::erase_if(group.cases, [](const Case& each) { return each.who == Who::kTirpc; });
    }
    std::erase_if(plan.groups, [](const Group& group) { return group.cases.empty(); });
    if (plan.groups.empty()) {
      throw WrongUsage(
          "libtirpc and bare TCP are not measured by themselves with a URL or "
          "--connections");
    }
  }
  if (!settings.url.empty()) look_for_server(settings);
  const bool show = ::isatty(STDERR_FILENO) == 1;
  const auto results = run(plan, [show](double done) {
    if (show) fmt::print(stderr, "\r{:3.0f} % ", done * 100);
  });
  if (show) fmt::print(stderr, "\r      \r");
  if (settings.json) {
    const Setting setting{settings.transport, settings.idle, settings.connections, settings.beside};
    fmt::print("{}\n", to_json(results, setting).lines());
    return;
  }
  fmt::print("{}", to_table(results));
  fmt::print("{}", footer(settings, plan));
}

}  // namespace
}  // namespace rpcrdma::tools::bench

int main(int argc, char** argv) {
  namespace bench = rpcrdma::tools::bench;
  rpcrdma::tools::Command command("rpcrdma bench",
                                  "measure calls on this machine, next to bare TCP");
  bench::Settings settings;
  bench::add_options(command, settings);
  try {
    if (const auto status = command.parse(argc, argv)) return *status;
    bench::run_bench(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rpcrdma: {}\n", error.what());
    if (dynamic_cast<const bench::WrongUsage*>(&error) != nullptr) return bench::kUsage;
    return dynamic_cast<const bench::NoServer*>(&error) != nullptr ? bench::kNoConnection
                                                                   : bench::kFailed;
  }
  return bench::kSuccess;
}
