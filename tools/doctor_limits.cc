// Steps of `rpcrdma doctor` that look at limits of this process and at modules of the kernel.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/providers.h"
#include "tools/doctor.h"

namespace rpcrdma::tools::doctor {
namespace {

constexpr const char* kNotVisible = "the kernel's modules are not visible here";
constexpr rlim_t kMebibyte = 1U << 20U;

std::string kibibytes(rlim_t bytes) {
  return fmt::format("{} KiB", bytes / 1024);
}

// Returns why a device's file cannot be used; empty: it can.
std::string problem_with_node(const Walk& walk, const std::string& path) {
  if (::access(walk.machine.place(path).c_str(), R_OK | W_OK) == 0) return {};
  return errno == ENOENT ? fmt::format("{} is not there", path)
                         : fmt::format("{}: {}", path, std::strerror(errno));
}

// Returns what makes a device's file usable.
std::string remedy_of_node(const Walk& walk, const std::string& problem, const char* module) {
  if (!problem.ends_with("is not there")) {
    return "allow it by a udev rule or the group that owns the file, or run as root";
  }
  if (walk.machine.has_module(module)) {
    return "the kernel has the module, so that this is a container without the file: start it with "
           "--device /dev/infiniband, or with the device plug-in of the cluster";
  }
  return fmt::format("modprobe {} (in a container: on its host)", module);
}

// Looks at the files by which a program reaches a device.
Finding check_nodes(const Walk& walk) {
  std::string verbs = "uverbs0";
  for (const std::string& each : walk.machine.names("/dev/infiniband")) {
    if (each.starts_with("uverbs")) verbs = each;
  }
  struct Node {
    std::string path;
    const char* module;
  };
  for (const Node& each : {Node{"/dev/infiniband/" + verbs, "ib_uverbs"},
                           Node{"/dev/infiniband/rdma_cm", "rdma_ucm"}}) {
    const std::string problem = problem_with_node(walk, each.path);
    if (!problem.empty()) {
      return Finding::failed(problem, remedy_of_node(walk, problem, each.module));
    }
  }
  return Finding::ok({});
}

// Looks whether rdma-core can use a device that the kernel has. It knows nothing of machines that
// are made up.
Finding check_usable(const Walk& walk) {
  if (!walk.machine.is_real()) return Finding::ok({});
  for (const ProviderFacts& each : providers()) {
    if (each.name != "verbs" || each.is_available) continue;
    std::string text = each.problem;
    for (const DeviceFacts& device : each.devices) {
      text += fmt::format("; {} cannot be used: {}", device.name, device.problem);
    }
    return Finding::failed(text,
                           "install the library of the device's driver (ibverbs-providers), and "
                           "look at `ibv_devices`, which lists what it finds");
  }
  return Finding::ok({});
}

// Returns what the kernel itself lacks to mount over RDMA; empty: nothing known.
std::string mount_obstacle(const Walk& walk) {
  if (walk.machine.has_module("rpcrdma") || walk.machine.has_module("xprtrdma")) return {};
  return "the kernel has not loaded the module rpcrdma: modprobe rpcrdma";
}

std::string names_of_stack(const std::vector<std::string>& modules) {
  return fmt::format("{}", fmt::join(modules, ", "));
}

constexpr std::array<std::string_view, 7> kStack{"ib_core",   "ib_uverbs", "rdma_cm", "rdma_ucm",
                                                 "mlx5_core", "mlx5_ib",   "rpcrdma"};
constexpr const char* kOneStack =
    "keep one of the two: remove MLNX_OFED (ofed_uninstall.sh) and reboot, or reload all of it "
    "(/etc/init.d/openibd restart), with its own rpcrdma (mlnxofedinstall --with-nfsrdma)";

// Returns loaded modules of the stack that do not use mlx_compat, on which all of MLNX_OFED builds.
std::vector<std::string> modules_beside(const Module& compat, const std::vector<Module>& loaded) {
  std::vector<std::string> beside;
  for (const std::string_view each : kStack) {
    if (std::ranges::count(loaded, each, &Module::name) == 0) continue;
    if (std::ranges::count(compat.users, each) == 0) beside.emplace_back(each);
  }
  return beside;
}

// Returns versions that modules of the stack name, which are no secret where another stack is.
std::vector<std::string> versions_of_stack(const Machine& machine) {
  std::vector<std::string> different;
  for (const std::string_view each : kStack) {
    const std::string version = machine.text(fmt::format("/sys/module/{}/version", each));
    if (!version.empty() && std::ranges::count(different, version) == 0) {
      different.push_back(version);
    }
  }
  return different;
}

}  // namespace

Finding check_memlock(Walk& walk) {
  if (!walk.uses_devices()) return Finding::skipped("only RDMA devices lock memory");
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return Finding::ok("unlimited");
  if (walk.machine.may_lock_any_memory()) {
    return Finding::ok(fmt::format("{}, which does not hold for this process (CAP_IPC_LOCK)",
                                   kibibytes(limit.rlim_cur)));
  }
  const std::string text = fmt::format("this process may lock {}", kibibytes(limit.rlim_cur));
  if (walk.devices.empty()) return Finding::ok(text + ", and there is no device that needs more");
  const std::string remedy =
      "set it to 64 MiB at the least, for a server to unlimited: `ulimit -l 65536` as root, "
      "memlock "
      "in /etc/security/limits.conf, LimitMEMLOCK=infinity in the unit, --ulimit memlock=-1 of a "
      "container, or the memory lock of the runtime of the cluster's nodes";
  if (limit.rlim_cur < 2 * kMebibyte) {
    return Finding::failed(text + ", and a connection takes 1 MiB and its data", remedy);
  }
  if (limit.rlim_cur < 64 * kMebibyte) {
    return Finding::warning(text + ", which is enough for a few connections", remedy);
  }
  return Finding::ok(text);
}

Finding check_descriptors(Walk& walk) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return Finding::ok("unlimited");
  const std::string text = fmt::format("this process may have {} open", limit.rlim_cur);
  const rlim_t least = walk.settings.is_server ? 256 : 32;
  const rlim_t wanted = walk.settings.is_server ? 6000 : 256;
  const std::string remedy = fmt::format(
      "`ulimit -n {}`, nofile in /etc/security/limits.conf, or LimitNOFILE= in the unit{}", wanted,
      walk.settings.is_server ? "; 1024 connections and 4096 open files of exports take that many"
                              : "");
  // A server raises the soft limit as far as the hard one goes.
  const rlim_t has = walk.settings.is_server ? limit.rlim_max : limit.rlim_cur;
  if (has < least) return Finding::failed(text + ", too few to begin with", remedy);
  if (has < wanted) return Finding::warning(text, remedy);
  return Finding::ok(has == limit.rlim_cur ? text
                                           : fmt::format("{}, and {} if it asks", text, has));
}

Finding check_huge_pages(Walk& walk) {
  if (!walk.machine.has("/proc/meminfo")) return Finding::skipped("/proc/meminfo is not there");
  const auto number = [&](const char* key) { return walk.machine.number("/proc/meminfo", key); };
  const std::uint64_t total = number("HugePages_Total"), free = number("HugePages_Free");
  if (total == 0) return Finding::ok("none are reserved, and none are needed");
  const std::string text = fmt::format("{} reserved, {} free", total, free);
  if (free > 0 || !walk.uses_devices()) return Finding::ok(text);
  return Finding::warning(
      text + "; the libraries of some devices take them for their queues, and wait or fail",
      "reserve more (sysctl vm.nr_hugepages), or end what holds them");
}

Finding check_modules(Walk& walk) {
  if (!walk.uses_devices()) return Finding::skipped("only RDMA devices take modules of the kernel");
  if (!walk.devices.empty()) {
    if (auto found = check_nodes(walk); found.state == State::kFailed) return found;
    if (auto found = check_usable(walk); found.state == State::kFailed) return found;
  }
  const auto lacking = walk.machine.netdevs_without_rdma(walk.devices);
  if (!lacking.empty()) {
    const auto& [netdev, module] = *lacking.begin();
    return Finding::warning(
        fmt::format("the hardware of {} can do RDMA, and its module {} is not loaded", netdev,
                    module),
        fmt::format("modprobe {} (in a container: on its host); if it is not there, install the "
                    "package of the kernel's extra modules",
                    module));
  }
  if (!walk.machine.shows_modules()) return Finding::skipped(kNotVisible);
  const std::string obstacle = mount_obstacle(walk);
  if (obstacle.empty() || walk.settings.is_server) {
    return Finding::ok("those that this command needs are there");
  }
  walk.mount_obstacles.push_back(obstacle);
  return Finding::warning(obstacle, "only a mount by the kernel needs it; this command does not");
}

Finding check_drivers(Walk& walk) {
  if (!walk.uses_devices()) return Finding::skipped("only RDMA devices take these drivers");
  const std::vector<Module> loaded = walk.machine.modules();
  const auto compat = std::ranges::find(loaded, "mlx_compat", &Module::name);
  const std::vector<std::string> foreign = walk.machine.foreign_modules();
  if (compat != loaded.end()) {
    if (const auto beside = modules_beside(*compat, loaded); !beside.empty()) {
      return Finding::failed(
          fmt::format("two stacks of drivers are mixed: mlx_compat of MLNX_OFED is loaded, and {} "
                      "of the kernel's own beside it",
                      names_of_stack(beside)),
          kOneStack);
    }
  }
  if (const auto versions = versions_of_stack(walk.machine); versions.size() > 1) {
    return Finding::failed(fmt::format("modules of the RDMA stack are of different versions: {}",
                                       names_of_stack(versions)),
                           kOneStack);
  }
  const auto has = [&](const char* name) { return std::ranges::count(foreign, name) > 0; };
  const bool is_foreign = compat != loaded.end() || has("ib_core") || has("mlx5_core");
  if (is_foreign && !has("rpcrdma") && !walk.settings.is_server) {
    walk.mount_obstacles.emplace_back(
        "MLNX_OFED is installed without its rpcrdma, and the kernel's own does not fit it");
    return Finding::warning(walk.mount_obstacles.back(),
                            "only a mount by the kernel needs it: install it anew with "
                            "mlnxofedinstall --with-nfsrdma, or use the kernel's own drivers");
  }
  if (!walk.machine.shows_modules()) {
    return Finding::skipped(kNotVisible);
  }
  return Finding::ok(is_foreign ? "all of MLNX_OFED" : "the kernel's own");
}

}  // namespace rpcrdma::tools::doctor
