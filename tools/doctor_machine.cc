#include "tools/doctor_machine.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include "tools/text.h"

namespace rpcrdma::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTextMax = 4U << 20U;  // bytes

// "4: ACTIVE" has its name behind the number.
std::string behind_number(const std::string& text) {
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (!name.empty() && std::ranges::count(names, name) == 0) names.push_back(name);
}

// A module has '_' where its file may have '-', and its file may be compressed.
std::string module_of(const fs::path& file) {
  std::string name = file.filename();
  const std::size_t end = name.find(".ko");
  if (end == std::string::npos) return {};
  name.resize(end);
  std::ranges::replace(name, '-', '_');
  return name;
}

// The RDMA modules of hardware, by the modules of its network interfaces.
struct Pair {
  std::string_view network, rdma;
};
constexpr std::array<Pair, 10> kPairs{{{"mlx5_core", "mlx5_ib"},
                                       {"mlx4_core", "mlx4_ib"},
                                       {"mlx4_en", "mlx4_ib"},
                                       {"bnxt_en", "bnxt_re"},
                                       {"ice", "irdma"},
                                       {"i40e", "irdma"},
                                       {"cxgb4", "iw_cxgb4"},
                                       {"qede", "qedr"},
                                       {"hns3", "hns_roce_hw_v2"},
                                       {"erdma_net", "erdma"}}};

// Counters of several drivers under their names. Those of ports/N/counters are of the link.
// Receivers that were not ready are no loss of the network, and are left out.
constexpr std::array<std::string_view, 14> kLost{
    "out_of_sequence",    "packet_seq_err",    "local_ack_timeout_err", "implied_nak_seq_err",
    "out_of_seq_request", "rcvd_seq_err",      "completer_retry_err",   "retry_exceeded_err",
    "seq_err_naks_rcvd",  "to_retransmits",    "max_retry_exceeded",    "rx_icrc_encapsulated",
    "port_rcv_errors",    "port_xmit_discards"};
// iWARP goes by TCP, which sends again in the course of its work.
constexpr std::array<std::string_view, 7> kMarked{
    "np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets", "cnpSent", "cnpHandled",
    "tx_cnp_pkts", "tcpRetransSegs"};

// An iWARP device has the hardware address of its interface in its GID: "0200:0000:0001:…".
bool has_address_in_gid(const std::string& gid, const std::string& hardware_address) {
  const auto digits_of = [](const std::string& text) {
    std::string digits;
    std::ranges::copy_if(text, std::back_inserter(digits), [](char each) { return each != ':'; });
    return digits;
  };
  const std::string address = digits_of(hardware_address);
  return address.size() == 12 && digits_of(gid).starts_with(address);
}

}  // namespace

bool RdmaDevice::is_active() const {
  return std::ranges::any_of(ports, &RdmaPort::is_active);
}

bool RdmaDevice::has_netdev(const std::string& netdev) const {
  return std::ranges::count(netdevs, netdev) > 0;
}

bool RdmaDevice::is_infiniband() const {
  return std::ranges::any_of(ports,
                             [](const RdmaPort& port) { return port.link_layer == "InfiniBand"; });
}

const char* RdmaDevice::transport() const {
  if (is_iwarp) return "iWARP";
  return is_infiniband() ? "InfiniBand" : "RoCE";
}

Machine::Machine() {
  // A test's faults are for its own process: a program with the rights of others ignores them.
  if (const char* const root = ::secure_getenv("RPCRDMA_DOCTOR_ROOT")) root_ = root;
}

bool Machine::has(const std::string& path) const {
  std::error_code error;
  return fs::exists(place(path), error);
}

std::string Machine::text(const std::string& path) const {
  std::string content = text_of_file(place(path), kTextMax).value_or("");
  while (!content.empty() && (content.back() == '\n' || content.back() == ' ')) content.pop_back();
  return content;
}

std::vector<std::string> Machine::names(const std::string& path) const {
  std::vector<std::string> all;
  std::error_code error;
  for (fs::directory_iterator each(place(path), error), end; !error && each != end;
       each.increment(error)) {
    all.push_back(each->path().filename());
  }
  std::ranges::sort(all);
  return all;
}

std::uint64_t Machine::number(const std::string& path, const std::string& key) const {
  std::istringstream lines(text(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key + ":")) return std::strtoull(&line[key.size() + 1], nullptr, 10);
  }
  return 0;
}

RdmaPort Machine::port(const std::string& folder, const std::string& number,
                       RdmaDevice& device) const {
  const std::string path = folder + "/ports/" + number;
  RdmaPort port{number, behind_number(text(path + "/state")),
                behind_number(text(path + "/phys_state")), text(path + "/link_layer")};
  for (const std::string& each : names(path + "/gids")) {
    const std::string gid = text(path + "/gids/" + each);
    if (gid.find_first_not_of("0:") != std::string::npos) port.gids.push_back(gid);
    add_once(device.netdevs, text(path + "/gid_attrs/ndevs/" + each));
  }
  return port;
}

RdmaDevice Machine::device(const std::string& name) const {
  const std::string folder = "/sys/class/infiniband/" + name;
  RdmaDevice device{name};
  device.is_iwarp = text(folder + "/node_type").find("RNIC") != std::string::npos;
  for (const std::string& each : names(folder + "/device/net")) add_once(device.netdevs, each);
  add_once(device.netdevs, text(folder + "/parent"));  // rxe and siw name their interface so
  for (const std::string& each : names(folder + "/ports")) {
    device.ports.push_back(port(folder, each, device));
  }
  if (device.is_iwarp && device.netdevs.empty()) find_netdev_by_gid(device);
  return device;
}

void Machine::find_netdev_by_gid(RdmaDevice& device) const {
  for (const RdmaPort& port : device.ports) {
    for (const std::string& netdev : names("/sys/class/net")) {
      const std::string address = text("/sys/class/net/" + netdev + "/address");
      const bool is_it = std::ranges::any_of(
          port.gids, [&](const std::string& gid) { return has_address_in_gid(gid, address); });
      if (is_it) add_once(device.netdevs, netdev);
    }
  }
}

std::vector<RdmaDevice> Machine::devices() const {
  std::vector<RdmaDevice> all;
  for (const std::string& each : names("/sys/class/infiniband")) all.push_back(device(each));
  return all;
}

std::vector<Module> Machine::modules() const {
  std::vector<Module> all;
  std::istringstream lines(text("/proc/modules"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string size, count, users;
    Module module;
    words >> module.name >> size >> count >> users;
    std::istringstream each(users == "-" ? "" : users);
    for (std::string user; std::getline(each, user, ',');) module.users.push_back(user);
    all.push_back(std::move(module));
  }
  return all;
}

std::string Machine::kernel_folder() const {
  utsname system{};
  ::uname(&system);
  return fmt::format("/lib/modules/{}", system.release);
}

bool Machine::has_module(const std::string& name) const {
  const auto loaded = modules();
  if (std::ranges::count(loaded, name, &Module::name) > 0 || has("/sys/module/" + name)) {
    return true;
  }
  std::istringstream lines(text(kernel_folder() + "/modules.builtin"));
  for (std::string line; std::getline(lines, line);) {
    if (module_of(line) == name) return true;
  }
  return false;
}

std::vector<std::string> Machine::foreign_modules() const {
  std::vector<std::string> all;
  for (const char* const folder : {"updates", "extra", "weak-updates"}) {
    std::error_code error;
    const fs::path top = place(fmt::format("{}/{}", kernel_folder(), folder));
    for (fs::recursive_directory_iterator each(top, error), end; !error && each != end;
         each.increment(error)) {
      add_once(all, module_of(each->path()));
    }
  }
  return all;
}

std::map<std::string, std::string> Machine::netdevs_without_rdma(
    const std::vector<RdmaDevice>& devices) const {
  std::map<std::string, std::string> lacking;
  for (const std::string& each : names("/sys/class/net")) {
    std::error_code error;
    const fs::path driver =
        fs::read_symlink(place("/sys/class/net/" + each + "/device/driver"), error);
    const auto* const pair =
        std::ranges::find(kPairs, std::string_view(driver.filename().native()), &Pair::network);
    const bool has_device = std::ranges::any_of(
        devices, [&](const RdmaDevice& device) { return device.has_netdev(each); });
    if (!error && pair != kPairs.end() && !has_device) lacking[each] = pair->rdma;
  }
  return lacking;
}

LossCounters Machine::losses(const std::vector<RdmaDevice>& devices,
                             const std::string& name) const {
  LossCounters all;
  for (const RdmaDevice& device : devices) {
    if (!name.empty() && device.name != name) continue;
    for (const RdmaPort& port : device.ports) {
      const std::string path =
          fmt::format("/sys/class/infiniband/{}/ports/{}", device.name, port.number);
      const auto read = [&](std::string_view counter, std::map<std::string, std::uint64_t>& into) {
        for (const char* const folder : {"hw_counters", "counters"}) {
          const std::string value = text(fmt::format("{}/{}/{}", path, folder, counter));
          if (value.empty()) continue;
          into[fmt::format("{}/{} {}", device.name, port.number, counter)] =
              std::strtoull(value.c_str(), nullptr, 10);
        }
      };
      for (const std::string_view each : kLost) read(each, all.lost);
      for (const std::string_view each : kMarked) read(each, all.marked);
    }
  }
  return all;
}

bool Machine::may_lock_any_memory() const {
  constexpr unsigned kIpcLock = 14;  // CAP_IPC_LOCK
  std::istringstream lines(text("/proc/self/status"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("CapEff:")) continue;
    const std::uint64_t set = std::strtoull(&line[7], nullptr, 16);
    if ((set >> kIpcLock & 1U) == 0) return false;
    // Inside a user namespace the capability does not count: the map of the first one has all ids.
    std::istringstream map(text("/proc/self/uid_map"));
    std::uint64_t inside = 1, outside = 1, count = 0;
    map >> inside >> outside >> count;
    return inside == 0 && outside == 0 && count == UINT32_MAX;
  }
  return false;
}

}  // namespace rpcrdma::tools::doctor
