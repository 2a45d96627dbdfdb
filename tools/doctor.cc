#include "tools/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nfs3.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace doctor {
namespace {

// The walk that has a step.
enum class Part : std::uint8_t { kBoth, kClient, kServer };

struct Step {
  const char* name;
  Part part;
  Finding (*run)(Walk& walk);
};

// The steps in the order of the walk; nothing else names them. A failure ends it with status
// kFirstStatus plus the place of its step, which docs/doctor.md lists: new steps go to the end.
constexpr std::array<Step, 23> kSteps{{{"build", Part::kBoth, check_build},
                                       {"devices", Part::kBoth, check_devices},
                                       {"link", Part::kBoth, check_link},
                                       {"gids", Part::kBoth, check_gids},
                                       {"mtu", Part::kBoth, check_mtu},
                                       {"memlock", Part::kBoth, check_memlock},
                                       {"descriptors", Part::kBoth, check_descriptors},
                                       {"hugepages", Part::kBoth, check_huge_pages},
                                       {"modules", Part::kBoth, check_modules},
                                       {"drivers", Part::kBoth, check_drivers},
                                       {"name", Part::kClient, check_name},
                                       {"route", Part::kClient, check_route},
                                       {"port", Part::kClient, check_port},
                                       {"connect", Part::kClient, check_connect},
                                       {"setup", Part::kClient, check_setup},
                                       {"program", Part::kClient, check_program},
                                       {"mount", Part::kClient, check_mount},
                                       {"read", Part::kClient, check_read},
                                       {"counters", Part::kClient, check_counters},
                                       {"settings", Part::kServer, check_settings},
                                       {"ports", Part::kServer, check_listening},
                                       {"rpcbind", Part::kServer, check_rpcbind},
                                       {"firewall", Part::kServer, check_firewall}}};
constexpr int kFirstStatus = 11;

const char* text_of(State state) {
  switch (state) {
    case State::kOk:
      return "ok";
    case State::kWarning:
      return "warning";
    case State::kFailed:
      return "FAILED";
    case State::kSkipped:
      break;
  }
  return "skipped";
}

bool belongs(const Step& step, const Walk& walk) {
  if (step.part == Part::kClient) return walk.url.has_value();
  if (step.part == Part::kServer) return walk.settings.is_server;
  return true;
}

// Prints each step as it ends, or all of them at the end as JSON.
class Report {
 public:
  explicit Report(bool is_json) : is_json_(is_json) {}

  void add(const Step& step, int number, const Finding& finding) {
    warnings_ += finding.state == State::kWarning ? 1 : 0;
    const std::string text = printable(finding.text), remedy = printable(finding.remedy);
    if (!is_json_) {
      fmt::print("{:<8} {:<12} {}\n", text_of(finding.state), step.name, text);
      if (!remedy.empty()) fmt::print("{:<21} to do: {}\n", "", remedy);
      // The next step may take its time. One that nobody reads is no use.
      if (std::fflush(stdout) != 0) {
        fail(kFailed, fmt::format("standard output: {}", std::strerror(errno)));
      }
      return;
    }
    Json made = Json::ordered_object();
    made.set("name", step.name);
    made.set("number", number);
    made.set("state", text_of(finding.state));
    made.set("text", text);
    made.set("remedy", remedy);
    steps_.push_back(std::move(made));
  }

  void end(const Walk& walk, const char* failed, int status) const {
    if (is_json_) return end_as_json(walk, failed, status);
    if (failed != nullptr) return;
    fmt::print("\n{}\n", warnings_ == 0 ? "Nothing is wrong as far as this can be seen."
                                        : "No step failed; look at the warnings above.");
    if (walk.mount_line.empty()) return;
    fmt::print("mount:   {}\nfstab:   {}\n", walk.mount_line, walk.fstab_line);
    for (const std::string& each : walk.mount_obstacles) fmt::print("but:     {}\n", each);
  }

 private:
  void end_as_json(const Walk& walk, const char* failed, int status) const {
    Json made = Json::ordered_object();
    made.set("url", walk.url ? Json(walk.settings.client.url) : Json());
    made.set("server", walk.settings.is_server);
    made.set("steps", steps_);
    made.set("failed", failed == nullptr ? Json() : Json(failed));
    made.set("status", status);
    made.set("mount", walk.mount_line);
    made.set("fstab", walk.fstab_line);
    made.set("mount_obstacles", Json::array(walk.mount_obstacles));
    print_json(made);
  }

  const bool is_json_;
  int warnings_ = 0;
  Json steps_ = Json::array();
};

// Reads the URL, of which there may be none.
void read_url(Walk& walk) {
  const std::string& text = walk.settings.client.url;
  if (text.empty()) return;
  walk.is_nfs = nfs::is_nfs_url(text);
  if (!walk.is_nfs && !text.starts_with("rdma://") && !text.starts_with("tcp://")) {
    fail(kUsage, fmt::format("{}: expected nfs+rdma://HOST[:PORT]/EXPORT, nfs+tcp://…, "
                             "rdma://HOST[:PORT] or tcp://HOST:PORT",
                             text));
  }
  walk.url = parsed_nfs_url(walk.is_nfs ? text : "nfs+" + text);
  if (walk.url->servers.size() > 1) {
    fail(kUsage, fmt::format("{}: it names {} servers; look at one after the other", text,
                             walk.url->servers.size()));
  }
  if (!walk.is_nfs && walk.url->path != "/") {
    fail(kUsage, fmt::format("{}: of an NFS server's export it is nfs+{}", text, text));
  }
}

void refuse_idle_options(const Walk& walk) {
  const CommonOptions& common = walk.settings.client.common;
  if (walk.settings.is_server && walk.url) {
    fail(kUsage, "--server looks at this machine alone, and takes no URL");
  }
  if (!walk.settings.is_server) common.refuse({"--config"}, "servers (--server)");
  if (!walk.url) {
    common.refuse({"--sec", "--sec-service", "--mount-port", "--program", "--version", "--capture",
                   "--registration", "--crc", "--ird", "--ord", "--inline", "--inline-arguments",
                   "--receive-size", "--credits", "--profile", "--rpcrdma-version"},
                  "connections, and there is no URL");
  }
  if (!walk.is_nfs) common.refuse({"--mount-port"}, "NFS URLs, and this is none");
  if (walk.is_nfs) common.refuse({"--program", "--version"}, "rdma:// and tcp:// URLs");
  if (!walk.is_tcp()) return;
  common.refuse({"--capture"}, "connections over RDMA; tcpdump records plain TCP");
  common.refuse_rdma("RDMA, and this is plain TCP");
}

// The time-out of each step without --timeout, for somebody who watches.
constexpr double kPatience_s = 5;

void prepare(Walk& walk) {
  ClientSettings& client = walk.settings.client;
  read_url(walk);
  refuse_idle_options(walk);
  if (!client.has_timeout) client.timeout_s = kPatience_s;
  if (walk.is_nfs) {
    client.program = nfs3::NFS_PROGRAM;
    client.version = nfs3::NFS_V3;
  }
  walk.options = client.client_options();
  walk.patience = std::chrono::milliseconds(1 + static_cast<std::int64_t>(client.timeout_s * 1e3));
  walk.devices = walk.machine.devices();
  walk.losses = walk.machine.losses(walk.devices, {});
}

// Adds loss to a failure, of which it may be the cause.
void add_losses(const Walk& walk, Finding& finding) {
  const std::string lost = losses_meanwhile(walk);
  if (!lost.empty()) finding.text += fmt::format("; packets were lost meanwhile: {}", lost);
}

void run(Settings& settings) {
  Walk walk(settings);
  prepare(walk);
  Report report(settings.client.common.json);
  for (std::size_t i = 0; i < kSteps.size(); ++i) {
    const Step& step = kSteps[i];
    if (!belongs(step, walk)) continue;
    const int number = static_cast<int>(i) + 1;
    Finding finding = step.run(walk);
    if (finding.state == State::kFailed && step.run != check_counters) add_losses(walk, finding);
    report.add(step, number, finding);
    if (finding.state != State::kFailed) continue;
    const int status = kFirstStatus + static_cast<int>(i);
    report.end(walk, step.name, status);
    throw Exit{static_cast<ExitCode>(status), finding.text};
  }
  find_mount_lines(walk);
  report.end(walk, nullptr, kSuccess);
}

std::string footer() {
  std::string steps;
  std::size_t width = 0;
  for (std::size_t i = 0; i < kSteps.size(); ++i) {
    const std::string each = fmt::format("{} {}{}", kFirstStatus + static_cast<int>(i),
                                         kSteps[i].name, i + 1 == kSteps.size() ? "." : ",");
    const bool is_new_line = width + each.size() > 90;
    steps += (steps.empty() ? "" : is_new_line ? "\n  " : " ") + each;
    width = is_new_line ? each.size() : width + each.size() + 1;
  }
  return fmt::format(
      "Without a URL it looks at this machine alone. A step is ok, warning, FAILED or skipped; the "
      "first\nthat failed ends the walk, and says what to do. At the end stand the lines for "
      "mount(8) and\nfstab(5).\n\nExit status: 0 nothing is wrong, 2 wrong usage, or that of the "
      "step that failed:\n  {}\n\n"
      "Example: rpcrdma doctor nfs+rdma://HOST/EXPORT",
      steps);
}

}  // namespace

bool Walk::uses_devices() const {
  return !is_tcp() && settings.client.common.provider.name != "siwarp";
}

}  // namespace doctor

void add_doctor(Command& program) {
  Command& command = program.add_subcommand(
      "doctor",
      "walk from this machine to an export, and say what to do at the first thing that is wrong");
  auto& settings = command.on_call(doctor::run);
  settings.client.verbose = ClientSettings::Verbose::kAlsoMore;  // it shows the terms anyway
  command.add({
      {"URL", &settings.client.url,
       "nfs+rdma://HOST[:PORT]/EXPORT, nfs+tcp://HOST[:PORT]/EXPORT, rdma://HOST[:PORT] or "
       "tcp://HOST:PORT; none: this machine alone"},
      {"--server", &settings.is_server,
       "look at this machine as the one that exports: settings, ports, rpcbind"},
      {"--config",
       &settings.settings_file,
       "with --server: the file of settings, as of serve --config",
       {.check = not_empty}},
      {"--program",
       &settings.client.program,
       "program number at an rdma:// or tcp:// URL (default: the blob program)",
       {.hides_default = true}},
      {"--version", &settings.client.version, "version of the program"},
  });
  settings.nfs.add_mount_to(command);
  settings.client.add_calls_to(
      command,
      "seconds that each step with the network and each call may take; 5 unless it is "
      "given");
  static const std::string footer = doctor::footer();
  command.set_footer(footer.c_str());
}

}  // namespace rpcrdma::tools
