#include "rdma/verbs/preflight.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "posix/address.h"
#include "rdma/verbs/cm.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/interfaces.h"
#include "rdma/verbs/memory.h"

namespace rpcrdma::rdma::verbs {
namespace {

constexpr std::string_view kNoDevice =
    "this machine has no RDMA device; load its driver (lspci, rdma link), or make one in software: "
    "rdma link add rxe0 type rxe netdev eth0";

constexpr std::string_view kRemoved =
    "dmesg and `rdma link` tell more; what listens on it has to be started again when it is back";

std::string without_access(std::string_view what, int code) {
  if (code == EACCES || code == EPERM) {
    return fmt::format(
        "this user may not open {}; allow it by a udev rule or the group that owns it, or run as "
        "root",
        what);
  }
  return fmt::format("{} is not there; load its module: modprobe rdma_ucm", what);
}

std::string memory_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string now =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} KiB", limit.rlim_cur / 1024);
  return fmt::format(
      "memory that a device reaches is locked, and the limit of locked memory is {} here; a "
      "connection of default size takes 1 MiB, and a call its bulk data, so set it to 64 MiB at "
      "least (server: as much as its memory_max): `ulimit -l 65536` as root, memlock in "
      "/etc/security/limits.conf, or LimitMEMLOCK= in the service's unit",
      now);
}

std::string host_of(const posix::Address& address) {
  const std::string text = to_string(address);
  return text.substr(0, text.rfind(':'));
}

// An identifier that is bound to the device with the address; null if there is none.
CmId bound_to(const posix::Address& address) {
  rdma_cm_id* raw = nullptr;
  if (enter_rdma_core() != 0) return nullptr;
  if (rdma_create_id(nullptr, &raw, nullptr, RDMA_PS_TCP) != 0) return nullptr;
  CmId id(raw);
  posix::Address copy = address;
  if (rdma_bind_addr(id.get(), copy.pointer()) != 0 || id->verbs == nullptr) return nullptr;
  return id;
}

std::string name_of(const rdma_cm_id& bound) {
  return bound.verbs->device->name;
}

// The network interface of an RDMA device; empty when the system does not say.
std::string interface_of(const std::string& device) {
  std::error_code error;
  const std::filesystem::path folder =
      "/sys/class/infiniband/" + device + "/ports/1/gid_attrs/ndevs";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::ifstream file(entry.path());
    std::string name;
    if (std::getline(file, name) && !name.empty()) return name;
  }
  return {};
}

std::string transport_of(const ibv_context& context, const ibv_port_attr& port) {
  if (context.device->transport_type == IBV_TRANSPORT_IWARP) return "iWARP";
  return port.link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand";
}

std::string_view to_text(Registration registration) {
  switch (registration) {
    case Registration::kAuto:
      return "automatic";
    case Registration::kWindows:
      return "memory windows, type 2";
    case Registration::kPerCall:
      return "a registration for each call";
    case Registration::kCache:
      return "registrations that are kept (weaker)";
  }
  return "unknown";
}

// Warns about checks that the kernel's software devices do not make (Linux 6.1 and 6.12; the
// conformance suite shows it).
std::string caution_of(const Traits& traits) {
  if (traits.lets_peers_read) {
    return "siw does not ask what memory was exposed for: a peer can read all that is registered "
           "for its connection if it guesses the handle";
  }
  if (traits.windows_want_care && traits.registration == Registration::kWindows) {
    return "rxe does not ask whose window it is: a peer can invalidate those of other connections, "
           "which end by that";
  }
  return {};
}

// Returns why the device cannot be used, with any address; empty: it can.
std::string device_problem(ibv_context& context, std::uint8_t port_number) {
  ibv_port_attr port{};
  if (const int code = ibv_query_port(&context, port_number, &port); code != 0) {
    return fmt::format("it does not answer: {}", std::strerror(code));
  }
  if (const int code = try_to_register(context); code != 0) {
    return code == ENOMEM ? memory_limit() : std::strerror(code);
  }
  if (port.state == IBV_PORT_ACTIVE) return {};
  return "its port is down; check the cable, and bring its network interface up: ip "
         "link set INTERFACE up";
}

// Explains why no address leads to a device.
std::string address_problem(const std::string& device, const std::vector<Interface>& all) {
  const std::string interface = interface_of(device);
  if (interface.empty()) {
    return "no IP address leads to it; give its network interface one: ip addr add ADDR/PREFIX dev "
           "INTERFACE";
  }
  const auto own = std::ranges::find(all, interface, &Interface::name);
  if (own == all.end()) {
    return fmt::format("its network interface has no IP address: ip addr add ADDR/PREFIX dev {}",
                       interface);
  }
  return fmt::format(
      "{} is an address of its network interface {}, but not among its GIDs; take the address off "
      "and give it again (ip addr del, ip addr add), and see {}",
      host_of(own->address), interface, "/sys/class/infiniband/" + device + "/ports/1/gids");
}

DeviceFacts facts_of(ibv_device& device, Registration wish, const std::vector<Interface>& all) {
  DeviceFacts facts;
  facts.name = device.name;
  const Owned<ibv_context, ibv_close_device> context(ibv_open_device(&device));
  if (!context) {
    facts.problem = without_access("its /dev/infiniband/uverbs file", errno);
    return facts;
  }
  ibv_device_attr attributes{};
  ibv_port_attr port{};
  int code = ibv_query_device(context.get(), &attributes);
  if (code == 0) code = ibv_query_port(context.get(), 1, &port);
  if (code != 0) {
    facts.problem = fmt::format("it does not answer: {}", std::strerror(code));
    return facts;
  }
  const Traits traits = traits_of(*context, attributes, wish);
  facts.transport = transport_of(*context, port);
  facts.registration = to_text(traits.registration);
  facts.reads_max = static_cast<std::uint32_t>(
      std::min({attributes.max_qp_rd_atom, attributes.max_qp_init_rd_atom, 255}));
  facts.slices_max = static_cast<std::uint32_t>(attributes.max_sge);
  if (attributes.max_srq > 0) {
    facts.shared_receives = static_cast<std::uint32_t>(std::max(attributes.max_srq_wr, 0));
  }
  facts.caution = caution_of(traits);
  facts.takes_invalidation = traits.reports_invalidated_handle;
  for (const Interface& each : all) {
    const CmId bound = bound_to(each.address);
    if (bound && name_of(*bound) == facts.name) facts.addresses.push_back(host_of(each.address));
  }
  facts.problem = device_problem(*context, 1);
  if (facts.problem.empty() && facts.addresses.empty()) {
    facts.problem = address_problem(facts.name, all);
  }
  return facts;
}

std::string known_addresses() {
  std::string text;
  for (const DeviceFacts& device : devices(Registration::kAuto)) {
    if (!device.problem.empty()) {
      text += fmt::format("; {}: {}", device.name, device.problem);
    } else {
      text += fmt::format("; {} has {}", device.name, fmt::join(device.addresses, ", "));
    }
  }
  return text.empty() ? why_no_device() : text.substr(2);
}

}  // namespace

int try_to_register(ibv_context& context) {
  constexpr std::size_t kSize = 1U << 20U;  // what messages of a connection of default size take
  const Owned<ibv_pd, ibv_dealloc_pd> domain(ibv_alloc_pd(&context));
  if (!domain) return errno;
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(kSize);
  const MemoryRegion region(
      ibv_reg_mr(domain.get(), memory.get(), kSize, static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE)));
  return region ? 0 : errno;
}

std::string why_no_device() {
  if (enter_rdma_core() == ECHILD) return std::string(kForked);
  std::error_code error;
  if (!std::filesystem::exists("/sys/class/infiniband", error) ||
      std::filesystem::is_empty("/sys/class/infiniband", error)) {
    return std::string(kNoDevice);
  }
  return without_access("the files in /dev/infiniband", EACCES);
}

std::vector<DeviceFacts> devices(Registration wish) {
  std::vector<DeviceFacts> found;
  if (enter_rdma_core() != 0) return found;
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  if (list == nullptr) return found;
  const std::vector<Interface> all = interfaces();
  for (int i = 0; i < count; ++i) found.push_back(facts_of(*list[i], wish, all));
  ibv_free_device_list(list);
  return found;
}

Expected<DeviceChoice, std::string> device_for(std::string_view address, bool to_listen) {
  const auto parsed = posix::parse_address(address);
  if (!parsed) return Unexpected<std::string>("it is no numeric address");
  if (to_listen && is_wildcard(*parsed)) {
    const std::vector<DeviceFacts> all = devices(Registration::kAuto);
    if (all.empty()) return Unexpected<std::string>(known_addresses());
    const auto good = std::ranges::find(all, "", &DeviceFacts::problem);
    const DeviceFacts& chosen = good != all.end() ? *good : all.front();
    return DeviceChoice{chosen.name, chosen.problem};
  }
  const auto local = to_listen ? parsed : local_address_for(*parsed);
  if (!local) return Unexpected<std::string>("there is no route to it");
  if (is_loopback(*local)) {
    return Unexpected<std::string>("the loopback interface is no RDMA device's");
  }
  // A port that is taken says nothing about the device.
  const CmId bound = bound_to(without_port(*local));
  if (!bound) return Unexpected<std::string>(known_addresses());
  return DeviceChoice{name_of(*bound), device_problem(*bound->verbs, bound->port_num)};
}

bool reports_invalidated_handle(std::string_view address, Registration wish) {
  const auto parsed = posix::parse_address(address);
  if (!parsed) return false;
  if (is_wildcard(*parsed)) {
    const auto all = devices(wish);
    return !all.empty() && std::ranges::all_of(all, &DeviceFacts::takes_invalidation);
  }
  const auto local = local_address_for(*parsed);
  const CmId bound = local ? bound_to(*local) : nullptr;
  ibv_device_attr attributes{};
  if (!bound || ibv_query_device(bound->verbs, &attributes) != 0) return false;
  return traits_of(*bound->verbs, attributes, wish).reports_invalidated_handle;
}

std::string remedy_for(const Error& error) {
  if (error.operation == kEntering) {
    return error.provider_code == ECHILD ? std::string(kForked) : std::string();
  }
  if (error.operation == kDeviceRemoved) return std::string(kRemoved);
  if (error.operation == kOpeningManager) {
    if (error.provider_code == ENODEV) return why_no_device();
    return without_access("/dev/infiniband/rdma_cm", error.provider_code);
  }
  const bool lacks_memory = error.provider_code == ENOMEM || error.provider_code == EAGAIN;
  if (error.operation == kRegisteringMemory || error.operation == kOpeningQueue) {
    return lacks_memory ? memory_limit() : std::string();
  }
  if (error.operation == kNoDeviceOnTheWay || error.operation == kBindingAddress) {
    if (error.provider_code == EADDRINUSE) return {};
    return known_addresses();
  }
  return {};
}

}  // namespace rpcrdma::rdma::verbs
