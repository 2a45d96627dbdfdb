// Steps of `rpcrdma doctor` from the server's name to its port.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "files/file.h"
#include "rpcrdma/providers.h"
#include "tools/doctor.h"

namespace rpcrdma::tools::doctor {
namespace {

// Returns the host as the resolver takes it: an IPv6 address has no brackets there.
std::string host_of(const nfs::NfsUrl& url) {
  const std::string& host = url.servers.front().host;
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

addrinfo hints_for(int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  return hints;
}

struct Found {
  int code = 0;  // getaddrinfo()'s
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> list{nullptr, ::freeaddrinfo};
};

// Looks a name up within a time, which getaddrinfo() alone does not keep: a lookup that is given up
// goes on in its thread, perhaps until the program has ended. EAI_AGAIN: the time is over.
Found look_up(const std::string& host, std::uint16_t port, std::chrono::milliseconds patience) {
  const auto ask = [host, service = fmt::format("{}", port)](int flags) {
    Found found;
    const addrinfo hints = hints_for(flags | AI_NUMERICSERV);
    addrinfo* list = nullptr;
    found.code = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &list);
    if (found.code == 0) found.list.reset(list);
    return found;
  };
  if (Found numeric = ask(AI_NUMERICHOST); numeric.code == 0) return numeric;
  std::packaged_task<Found()> task([ask] { return ask(0); });
  std::future<Found> answer = task.get_future();
  std::thread(std::move(task)).detach();
  if (answer.wait_for(patience) == std::future_status::ready) return answer.get();
  return {.code = EAI_AGAIN};
}

Address made_address(const sockaddr* from, socklen_t size) {
  Address made;
  std::memcpy(&made.storage, from, size);
  made.size = size;
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(from, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0) {
    made.text = text.data();
  }
  return made;
}

std::string list_of(const std::vector<Address>& addresses) {
  std::vector<std::string> texts;
  for (const Address& each : addresses) texts.push_back(each.text);
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<Address> addresses_in(const addrinfo* found) {
  std::vector<Address> all;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Address made = made_address(each->ai_addr, each->ai_addrlen);
    if (std::ranges::count(all, made.text, &Address::text) == 0) all.push_back(std::move(made));
  }
  return all;
}

// Connects, and returns 0 or an errno.
int connect_within(const files::File& socket, const Address& to, std::chrono::milliseconds limit) {
  const auto* const address = reinterpret_cast<const sockaddr*>(&to.storage);
  if (::connect(socket.descriptor(), address, to.size) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waited{socket.descriptor(), POLLOUT, 0};
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const int ready = ::poll(&waited, 1, std::max(0, static_cast<int>(left.count())));
    if (ready == 0) return ETIMEDOUT;
    if (ready > 0) break;
    if (errno != EINTR) return errno;
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

// Returns 0 if the server takes connections there, or an errno. With RDMA it is asked by siwarp:
// Linux' siw loses its listener to a second connection that ends without a word of MPA (seen with
// Linux 6.1), and nobody reaches that server any more.
int try_port(const Walk& walk, const Address& address) {
  if (!walk.is_tcp()) {
    ClientOptions options = walk.options;
    options.auth = std::monostate();
    options.provider.name = "siwarp";
    const auto client = Client::connect(
        fmt::format("rdma://{}:{}",
                    address.is_ipv6() ? fmt::format("[{}]", address.text) : address.text,
                    walk.url->servers.front().port),
        options);
    if (client) return 0;
    const Error& error = client.error();
    if (error.cause.find(std::strerror(ECONNREFUSED)) != std::string::npos) return ECONNREFUSED;
    if (error.code == Errc::kRefused || error.code == Errc::kVersion) return 0;
  }
  const files::File socket(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return socket.is_open() ? connect_within(socket, address, walk.patience) : errno;
}

// The way that packets to an address take, as the kernel's routes have it.
struct Route {
  int error = 0;
  std::string own_address, netdev;
  int mtu = 0;
};

std::string netdev_of(const sockaddr_storage& own) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  std::string name;
  for (const ifaddrs* each = all; each != nullptr && name.empty(); each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != own.ss_family) continue;
    const auto bytes_of = [](const void* address, bool is_ipv6) {
      return is_ipv6 ? std::pair<const void*, std::size_t>(
                           &static_cast<const sockaddr_in6*>(address)->sin6_addr, 16)
                     : std::pair<const void*, std::size_t>(
                           &static_cast<const sockaddr_in*>(address)->sin_addr, 4);
    };
    const bool is_ipv6 = own.ss_family == AF_INET6;
    const auto [here, size] = bytes_of(&own, is_ipv6);
    if (std::memcmp(here, bytes_of(each->ifa_addr, is_ipv6).first, size) == 0) {
      name = each->ifa_name;
    }
  }
  ::freeifaddrs(all);
  return name;
}

// A datagram socket that is connected sends nothing, but asks for the route.
Route route_to(const Address& to) {
  Route route;
  const files::File socket(::socket(to.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open() ||
      ::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&to.storage), to.size) !=
          0) {
    route.error = errno;
    return route;
  }
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&own), &size);
  route.own_address = made_address(reinterpret_cast<const sockaddr*>(&own), size).text;
  route.netdev = netdev_of(own);
  socklen_t mtu_size = sizeof route.mtu;
  ::getsockopt(socket.descriptor(), to.is_ipv6() ? IPPROTO_IPV6 : IPPROTO_IP,
               to.is_ipv6() ? IPV6_MTU : IP_MTU, &route.mtu, &mtu_size);
  return route;
}

// Returns the RDMA device of an interface, or of one below it (a VLAN, a bond).
const RdmaDevice* device_of(const Walk& walk, const std::string& netdev, int depth = 4) {
  const auto found = std::ranges::find_if(
      walk.devices, [&](const RdmaDevice& each) { return each.has_netdev(netdev); });
  if (found != walk.devices.end()) return &*found;
  if (depth == 0) return nullptr;
  for (const std::string& each : walk.machine.names("/sys/class/net/" + netdev)) {
    if (!each.starts_with("lower_")) continue;
    if (const RdmaDevice* below = device_of(walk, each.substr(6), depth - 1)) return below;
  }
  return nullptr;
}

// Returns the device that has the address, as rdma-core says, which knows more than /sys does.
const RdmaDevice* device_with(const Walk& walk, const std::string& address) {
  if (!walk.machine.is_real()) return nullptr;
  for (const ProviderFacts& provider : providers()) {
    for (const DeviceFacts& each : provider.devices) {
      if (std::ranges::count(each.addresses, address) > 0) return device_by_name(walk, each.name);
    }
  }
  return nullptr;
}

Finding judge_device(Walk& walk, const std::string& text) {
  if (!walk.uses_devices()) return Finding::ok(text);
  const RdmaDevice* device = device_with(walk, walk.own_address);
  if (device == nullptr) device = device_of(walk, walk.netdev);
  if (device == nullptr) {
    const std::string none = fmt::format("{}, which is no RDMA device's", text);
    const std::string remedy = fmt::format(
        "address the server by the network of an RDMA device, give that network the route, or make "
        "a device on this interface: rdma link add rxe0 type rxe netdev {}",
        walk.netdev);
    if (walk.needs_devices()) return Finding::failed(none, remedy);
    if (walk.devices.empty()) return Finding::ok(fmt::format("{}; siwarp is used", text));
    return Finding::warning(none + "; siwarp is used", remedy);
  }
  walk.device_on_route = device->name;
  if (!device->is_active()) {
    return Finding::failed(
        fmt::format("{}, the interface of {}, whose link is down", text, device->name),
        fmt::format("ip link set {} up; or address the server by another network", walk.netdev));
  }
  return Finding::ok(
      fmt::format("{}, RDMA device {} ({})", text, device->name, device->transport()));
}

std::string remedy_of_port(const Walk& walk, int error) {
  const std::uint16_t port = walk.url->servers.front().port;
  if (error == ECONNREFUSED) {
    return fmt::format(
        "nothing listens there: start the server, or look at its port (`ss -ltn` there; {} is that "
        "of {} here{})",
        port, walk.is_tcp() ? "NFS over TCP" : "NFS/RDMA",
        walk.is_nfs && !walk.is_tcp()
            ? fmt::format("; nfsd needs `modprobe rpcrdma; echo rdma {} > /proc/fs/nfsd/portlist`",
                          port)
            : "");
  }
  return fmt::format(
      "the machine is off, or a firewall on the way drops TCP port {} (RoCE takes UDP port 4791 "
      "instead)",
      port);
}

// InfiniBand and RoCE do not listen on TCP, so that a refusal there says nothing about RDMA.
bool is_beside_tcp(const Walk& walk) {
  const RdmaDevice* const device = device_by_name(walk, walk.device_on_route);
  return device != nullptr && !device->is_iwarp && walk.uses_devices();
}

}  // namespace

Finding check_name(Walk& walk) {
  const std::string host = host_of(*walk.url);
  const Found found = look_up(host, walk.url->servers.front().port, walk.patience);
  if (found.code != 0) {
    return Finding::failed(
        fmt::format("{} has no address: {}", host, ::gai_strerror(found.code)),
        "check the name (getent hosts shows what this machine knows), /etc/resolv.conf and "
        "/etc/hosts, or use a numeric address");
  }
  walk.addresses = addresses_in(found.list.get());
  const std::string text = list_of(walk.addresses);
  const bool has_ipv6 = !walk.machine.text("/proc/net/if_inet6").empty();
  if (has_ipv6) return Finding::ok(text);
  const auto ipv6 = std::ranges::count_if(walk.addresses, &Address::is_ipv6);
  if (ipv6 == 0) return Finding::ok(text);
  const std::string remedy =
      "give this machine an IPv6 address (sysctl net.ipv6.conf.all.disable_ipv6), or the server's "
      "name an IPv4 address";
  if (static_cast<std::size_t>(ipv6) == walk.addresses.size()) {
    return Finding::failed(
        fmt::format("{} has IPv6 addresses alone ({}), and this machine has no IPv6", host, text),
        remedy);
  }
  std::erase_if(walk.addresses, &Address::is_ipv6);
  return Finding::ok(fmt::format("{}; this machine has no IPv6, so that {} is used", text,
                                 list_of(walk.addresses)));
}

Finding check_route(Walk& walk) {
  std::vector<std::pair<Address, Route>> ways;
  int error = 0;
  for (const Address& each : walk.addresses) {
    Route route = route_to(each);
    if (route.error == 0) {
      ways.emplace_back(each, std::move(route));
    } else {
      error = route.error;
    }
  }
  if (ways.empty()) {
    return Finding::failed(
        fmt::format("no route leads to {}: {}", list_of(walk.addresses), std::strerror(error)),
        "`ip route get ADDRESS` shows the same; bring the interface of that network up, and give "
        "it an address of that network or a gateway");
  }
  walk.addresses.clear();
  for (const auto& [address, route] : ways) walk.addresses.push_back(address);
  const auto& [address, route] = ways.front();
  walk.own_address = route.own_address;
  walk.netdev = route.netdev;
  return judge_device(walk, fmt::format("{} from {} by {}, MTU {}", address.text, route.own_address,
                                        route.netdev, route.mtu));
}

Finding check_port(Walk& walk) {
  if (is_beside_tcp(walk)) {
    return Finding::ok(
        "RoCE is UDP port 4791 and InfiniBand no port of IP, so that nothing is asked by TCP");
  }
  const std::uint16_t port = walk.url->servers.front().port;
  std::string silent;
  int error = 0;
  for (const Address& each : walk.addresses) {
    const int now = try_port(walk, each);
    if (now == 0) {
      const std::string text = fmt::format("{} takes TCP connections to port {}", each.text, port);
      if (silent.empty()) return Finding::ok(text);
      return Finding::warning(
          fmt::format("{}, but {}", text, silent),
          "clients that try the other address first wait or fail: let the server listen there, or "
          "take that address out of its name");
    }
    silent +=
        fmt::format("{}{} does not: {}", silent.empty() ? "" : ", ", each.text, std::strerror(now));
    error = now;
  }
  return Finding::failed(fmt::format("port {} by TCP: {}", port, silent),
                         remedy_of_port(walk, error));
}

}  // namespace rpcrdma::tools::doctor
