// `rpcrdma bench`.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <stdexcept>

#include "tools/bench/runner.h"
#include "tools/command.h"

namespace rpcrdma::tools {
namespace {

struct BenchSettings {
  bool json = false;
  bool list = false;
  double seconds = 1;
  int rounds = 7;
  std::vector<std::string> cases;
  std::string cpu = "same";
  std::string crc = "both";
  std::string provider = "auto";
  std::string address = "127.0.0.1";
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

bench::Layout layout_of(const std::string& cpu) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.empty()) fail(kFailed, "cannot ask which CPUs this process may use");
  if (cpu == "same") return {.client_cpu = cpus[0], .server_cpu = cpus[0]};
  if (cpus.size() < 2) {
    fail(kUsage, "--cpu spread needs two CPUs, and this process may use one; take --cpu same");
  }
  return {.client_cpu = cpus[0], .server_cpu = cpus[1]};
}

void list_cases() {
  for (const bench::Group& group : bench::all_groups()) {
    fmt::print("{}\n", group.raw.name);
    for (const bench::Case& each : group.cases) {
      if (!each.crc) fmt::print("  {}\n", each.name);
    }
  }
}

void run_bench(const BenchSettings& settings) {
  if (settings.list) return list_cases();
  bench::Plan plan;
  std::vector<std::string> unknown;
  plan.groups = bench::select(settings.cases, settings.crc, unknown);
  if (!unknown.empty()) {
    fail(kUsage, fmt::format("there is no case {}; --list shows those there are", unknown[0]));
  }
  plan.rounds = settings.rounds;
  plan.seconds = settings.seconds;
  plan.layout = layout_of(settings.cpu);
  plan.layout.provider = settings.provider;
  plan.layout.address = settings.address;
  const bool show = ::isatty(STDERR_FILENO) == 1;
  try {
    const auto results = bench::run(plan, [show](double done) {
      if (show) fmt::print(stderr, "\r{:3.0f} % ", done * 100);
    });
    if (show) fmt::print(stderr, "\r      \r");
    if (settings.json) {
      fmt::print("{}\n", bench::to_json(results).dump(1));
      return;
    }
    fmt::print("{}", bench::to_table(results));
    fmt::print(
        "\nMedians of {} rounds, {:.2f} s a case; client and server are two processes on {}.\n"
        "`of raw`: calls/s over those of bare TCP right before and after; iqr: its spread over the "
        "rounds.\n",
        plan.rounds, plan.seconds, settings.cpu == "same" ? "one CPU" : "two CPUs");
  } catch (const std::runtime_error& error) {
    fail(kFailed, error.what());
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  auto settings = std::make_shared<BenchSettings>();
  CLI::App* command =
      app.add_subcommand("bench", "measure calls on this machine, next to bare TCP");
  command->add_flag("--json", settings->json,
                    "print the result as JSON: an array, one object a case");
  command->add_option("--seconds", settings->seconds, "seconds of measuring for each case")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  command->add_option("--rounds", settings->rounds, "rounds that these seconds are split into")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--cases", settings->cases, "only these, with commas between (see --list)")
      ->delimiter(',');
  command->add_option("--crc", settings->crc, "measure with iWARP CRC: on, off or both")
      ->check(CLI::IsMember({"on", "off", "both"}))
      ->capture_default_str();
  command
      ->add_option("--cpu", settings->cpu,
                   "same: both processes on one CPU, which gives the steadiest ratios; spread: on "
                   "two")
      ->check(CLI::IsMember({"same", "spread"}))
      ->capture_default_str();
  command
      ->add_option("--provider", settings->provider,
                   "RDMA back end of rpcrdma: verbs, siwarp, or auto: what leads to --address")
      ->check(CLI::IsMember({"auto", "siwarp", "verbs"}))
      ->capture_default_str();
  command
      ->add_option(
          "--address", settings->address,
          "numeric address of this machine that rpcrdma is measured over; for verbs one on "
          "an RDMA device")
      ->capture_default_str();
  command->add_flag("--list", settings->list, "list the cases");
  command->footer(
      "A server process for each contender, the client in this one, loopback\n"
      "unless --address says something else. ratio_to_raw is the\n"
      "rate over that of request and response on bare TCP with the same payload and depth, "
      "measured\n"
      "right before and after. All cases with both CRC settings take about a minute by default.");
  command->callback([settings] { run_bench(*settings); });
}

}  // namespace rpcrdma::tools
