#include "tools/serve_check.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "nfs/export_table.h"
#include "nfs/handle_seal.h"
#include "nfs/plug_in.h"
#include "tools/serve_descriptors.h"
#include "tools/serve_nfs.h"
#include "tools/serve_security.h"
#include "tools/serve_user.h"
#include "tools/serve_watch.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kNobody = 65534;
constexpr double kTimeoutStop_s = 120;  // of packaging/systemd/rpcrdma.service.in
constexpr double kAfterDrain_s = 90;    // for disks that hang, and for what else ends then

bool is_here(const nfs::Export& made) {
  std::string path;
  return nfs::back_end_of(made.directory, path).empty();
}

// Ends the command if something that serving needs is not there.
void check_directories(const ServeOptions& options, const std::vector<nfs::Export>& exports) {
  const auto check = [](const std::string& option, const std::string& directory, int access) {
    struct stat status {};
    const bool is_there = ::stat(directory.c_str(), &status) == 0;
    if (is_there && !S_ISDIR(status.st_mode)) {
      fail(kUsage, fmt::format("{} {}: this is no directory", option, directory));
    }
    if (!is_there || ::access(directory.c_str(), access) != 0) {
      fail(kUsage, fmt::format("{} {}: {}", option, directory, std::strerror(errno)));
    }
  };
  for (const nfs::Export& each : exports) {
    if (is_here(each)) check("--nfs", each.directory, R_OK | X_OK);
  }
  const std::string& blobs = options.directory;
  if (blobs.empty()) return;
  std::error_code error;
  if (fs::exists(blobs, error) || options.read_only) {
    return check("--blob", blobs, options.read_only ? R_OK | X_OK : R_OK | W_OK | X_OK);
  }
  fs::path above = fs::path(blobs).parent_path();  // in which serving makes it
  if (above.empty()) above = ".";
  check("--blob", above, W_OK | X_OK);
}

// Ends the command if the key of file handles is there and cannot be used.
void check_key(const NfsOptions& options) {
  const std::string path = planned_key_path(options);
  if (path.empty()) return;
  if (const auto key = nfs::HandleKey::read(path); !key) fail(kUsage, key.error());
}

// Loads them, which says what is not installed, and opens nothing.
void check_back_ends(const std::vector<nfs::Export>& exports) {
  for (const nfs::Export& each : exports) {
    std::string path;
    const std::string name = nfs::back_end_of(each.directory, path);
    if (name.empty()) continue;
    if (const auto loaded = nfs::load_back_end(name); !loaded) {
      fail(kUsage, fmt::format("--nfs {}: {}", each.directory, loaded.error()));
    }
  }
}

std::string rules_text(const nfs::ExportRules& rules) {
  using Squash = nfs::ExportRules::Squash;
  std::string text = rules.is_read_only ? "ro" : "rw";
  text += rules.squash == Squash::kRoot  ? ",root_squash"
          : rules.squash == Squash::kAll ? ",all_squash"
                                         : ",no_root_squash";
  if (rules.anonymous_uid != kNobody) text += fmt::format(",anonuid={}", rules.anonymous_uid);
  if (rules.anonymous_gid != kNobody) text += fmt::format(",anongid={}", rules.anonymous_gid);
  if (rules.wants_privileged_port) text += ",secure";
  std::vector<std::string_view> flavors;
  for (const Protection each : rules.security) flavors.push_back(nfs::name_of(each));
  if (!flavors.empty()) text += fmt::format(",sec={}", fmt::join(flavors, ":"));
  return text;
}

Json exports_json(const std::vector<nfs::Export>& exports) {
  Json all = Json::array();
  for (const nfs::Export& each : exports) {
    Json clients = Json::array();
    for (const nfs::ExportClient& client : each.clients) {
      clients.push_back({{"client", client.text}, {"options", rules_text(client.rules)}});
    }
    all.push_back({{"name", each.name}, {"directory", each.directory}, {"clients", clients}});
  }
  return all;
}

void print_check(const ServeOptions& options, const std::vector<nfs::Export>& exports) {
  if (options.common.json) {
    Json made = Json::ordered_object();
    made.set("settings", Json::array(options.common.command->given()));
    made.set("exports", exports_json(exports));
    return print_json(made);
  }
  fmt::print("These settings can be served:\n");
  for (const std::string& each : options.common.command->given()) {
    if (each != "--check") fmt::print("  {}\n", printable(each));
  }
  fmt::print("It would listen on {} port {}\n", options.listen, options.port);
  if (!options.directory.empty()) fmt::print("  for blobs of {}\n", printable(options.directory));
  for (const nfs::Export& each : exports) {
    fmt::print("  for NFS of {}, by the name {}\n", printable(each.directory),
               printable(each.name));
    for (const nfs::ExportClient& client : each.clients) {
      fmt::print("    {}({})\n", printable(client.text), rules_text(client.rules));
    }
  }
}

// Returns a path as a unit file has it.
std::string unit_path(const std::string& path) {
  std::string text;
  for (const char letter : fs::absolute(path).lexically_normal().string()) {
    if (letter == '%') text += '%';
    if (letter == '"' || letter == '\\') text += '\\';
    text += letter;
  }
  return "\"" + text + "\"";
}

// A path that the service uses.
struct UnitPath {
  std::string text;  // as it was given
  fs::path real;     // without links, as systemd mounts it
  bool is_read_only;
};

// Returns whether `path` is `top`, or lies below it.
bool is_within(const fs::path& path, const fs::path& top) {
  return std::ranges::mismatch(top, path).in1 == top.end();
}

// Returns the files that serving makes, in folders that the unit has to let it write to.
std::vector<std::string> files_of(const ServeOptions& options) {
  std::vector<std::string> files{options.nfs.key_path, options.common.provider.capture_file};
  if (options.stat_socket != "none") files.push_back(options.stat_socket);
  std::erase(files, std::string());
  return files;
}

// The paths that the settings name. Nothing is left of those that are read-only at one place and
// writable at another: what the unit forbids, no rule of an export could allow again. A writable
// path below one that is read-only stays, since the inner one of two mounts decides.
std::vector<UnitPath> unit_paths(const ServeOptions& options,
                                 const std::vector<nfs::Export>& exports) {
  std::vector<UnitPath> paths, kept;
  const auto add = [&paths](const std::string& directory, bool is_read_only) {
    const auto is_control = [](char letter) {
      return std::iscntrl(static_cast<unsigned char>(letter));
    };
    if (std::ranges::any_of(directory, is_control)) {
      fail(kUsage, fmt::format("{}: a unit has no way to name it", printable(directory)));
    }
    fs::path path = fs::absolute(directory).lexically_normal();
    std::error_code error;  // of a path that cannot be looked at, which stays as it is
    fs::path real = fs::weakly_canonical(path, error);
    if (error) real = path;
    if (!real.has_filename()) real = real.parent_path();  // of "/srv/"
    paths.push_back({directory, std::move(real), is_read_only});
  };
  if (!options.directory.empty()) add(options.directory, options.read_only);
  for (const nfs::Export& each : exports) {
    const bool is_read_only = std::ranges::all_of(
        each.clients, [](const nfs::ExportClient& client) { return client.rules.is_read_only; });
    if (is_here(each)) add(each.directory, is_read_only);
  }
  for (const std::string& each : files_of(options)) {
    const fs::path folder = fs::absolute(each).lexically_normal().parent_path();
    if (!is_folder_of_unit(folder)) add(folder, false);
  }
  for (const UnitPath& each : paths) {
    const bool is_writable =
        each.is_read_only && std::ranges::any_of(paths, [&](const UnitPath& by) {
          return !by.is_read_only && is_within(each.real, by.real);
        });
    const bool is_there = std::ranges::any_of(kept, [&](const UnitPath& by) {
      return by.real == each.real && by.is_read_only == each.is_read_only;
    });
    if (!is_writable && !is_there) kept.push_back(each);
  }
  std::ranges::stable_sort(kept, std::ranges::greater(), &UnitPath::is_read_only);
  return kept;
}

bool has_privileged_port(const ServeOptions& options) {
  const auto ports = {options.port, options.tcp_port.value_or(0), options.nfs.tcp_port.value_or(0),
                      options.ready_port.value_or(0), port_of_metrics(options.metrics)};
  return std::ranges::any_of(ports, [](std::uint16_t port) { return port != 0 && port < 1024; });
}

// Prints the lines as a comment if the service would not start with them, or deny what its rules
// allow.
void print_user(const ServeOptions& options, const std::vector<nfs::Export>& exports) {
  const auto obstacles = obstacles_to_user(options, exports);
  if (!obstacles) return;  // it acts as the caller of each call
  const char* const begin = obstacles->empty() ? "" : "# ";
  if (!obstacles->empty()) {
    fmt::print("# These settings need no root, but the user rpcrdma cannot serve them yet.\n# {}\n",
               fmt::join(*obstacles, "\n# "));
    fmt::print("# These lines are for when that is mended:\n");
  }
  fmt::print("{}User=rpcrdma\n{}Group=rpcrdma\n", begin, begin);
  if (has_privileged_port(options)) {
    fmt::print("{}AmbientCapabilities=CAP_NET_BIND_SERVICE\n", begin);
  }
}

bool has_path_in(const std::vector<UnitPath>& paths, std::initializer_list<const char*> folders) {
  return std::ranges::any_of(paths, [folders](const UnitPath& each) {
    return std::ranges::any_of(
        folders, [&each](const char* folder) { return is_within(each.real, folder); });
  });
}

void print_unit(const ServeOptions& options, const std::vector<nfs::Export>& exports) {
  const std::vector<UnitPath> paths = unit_paths(options, exports);
  fmt::print(
      "# Made by `rpcrdma serve --check --unit`: make it again when the directories change.\n"
      "[Service]\n");
  for (const UnitPath& each : paths) {
    // With the dash, a directory that serving makes below /var/lib/rpcrdma needs not be there yet.
    fmt::print("{}=-{}\n", each.is_read_only ? "ReadOnlyPaths" : "ReadWritePaths",
               unit_path(each.text));
  }
  if (has_path_in(paths, {"/home", "/root", "/run/user"})) fmt::print("ProtectHome=no\n");
  if (has_path_in(paths, {"/tmp", "/var/tmp"})) fmt::print("PrivateTmp=no\n");
  // Until systemd kills the service, calls have the drain, and then disks their minute.
  const double stop_s = std::ceil(options.drain_s + kAfterDrain_s);
  if (stop_s > kTimeoutStop_s) fmt::print("TimeoutStopSec={:.0f}\n", stop_s);
  print_user(options, exports);
}

}  // namespace

void check_serving(const ServeOptions& options, StderrLog& log) {
  std::vector<nfs::Export> exports;
  if (options.nfs.is_wanted()) exports = exports_of(options.nfs, log);
  if (const std::string problem = nfs::problem_with_names(exports); !problem.empty()) {
    fail(kUsage, problem);
  }
  check_directories(options, exports);
  if (options.nfs.is_wanted()) check_key(options.nfs);
  check_back_ends(exports);
  (void)kerberos_for(options, wants_kerberos(exports));
  check_descriptors(options, exports.size());
  if (options.prints_unit) return print_unit(options, exports);
  print_check(options, exports);
}

}  // namespace rpcrdma::tools
