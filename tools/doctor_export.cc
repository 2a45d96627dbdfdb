// Steps of `rpcrdma doctor` with an export: its rules, its files, and the lines that mount it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mount3.h"
#include "nfs/address_range.h"
#include "tools/doctor.h"
#include "tools/mount_line.h"
#include "tools/text.h"

namespace rpcrdma::tools::doctor {
namespace {

constexpr std::size_t kNamesToTry = 64;
constexpr std::uint64_t kBytesToRead = 64U << 10U;  // more than one packet of each network
constexpr const char* kNoExport = "the URL names no export";

// Returns whether the server's list of clients has this machine's address. A list of nobody means
// everybody, and the names in it are the server's to resolve.
bool is_listed(const std::vector<std::string>& clients, const std::string& own) {
  const std::string peer =
      own.find(':') == std::string::npos ? own + ":1" : fmt::format("[{}]:1", own);
  return clients.empty() || std::ranges::any_of(clients, [&](const std::string& each) {
           const auto range = nfs::AddressRange::parse(each);
           return range && range->contains(peer);
         });
}

Finding not_mounted(const Walk& walk, const nfs::Failure& why) {
  using nfs::MountRefusal;
  std::string text = printable(why.message());
  switch (why.refusal) {
    case MountRefusal::kNoExport:
      return Finding::failed(text,
                             "name one of the server's exports, or let it export this one "
                             "(serve --nfs DIR; nfsd: /etc/exports, then exportfs -ra)");
    case MountRefusal::kSecurity:
      return Finding::failed(text, "kinit, and say --sec with one of those here, sec= at mount(8)");
    case MountRefusal::kClient:
      if (is_listed(why.clients, walk.own_address)) {
        return Finding::failed(
            text + "; its list has this machine, so that it may want a port below 1024",
            fmt::format("mount(8) calls from such a port, and may succeed as root; for others the "
                        "export takes the option insecure, and none called secure. The address is "
                        "{} as this machine sees it; behind NAT the server sees another",
                        walk.own_address));
      }
      return Finding::failed(
          fmt::format("{}; its list has {}", text, fmt::join(why.clients, ", ")),
          fmt::format("add {} to the clients of the export (serve --nfs DIR:client={}; nfsd: "
                      "/etc/exports, then exportfs -ra)",
                      walk.own_address, walk.own_address));
    case MountRefusal::kServer:
      return Finding::failed(text, "its log says why; the directory may be gone, or its disk");
    case MountRefusal::kNotAsked:
      return Finding::failed(
          "MOUNT: " + text,
          "MOUNT was asked at the port of the URL, and then where the server's rpcbind (port 111) "
          "says: let both through the firewall, start rpcbind and mountd there, or say where MOUNT "
          "is by --mount-port");
    case MountRefusal::kNone:
      break;
  }
  if (why.error && why.error->code == Errc::kDenied) {
    return Finding::failed(text, "the export takes other credentials: kinit, and say --sec krb5");
  }
  return Finding::failed(text,
                         "MOUNT gave a handle, and NFS does not take it: the server's log "
                         "says why; after a change of its exports, exportfs -ra");
}

std::string read_remedy(const nfs::Failure& why) {
  using nfs3::nfsstat3;
  if (why.error) {
    return "small messages pass and data does not: an MTU that a switch on the way does not carry "
           "does that (try 1500 on both sides), and so does loss (the step counters)";
  }
  const auto is_one_of = [&](nfsstat3 one, nfsstat3 other) {
    return why.status == one || why.status == other;
  };
  if (is_one_of(nfsstat3::NFS3ERR_ACCES, nfsstat3::NFS3ERR_PERM)) {
    return fmt::format(
        "the calls are those of user {} and group {}: let them read it (chmod, chown on the "
        "server), or, for root, add no_root_squash to the export",
        ::geteuid(), ::getegid());
  }
  if (is_one_of(nfsstat3::NFS3ERR_NOENT, nfsstat3::NFS3ERR_NOTDIR)) {
    return "the export is there; check the part of the URL behind its name";
  }
  if (why.status == nfsstat3::NFS3ERR_STALE) {
    return "the directory was replaced on the server: export it again, and mount anew";
  }
  return "the log of the server says more";
}

// Reads from the file, or says why that failed.
nfs::Result<std::uint64_t> read_some(Walk& walk, const nfs::Node& file) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(
      {std::max<std::uint64_t>(file.attributes.size, 1), kBytesToRead, walk.mounted->read_size()}));
  auto got = walk.mounted->wait_for(walk.mounted->read(file.handle, 0, buffer));
  if (!got) return Unexpected<nfs::Failure>(got.error());
  return std::uint64_t{got->count};
}

Finding has_read(const std::string& name, std::uint64_t count) {
  return Finding::ok(fmt::format("{} bytes of {}", count, escaped(name)));
}

Finding not_read(const std::string& name, nfs::Failure why) {
  if (why.path.empty()) why.path = name;
  return Finding::failed(printable(why.message()), read_remedy(why));
}

// Reads the first file of a directory that may be read.
Finding read_in(Walk& walk, const nfs::Node& directory, const std::string& path) {
  auto listed = walk.mounted->wait_for(walk.mounted->list(directory.handle, kNamesToTry));
  if (!listed) return not_read(path, listed.error());
  if (listed->size() > kNamesToTry) listed->resize(kNamesToTry);
  std::optional<std::pair<std::string, nfs::Failure>> first;
  for (const nfs::Listed& each : *listed) {
    auto node = each.node
                    ? nfs::Result<nfs::Node>(*each.node)
                    : walk.mounted->wait_for(walk.mounted->look_up(directory.handle, each.name));
    if (node && node->attributes.type != nfs3::ftype3::NF3REG) continue;
    const auto count = node ? read_some(walk, *node)
                            : nfs::Result<std::uint64_t>(Unexpected<nfs::Failure>(node.error()));
    if (count) return has_read(each.name, *count);
    if (!first) first.emplace(each.name, count.error());
    if (count.error().error) break;  // the connection, not the file
  }
  if (first) return not_read(first->first, first->second);
  return Finding::ok(
      fmt::format("{} names in {}, and no file to read", listed->size(), escaped(path)));
}

bool takes_mount_at(const Walk& walk, std::uint16_t port) {
  ClientOptions options = walk.options;
  options.auth = std::monostate();
  options.provider.setup_timeout_client =
      std::min(options.provider.setup_timeout_client, std::chrono::milliseconds(2'000));
  auto client =
      Client::connect(fmt::format("tcp://{}:{}", walk.url->servers.front().host, port), options);
  return client && call_null(*client, mount3::MOUNT_PROGRAM, mount3::MOUNT_V3).has_value();
}

// Sums the counters of a kind that rose.
std::string risen(const std::map<std::string, std::uint64_t>& before,
                  const std::map<std::string, std::uint64_t>& now) {
  std::string text;
  for (const auto& [name, value] : now) {
    const auto old = before.find(name);
    if (old == before.end() || value <= old->second) continue;
    text += fmt::format("{}{} +{}", text.empty() ? "" : ", ", name, value - old->second);
  }
  return text;
}

std::string not_zero(const std::map<std::string, std::uint64_t>& counters) {
  std::string text;
  for (const auto& [name, value] : counters) {
    if (value != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

}  // namespace

std::string losses_meanwhile(const Walk& walk) {
  if (!walk.uses_devices()) return {};
  return risen(walk.losses.lost, walk.machine.losses(walk.devices, walk.device_on_route).lost);
}

Finding check_mount(Walk& walk) {
  if (!walk.is_nfs) return Finding::skipped(kNoExport);
  walk.client.reset();  // a server may allow one connection alone
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  nfs::MountOptions options;
  options.client = walk.options;
  options.credential = own_credential(host.data());
  options.mount_port = walk.settings.nfs.mount_port;
  auto mounted = nfs::Mounted::open(*walk.url, std::move(options));
  if (!mounted) return not_mounted(walk, mounted.error());
  walk.mounted = std::move(*mounted);
  walk.mount_path = walk.url->path;
  return Finding::ok(fmt::format("{} may be mounted from {}; READ of {}, WRITE of {}",
                                 printable(walk.url->path), walk.own_address,
                                 size_text(walk.mounted->read_size()),
                                 size_text(walk.mounted->write_size())));
}

Finding check_read(Walk& walk) {
  if (!walk.is_nfs) return Finding::skipped(kNoExport);
  auto found = walk.mounted->wait_for(walk.mounted->look_up_path(walk.mounted->path()));
  if (!found) return not_read(walk.url->path, found.error());
  if (found->attributes.type == nfs3::ftype3::NF3DIR) return read_in(walk, *found, walk.url->path);
  // mount(8) takes no file.
  walk.mount_path.erase(std::max<std::size_t>(walk.mount_path.rfind('/'), 1));
  const auto count = read_some(walk, *found);
  return count ? has_read(walk.url->path, *count) : not_read(walk.url->path, count.error());
}

Finding check_counters(Walk& walk) {
  if (!walk.uses_devices()) {
    return Finding::skipped("only RDMA devices have such counters");
  }
  const LossCounters now = walk.machine.losses(walk.devices, walk.device_on_route);
  if (now.lost.empty() && now.marked.empty()) {
    return Finding::skipped(walk.devices.empty() ? "there is no RDMA device"
                                                 : "the devices have no counters of loss");
  }
  const std::string lost = losses_meanwhile(walk);
  const std::string marked = risen(walk.losses.marked, now.marked);
  if (!lost.empty()) {
    return Finding::failed(
        fmt::format("packets were lost meanwhile: {}", lost),
        "RoCE takes a network that loses nothing: turn priority flow control on for its class on "
        "both hosts and each switch (mlnx_qos), or ECN; look for a bad cable (ethtool -S, port_rcv_"
        "errors), and for an MTU that a switch does not carry");
  }
  if (!marked.empty()) {
    return Finding::warning(fmt::format("the network marked congestion meanwhile: {}", marked),
                            "another sender fills the same link; loss does not follow as long as "
                            "ECN and priority flow control hold");
  }
  const std::string past = not_zero(now.lost);
  return Finding::ok(past.empty() ? "no loss" : fmt::format("no loss now; before: {}", past));
}

void find_mount_lines(Walk& walk) {
  if (!walk.is_nfs || !walk.mounted) return;
  const nfs::NfsUrl::Server& server = walk.url->servers.front();
  MountLine line{
      .host = server.host, .path = walk.mount_path, .port = fmt::format("{}", server.port)};
  line.is_rdma = !walk.is_tcp();
  // nfsd has locks, and its mountd is known to rpcbind.
  line.has_locks = !walk.has_mount_beside;
  std::uint16_t mount_port = walk.settings.nfs.mount_port;
  if (walk.has_mount_beside && mount_port == 0) {
    if (walk.is_tcp()) {
      mount_port = server.port;
    } else if (takes_mount_at(walk, nfs::NfsUrl::kTcpPort)) {
      mount_port = nfs::NfsUrl::kTcpPort;
    }
  }
  if (mount_port != 0) line.mount_port = fmt::format("{}", mount_port);
  if (walk.has_mount_beside && mount_port == 0) {
    walk.mount_obstacles.emplace_back(
        "mount(8) asks MOUNT by TCP, and port 2049 of the server does not have it: add mountport= "
        "with the port that `rpcrdma serve` prints, and say it here by --mount-port");
  }
  if (const std::string& security = walk.settings.client.security; security != "sys") {
    line.security = security;
  }
  walk.mount_line = line.command();
  walk.fstab_line = line.fstab();
}

}  // namespace rpcrdma::tools::doctor
