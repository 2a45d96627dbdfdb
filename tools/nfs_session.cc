// Connects commands to an export, and reports how that fails.
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <vector>

#include "blob.h"
#include "tools/nfs_commands.h"

namespace rpcrdma::tools {
namespace {

bool is_no_connection(Errc code) {
  return code == Errc::kUnreachable || code == Errc::kRefused || code == Errc::kTimedOut ||
         code == Errc::kConnectionLost || code == Errc::kUnknownHost;
}

// Options that would have no effect.
void refuse_idle_options(const ClientSettings& client, const NfsSettings& settings,
                         const nfs::NfsUrl& url) {
  if (!url.is_rdma && !settings.has_rdma) {
    client.common.refuse({"--capture"},
                         "connections over RDMA; nfs+tcp:// is plain TCP, which tcpdump records");
    client.common.refuse_rdma("RDMA, and nfs+tcp:// is plain TCP");
  }
  client.common.refuse({"--rpcbind-port", "--step-up"},
                       "URLs of the blob program, and this is one of NFS");
  client.common.refuse({"--program", "--version"}, "rdma:// URLs, and this is one of NFS");
  if (client.show_characteristics || !client.request.empty()) {
    fail(kUsage, fmt::format("{} is for rdma:// URLs; NFS is spoken in version 1 unless "
                             "--rpcrdma-version says more",
                             client.show_characteristics ? "--show-characteristics" : "--request"));
  }
}

bool has_program(Client& client, std::uint32_t program, std::uint32_t version) {
  auto call = client.prepare({program, version, 0});
  if (!call) return false;
  call->expect_results(0);
  return client.call(std::move(*call)).has_value();
}

// Ends the command if the server, which had no MOUNT for us, serves blobs in place of files by NFS.
void check_for_blobs(const ClientOptions& options, const nfs::NfsUrl& url) {
  if (!url.is_rdma) return;
  const std::string blob_url = url.transport_urls().front();
  ClientOptions once = options;
  once.reconnect.enabled = false;
  once.provider.capture_file.clear();  // it has what went before
  auto client = Client::connect(blob_url, once);
  const bool is_other = client && !has_program(*client, nfs3::NFS_PROGRAM, nfs3::NFS_V3) &&
                        has_program(*client, blob::BLOB_PROGRAM, blob::BLOB_V1);
  if (!is_other) return;
  fail(kFailed,
       fmt::format(
           "{}: no NFS is served there, but files of the blob program; its URL is {} (rpcrdma "
           "ls, get, put and rm)",
           url.text(), blob_url));
}

}  // namespace

AuthSys own_credential(std::string_view host) {
  AuthSys credential;
  credential.machine_name = host;
  credential.uid = ::geteuid();
  credential.gid = ::getegid();
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(std::min(static_cast<std::size_t>(std::max(0, count)), credential.gids.size()));
  std::ranges::copy(groups, credential.gids.begin());
  credential.gid_count = static_cast<std::uint32_t>(groups.size());
  return credential;
}

Error with_nfs_hint(Error error, Client& client) {
  // A file that is not there is not available either.
  const bool is_elsewhere = error.code == Errc::kNotAvailable &&
                            !has_program(client, blob::BLOB_PROGRAM, blob::BLOB_V1) &&
                            has_program(client, nfs3::NFS_PROGRAM, nfs3::NFS_V3);
  if (!is_elsewhere) return error;
  error.cause += fmt::format(
      "; it is an NFS server, whose URLs are nfs+rdma://{}/EXPORT[/PATH] (rpcrdma ls, "
      "cat, cp and others; ping --program {} --version {})",
      client.connection().peer_address, nfs3::NFS_PROGRAM, nfs3::NFS_V3);
  return error;
}

void NfsSettings::note(const std::vector<std::string>& urls) {
  has_rdma =
      std::ranges::any_of(urls, [](const auto& each) { return each.starts_with("nfs+rdma:"); });
}

void NfsSettings::add_mount_to(Command& command) {
  command.add({{"--mount-port",
                &mount_port,
                "NFS: where MOUNT is asked by TCP (default: at the port of the URL; if it is not "
                "there, where the server's rpcbind says)",
                {.hides_default = true}}});
}

void NfsSettings::add_to(Command& command) {
  add_mount_to(command);
  command.add({{"--connections",
                &connections,
                "NFS: connections to each server of the URL, for more throughput",
                {.range = {1, 16}}}});
}

void NfsSettings::add_entries_to(Command& command) {
  command.add({{"--entries-max",
                &entries_max,
                "files of a server, or of one directory by NFS, after which the server is taken to "
                "list without end",
                {.range = {std::uint64_t{1}, std::uint64_t{1} << 40U}}}});
}

nfs::NfsUrl parsed_nfs_url(const std::string& text) {
  auto url = nfs::parse_nfs_url(text);
  if (!url) fail(kUsage, url.error());
  return *url;
}

void LogOut::operator()(nfs::Mounted* mounted) const {
  // One that failed may have calls under way.
  if (std::uncaught_exceptions() == 0) mounted->connections().log_out();
  delete mounted;
}

MountedForCommand mount(ClientSettings& client, const NfsSettings& settings,
                        const std::string& url) {
  const nfs::NfsUrl parsed = parsed_nfs_url(url);
  refuse_idle_options(client, settings, parsed);
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  nfs::MountOptions options;
  options.client = client.client_options();
  options.credential = own_credential(host.data());
  options.connections = settings.connections;
  options.mount_port = settings.mount_port;
  options.entries_max = settings.entries_max;
  auto opened = nfs::Mounted::open(parsed, std::move(options));
  if (opened) {
    const Client* const first = (*opened)->connections().first_client();
    // cp says much else, and says nothing of what was not negotiated.
    const bool has_more = client.verbose == ClientSettings::Verbose::kAlsoMore;
    if (client.is_verbose && first != nullptr && (!has_more || first->connection().terms)) {
      say(terms_text(*first));
    }
    return MountedForCommand(opened->release());
  }
  const nfs::Failure& why = opened.error();
  if (why.error && why.error->code == Errc::kBadUrl) fail(kUsage, why.message());
  // With a path it is of MOUNT, and the server itself was reached.
  const bool is_without_mount = why.error && !why.path.empty() &&
                                is_no_connection(why.error->code) &&
                                why.error->code != Errc::kTimedOut;
  if (is_without_mount) check_for_blobs(client.client_options(), parsed);
  const bool is_nobody = why.error && is_no_connection(why.error->code);
  fail(is_nobody ? kNoConnection : kFailed, why.message());
}

std::uint32_t own_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

void fail(const nfs::Failure& why, const std::string& path, nfs::Mounted& server) {
  nfs::Failure said = why;
  if (said.path.empty()) said.path = path.empty() ? server.url().path : path;
  const bool is_lost =
      why.error && (why.error->code == Errc::kConnectionLost ||
                    (is_no_connection(why.error->code) && !server.connections().is_any_up()));
  fail(is_lost ? kNoConnection : kFailed, said.message());
}

}  // namespace rpcrdma::tools
