#include "tools/serve_nfs.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "nfs/exports_file.h"
#include "tools/command.h"
#include "tools/mount_line.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kExportsFileMax = 16U << 20U;  // bytes
constexpr std::string_view kKeyName = "handle-key";

// Returns the directory in which a program keeps state that has to outlast it.
fs::path state_directory() {
  // A service keeps its key where systemd says, so that User= in its unit changes no key.
  if (const char* const given = std::getenv("STATE_DIRECTORY"); given != nullptr && *given == '/') {
    return std::string(given, std::strcspn(given, ":"));
  }
  if (::geteuid() == 0) return "/var/lib/rpcrdma";
  if (const char* const state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/') {
    return fs::path(state) / "rpcrdma";
  }
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? fs::path(home) / ".local/state/rpcrdma" : fs::path();
}

nfs::Export parsed(const std::string& text, StderrLog& log) {
  std::vector<std::string> warnings;
  auto made = nfs::parse_export(text, warnings);
  if (!made) fail(kUsage, fmt::format("--nfs {}: {}", text, made.error()));
  for (const std::string& warning : warnings) {
    log.write(LogKind::kSetting, fmt::format("--nfs {}: {}", text, warning));
  }
  return std::move(*made);
}

std::vector<nfs::Export> named_exports(const NfsOptions& options, StderrLog& log) {
  std::vector<nfs::Export> exports;
  for (const std::string& text : options.directories) exports.push_back(parsed(text, log));
  if (options.names.size() > exports.size()) {
    fail(kUsage, "--export names the export of the --nfs in front of it; there are more of them");
  }
  for (std::size_t i = 0; i < options.names.size(); ++i) {
    std::string name = options.names[i];
    if (!name.starts_with('/')) name.insert(name.begin(), '/');
    while (name.size() > 1 && name.ends_with('/')) name.pop_back();
    exports[i].name = std::move(name);
  }
  if (options.exports_file.empty()) return exports;
  const auto text = text_of_file(options.exports_file, kExportsFileMax);
  if (!text) fail(kUsage, fmt::format("--exports {}: {}", options.exports_file, text.error()));
  auto more = nfs::parse_exports(*text);
  if (!more) fail(kUsage, fmt::format("--exports {}, {}", options.exports_file, more.error()));
  if (more->exports.empty() && exports.empty()) {
    fail(kUsage, fmt::format("--exports {}: nothing is exported there", options.exports_file));
  }
  for (const std::string& warning : more->warnings) {
    log.write(LogKind::kSetting, fmt::format("--exports {}, {}", options.exports_file, warning));
  }
  std::move(more->exports.begin(), more->exports.end(), std::back_inserter(exports));
  return exports;
}

LogKind kind_of(nfs::Event event) {
  switch (event) {
    case nfs::Event::kMount:
      return LogKind::kMount;
    case nfs::Event::kMountRefused:
      return LogKind::kMountRefused;
    case nfs::Event::kCallDenied:
      return LogKind::kCallDenied;
    case nfs::Event::kMappedToNobody:
      return LogKind::kMappedToNobody;
    case nfs::Event::kFull:
      return LogKind::kFull;
    case nfs::Event::kStorageFailed:
      break;
  }
  return LogKind::kStorageFailed;
}

bool has_kerberos(const nfs::Export& made) {
  const auto is_kerberos = [](Protection each) { return each != Protection::kSys; };
  return std::ranges::any_of(made.clients, [&](const nfs::ExportClient& client) {
    return std::ranges::any_of(client.rules.security, is_kerberos);
  });
}

// "ADDR:PORT" in two; an IPv6 address keeps its brackets.
std::pair<std::string_view, std::string_view> split(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  return {address.substr(0, colon), address.substr(colon + 1)};
}

// Returns the host by which clients reach a server that listens on all addresses.
std::string host_to_name(std::string_view host) {
  if (host != "0.0.0.0" && host != "[::]") return std::string(host);
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "SERVER";
  return name.data();
}

// Returns the security that the export requires of a mount; empty: none.
std::string security_of(const nfs::Export& made) {
  if (made.clients.empty() || made.clients.front().rules.security.empty()) return {};
  const Protection first = made.clients.front().rules.security.front();
  return first == Protection::kSys ? std::string() : std::string(nfs::name_of(first));
}

}  // namespace

std::string planned_key_path(const NfsOptions& options) {
  if (!options.key_path.empty()) return options.key_path;
  const fs::path directory = state_directory();
  return directory.empty() ? std::string() : (directory / kKeyName).string();
}

std::string key_path(const NfsOptions& options, StderrLog& log) {
  if (!options.key_path.empty()) return options.key_path;
  const fs::path directory = state_directory();
  std::error_code error;
  if (!directory.empty()) fs::create_directories(directory, error);
  if (directory.empty() || error || ::access(directory.c_str(), W_OK | X_OK) != 0) {
    log.write(LogKind::kSetting,
              fmt::format("no place for the key of file handles ({}): after a restart clients have "
                          "to mount anew; name a file with --handle-key",
                          directory.empty() ? "HOME is not set" : directory.string()));
    return {};
  }
  return directory / kKeyName;
}

std::vector<nfs::Export> exports_of(const NfsOptions& options, StderrLog& log) {
  std::vector<nfs::Export> exports = named_exports(options, log);
  if (!options.is_read_only) return exports;
  for (nfs::Export& each : exports) {
    for (nfs::ExportClient& client : each.clients) client.rules.is_read_only = true;
  }
  return exports;
}

std::unique_ptr<nfs::Exporter> open_exports(std::vector<nfs::Export> exports,
                                            const NfsOptions& options, StderrLog& log) {
  nfs::ExporterOptions wanted;
  wanted.exports = std::move(exports);
  wanted.key_path = key_path(options, log);
  wanted.workers = options.workers;
  wanted.open_files_max = options.open_files_max;
  wanted.is_async = options.is_async;
  wanted.security = options.security;
  using nfs::posix::HandleKind;
  wanted.handles = options.handles == "kernel"  ? HandleKind::kKernel
                   : options.handles == "table" ? HandleKind::kTable
                                                : HandleKind::kAny;
  wanted.report = [&log](const std::string& what) { log.write(LogKind::kExportReport, what); };
  wanted.inform = [&log](const std::string& what) { log.write(LogKind::kExportNote, what); };
  wanted.report_event = [&log](nfs::Event event, const std::string& what) {
    log.write(kind_of(event), what);
  };
  auto exporter = nfs::Exporter::open(std::move(wanted));
  if (!exporter) fail(kUsage, exporter.error());
  for (const std::string& note : (*exporter)->notes()) log.write(LogKind::kSetting, note);
  return std::move(*exporter);
}

bool wants_kerberos(const std::vector<nfs::Export>& exports) {
  return std::ranges::any_of(exports, has_kerberos);
}

bool wants_kerberos(const nfs::Exporter& exporter) {
  return exporter.exports().read([](const nfs::ExportList& exports) {
    return std::ranges::any_of(exports.all(), has_kerberos, &nfs::ExportList::Entry::rules);
  });
}

bool takes_sys_alone(const std::vector<Protection>& allowed) {
  return allowed == std::vector<Protection>{Protection::kSys};
}

std::string nfs_urls(const nfs::Exporter& exporter, std::string_view address,
                     std::string_view plain) {
  std::string text;
  exporter.exports().read([&](const nfs::ExportList& exports) {
    for (const nfs::ExportList::Entry& each : exports.all()) {
      text += fmt::format(" nfs+rdma://{}{}", address, each.rules.name);
      if (!plain.empty()) text += fmt::format(" nfs+tcp://{}{}", plain, each.rules.name);
    }
  });
  return text;
}

std::string mount_commands(const nfs::Exporter& exporter, std::string_view address,
                           std::string_view plain) {
  std::string text;
  const auto [host, port] = split(address);
  if (plain.empty()) return text;
  const std::string server = host_to_name(host);
  const std::string_view mount_port = split(plain).second;
  exporter.exports().read([&, port = port](const nfs::ExportList& exports) {
    for (const nfs::ExportList::Entry& each : exports.all()) {
      const MountLine line{.host = server,
                           .path = each.rules.name,
                           .port = std::string(port),
                           .mount_port = std::string(mount_port),
                           .security = security_of(each.rules)};
      text += line.command() + "\n";
    }
  });
  return text;
}

}  // namespace rpcrdma::tools
