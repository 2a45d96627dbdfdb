// Steps of `rpcrdma doctor` that look at the build and at RDMA devices.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "rpcrdma/providers.h"
#include "tools/doctor.h"
#include "tools/plug_in.h"

namespace rpcrdma::tools::doctor {
namespace {

constexpr const char* kSoftwareIsUsed =
    "no RDMA device is used: the provider is siwarp, software iWARP over TCP";
constexpr const char* kTcpTakesNone = "plain TCP takes no RDMA device";

Finding skipped_without_devices(const Walk& walk) {
  if (walk.is_tcp()) return Finding::skipped(kTcpTakesNone);
  if (!walk.uses_devices()) return Finding::skipped(kSoftwareIsUsed);
  return Finding::skipped("there is no RDMA device");
}

bool has_no_device(const Walk& walk) {
  return !walk.uses_devices() || walk.devices.empty();
}

// Names the interfaces of a device, for a remedy; "INTERFACE" if none is known.
std::string interface_of(const RdmaDevice& device) {
  return device.netdevs.empty() ? "INTERFACE" : device.netdevs.front();
}

std::string way_to_make_a_device(const Walk& walk) {
  std::string text;
  for (const auto& [netdev, module] : walk.machine.netdevs_without_rdma(walk.devices)) {
    text += fmt::format("the hardware of {} can do RDMA: modprobe {}; ", netdev, module);
  }
  if (!text.empty()) return text + "then look again";
  return "load the driver of the adapter (lspci shows it), or make a device in software: rdma link "
         "add rxe0 type rxe netdev eth0 (RoCE), or type siw (iWARP); a container gets the devices "
         "of its host by --device /dev/infiniband";
}

std::string why_port_is_down(const RdmaDevice& device, const RdmaPort& port) {
  if (device.is_infiniband() && (port.state == "INIT" || port.state == "ARMED")) {
    return "no subnet manager has configured it: start opensm on one machine of the fabric, or the "
           "subnet manager of the switch";
  }
  if (device.is_infiniband()) return "look at the cable and at the port of the switch";
  return fmt::format(
      "bring its interface up: ip link set {0} up; if `ip link show {0}` says NO-CARRIER then, "
      "look at the cable and at the port of the switch",
      interface_of(device));
}

// Without the plug-in siwarp does all the work of a machine that has no device. The packages that
// the documents name have none, so that this is a failure only where a device would be used.
Finding without_verbs(const Walk& walk, const std::string& text, const std::string& remedy) {
  const bool is_wanted = walk.needs_devices() || !walk.devices.empty();
  return is_wanted ? Finding::failed(text, remedy) : Finding::warning(text, remedy);
}

std::vector<std::string> active_ports(const Walk& walk) {
  std::vector<std::string> all;
  for (const RdmaDevice& device : walk.devices) {
    for (const RdmaPort& port : device.ports) {
      if (port.is_active()) all.push_back(fmt::format("{} port {}", device.name, port.number));
    }
  }
  return all;
}

}  // namespace

const RdmaDevice* device_by_name(const Walk& walk, const std::string& name) {
  const auto found = std::ranges::find(walk.devices, name, &RdmaDevice::name);
  return found == walk.devices.end() ? nullptr : &*found;
}

Finding check_build(Walk& walk) {
  if (walk.settings.client.security != "sys" && RPCRDMA_WITH_KRB5 == 0) {
    return Finding::failed("this build has no Kerberos, which --sec asks for",
                           "install the package rpcrdma-krb5, or libkrb5-dev and build again");
  }
  if (walk.settings.client.security != "sys") {
    const std::string remedy = remedy_for_kerberos();
    if (!remedy.empty())
      return Finding::failed("Kerberos, which --sec asks for, is missing", remedy);
  }
  if (!walk.uses_devices()) return Finding::ok("RPC over siwarp and TCP; no device is asked for");
  if (RPCRDMA_WITH_VERBS == 0) {
    return without_verbs(
        walk, "this build has no RDMA devices (verbs), only siwarp",
        "install the package rpcrdma-verbs, or libibverbs-dev and librdmacm-dev and build again");
  }
  for (const ProviderFacts& each : providers()) {
    if (each.is_installed) continue;
    if (is_absent(each.problem)) {
      return without_verbs(
          walk, fmt::format("the provider {} is not installed: {}", each.name, each.problem),
          "install the package rpcrdma-verbs, if servers or clients have RDMA devices");
    }
    return Finding::failed(
        fmt::format("the provider {} cannot be loaded: {}", each.name, each.problem),
        "install the package rpcrdma-verbs, which needs libibverbs1 and librdmacm1; or say "
        "--provider siwarp, which needs neither");
  }
  return Finding::ok("RDMA devices (verbs), siwarp and TCP");
}

Finding check_devices(Walk& walk) {
  if (!walk.uses_devices()) return skipped_without_devices(walk);
  if (!walk.devices.empty()) {
    std::vector<std::string> texts;
    for (const RdmaDevice& each : walk.devices) {
      texts.push_back(fmt::format("{} ({}{}{})", each.name, each.transport(),
                                  each.netdevs.empty() ? "" : " on ",
                                  fmt::join(each.netdevs, ", ")));
    }
    return Finding::ok(fmt::format("{}", fmt::join(texts, ", ")));
  }
  const std::string remedy = way_to_make_a_device(walk);
  walk.mount_obstacles.push_back(
      "the kernel mounts over RDMA by an RDMA device, and there is none here");
  if (walk.needs_devices()) return Finding::failed("this machine has no RDMA device", remedy);
  return Finding::warning(
      "this machine has no RDMA device, so that siwarp is used, which reaches servers with siwarp "
      "or iWARP adapters, and none with RoCE or InfiniBand",
      remedy);
}

Finding check_link(Walk& walk) {
  if (has_no_device(walk)) return skipped_without_devices(walk);
  std::string down, remedy;
  for (const RdmaDevice& device : walk.devices) {
    for (const RdmaPort& port : device.ports) {
      if (port.is_active()) continue;
      down +=
          fmt::format("{}{} port {} is {} ({})", down.empty() ? "" : ", ", device.name, port.number,
                      port.state.empty() ? "in no state" : port.state, port.physical_state);
      if (remedy.empty()) remedy = why_port_is_down(device, port);
    }
  }
  const auto active = active_ports(walk);
  if (active.empty()) {
    return Finding::failed(down.empty() ? "no RDMA device has a port" : down,
                           remedy.empty() ? "dmesg tells what its driver found" : remedy);
  }
  const std::string text = fmt::format("{} active", fmt::join(active, ", "));
  return down.empty() ? Finding::ok(text)
                      : Finding::warning(fmt::format("{}; {}", text, down), remedy);
}

Finding check_gids(Walk& walk) {
  if (has_no_device(walk)) return skipped_without_devices(walk);
  std::string without, remedy;
  std::size_t count = 0;
  for (const RdmaDevice& device : walk.devices) {
    for (const RdmaPort& port : device.ports) {
      if (!port.is_active() || device.is_iwarp) continue;  // iWARP connects by IP addresses
      count += port.gids.size();
      if (!port.gids.empty()) continue;
      without += fmt::format("{}{} port {}", without.empty() ? "" : ", ", device.name, port.number);
      remedy = device.is_infiniband()
                   ? "the subnet manager gives it one: look at its log (opensm)"
                   : fmt::format(
                         "RoCE makes a GID of each IP address of the interface: ip address add "
                         "ADDRESS/BITS dev {0}, and ip link set {0} up; a container needs the "
                         "network of the host, or the interface moved into its own",
                         interface_of(device));
    }
  }
  const bool is_iwarp_alone = std::ranges::all_of(
      walk.devices, [](const RdmaDevice& each) { return each.is_iwarp || !each.is_active(); });
  if (without.empty()) {
    return Finding::ok(is_iwarp_alone ? std::string("iWARP needs none") : fmt::format("{}", count));
  }
  const std::string text = fmt::format("{} has no GID, by which it could be reached", without);
  return count == 0 && std::ranges::none_of(walk.devices, &RdmaDevice::is_iwarp)
             ? Finding::failed(text, remedy)
             : Finding::warning(text, remedy);
}

Finding check_mtu(Walk& walk) {
  if (has_no_device(walk)) return skipped_without_devices(walk);
  constexpr std::uint64_t kHeaders = 58 + 16;  // of IPv6, UDP and InfiniBand, with the CRC
  constexpr std::uint64_t kLeast = 256;        // the smallest MTU of InfiniBand
  std::vector<std::string> texts;
  for (const RdmaDevice& device : walk.devices) {
    for (const std::string& each : device.netdevs) {
      const std::string text = walk.machine.text("/sys/class/net/" + each + "/mtu");
      if (text.empty()) continue;
      const std::uint64_t mtu = std::strtoull(text.c_str(), nullptr, 10);
      if (!device.is_iwarp && !device.is_infiniband() && mtu < kLeast + kHeaders) {
        return Finding::failed(
            fmt::format("the MTU of {} is {}, and RoCE needs {} for the smallest packets", each,
                        mtu, kLeast + kHeaders),
            fmt::format("ip link set {} mtu 1500, or 9000 if each switch on the way carries that",
                        each));
      }
      std::uint64_t carried = 4096;
      while (carried > mtu - std::min(mtu, kHeaders)) carried /= 2;
      texts.push_back(device.is_iwarp || device.is_infiniband()
                          ? fmt::format("{} {}", each, mtu)
                          : fmt::format("{} {}, RoCE packets of {}", each, mtu, carried));
    }
  }
  if (texts.empty()) return Finding::skipped("the interfaces of the devices are not visible here");
  return Finding::ok(fmt::format("{}", fmt::join(texts, ", ")));
}

}  // namespace rpcrdma::tools::doctor
