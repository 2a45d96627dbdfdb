#include "tools/serve_user.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "nfs/plug_in.h"
#include "tools/serve_nfs.h"
#include "tools/serve_rights.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUser = "rpcrdma";

constexpr std::uint32_t kNobody = 65534;

// A file or directory of the settings, and the rights that the service needs there.
struct Need {
  fs::path path;
  int rights;
  fs::path made{};  // which serving makes there, if it is no directory of its own
  bool makes_directory = false;
};

std::optional<ServiceUser> find_user() {
  const passwd* const entry = ::getpwnam(kUser);
  if (entry == nullptr) return std::nullopt;
  ServiceUser user{entry->pw_uid, {}};
  const gid_t own = entry->pw_gid;
  int count = 64;
  user.groups.resize(static_cast<std::size_t>(count));
  if (::getgrouplist(kUser, own, user.groups.data(), &count) < 0) {
    user.groups.resize(static_cast<std::size_t>(count));
    ::getgrouplist(kUser, own, user.groups.data(), &count);
  }
  user.groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  return user;
}

bool may_use(const ServiceUser& user, const fs::path& path, int rights) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 &&
         has_rights(user, {status.st_uid, status.st_gid, status.st_mode}, rights);
}

// Returns the command that gives the rights. Keys are secrets, and get an owner for that reason. A
// folder in which something is to be made may be the system's, as /etc is, and stays as it is.
std::string remedy_for(const Need& need, bool is_directory) {
  const std::string made = printable(need.made.string());
  if (need.makes_directory) return fmt::format("install -d -o rpcrdma -g rpcrdma \"{}\"", made);
  if (!need.made.empty()) {
    return fmt::format(
        "give \"{}\" another place, below /var/lib/rpcrdma or (a socket) /run/rpcrdma", made);
  }
  const bool is_owners = (need.rights & W_OK) != 0 || !is_directory;
  const char* const command = is_owners ? "chown" : "chmod";
  const char* const value = is_owners ? "rpcrdma:" : "o+rX";
  return fmt::format("{}{} {} \"{}\"", command, is_directory ? " -R" : "", value,
                     printable(need.path.string()));
}

// Returns a sentence about the first directory or file on the way that the user may not use; empty:
// it may use all of them.
std::string obstacle_at(const ServiceUser& user, const Need& need) {
  std::error_code error;  // of a path that cannot be looked at, which is judged as it is
  fs::path real = fs::weakly_canonical(fs::absolute(need.path), error);
  if (error) real = fs::absolute(need.path).lexically_normal();
  if (!real.has_filename()) real = real.parent_path();
  if (is_folder_of_unit(real)) return {};
  fs::path above;
  for (const fs::path& part : real.parent_path()) {
    above /= part;
    if (may_use(user, above, X_OK)) continue;
    const std::string name = printable(above.string());
    return fmt::format("It may not use \"{}\": chmod o+x \"{}\".", name, name);
  }
  if (may_use(user, real, need.rights)) return {};
  return fmt::format("It may not use \"{}\": {}.", printable(need.path.string()),
                     remedy_for(need, fs::is_directory(real, error)));
}

// Something that is not there is made in the folder above it.
Need need_of_new(const fs::path& path, int rights, bool is_directory) {
  std::error_code error;
  if (fs::exists(path, error)) return {path, rights};
  return {fs::absolute(path).parent_path(), W_OK | X_OK, path, is_directory};
}

std::vector<Need> needs_of(const ServeOptions& options, const std::vector<nfs::Export>& exports) {
  constexpr int kRead = R_OK | X_OK, kWrite = kRead | W_OK;
  std::vector<Need> needs;
  if (!options.directory.empty()) {
    needs.push_back(need_of_new(options.directory, options.read_only ? kRead : kWrite, true));
  }
  for (const nfs::Export& each : exports) {
    const bool is_read_only = std::ranges::all_of(
        each.clients, [](const nfs::ExportClient& client) { return client.rules.is_read_only; });
    std::string path;
    if (!nfs::back_end_of(each.directory, path).empty()) continue;
    needs.push_back({each.directory, is_read_only ? kRead : kWrite});
  }
  if (!options.nfs.key_path.empty())
    needs.push_back(need_of_new(options.nfs.key_path, R_OK, false));
  const std::string& capture = options.common.provider.capture_file;
  if (!capture.empty()) needs.push_back(need_of_new(capture, W_OK, false));
  // A socket is made anew each time.
  const std::string& socket = options.stat_socket;
  if (!socket.empty() && socket != "none") {
    needs.push_back({fs::absolute(socket).parent_path(), W_OK | X_OK, socket});
  }
  if (!options.keytab.empty()) needs.push_back({options.keytab, R_OK});
  return needs;
}

bool squashes_to_nobody(const nfs::ExportRules& rules) {
  return rules.anonymous_uid == kNobody && rules.anonymous_gid == kNobody;
}

bool squashes_to_user(const nfs::ExportRules& rules, const std::optional<ServiceUser>& user) {
  return user && rules.anonymous_uid == user->uid &&
         std::ranges::count(user->groups, rules.anonymous_gid) > 0;
}

// Without root all clients of an export are one user, who is nobody or the service's own.
bool needs_root(const ServeOptions& options, const std::vector<nfs::Export>& exports,
                const std::optional<ServiceUser>& user) {
  if (options.nfs.handles == "kernel") return true;
  return std::ranges::any_of(exports, [&user](const nfs::Export& made) {
    return std::ranges::any_of(made.clients, [&user](const nfs::ExportClient& client) {
      return client.rules.squash != nfs::ExportRules::Squash::kAll ||
             (!squashes_to_nobody(client.rules) && !squashes_to_user(client.rules, user));
    });
  });
}

// Files that the service makes are its user's. The server looks at the mode before the kernel does,
// and would deny nobody the next write to them.
std::string obstacle_to_writers(const ServiceUser& user, const nfs::Export& made) {
  for (const nfs::ExportClient& client : made.clients) {
    if (client.rules.is_read_only || squashes_to_user(client.rules, user)) continue;
    return fmt::format(
        "Clients write to \"{}\" as user {}, who has no right to what the user rpcrdma makes: "
        "export "
        "it with anonuid={},anongid={}.",
        printable(made.directory), client.rules.anonymous_uid, user.uid, user.groups.front());
  }
  return {};
}

bool uses_ceph(const std::vector<nfs::Export>& exports) {
  return std::ranges::any_of(exports, [](const nfs::Export& each) {
    std::string path;
    return !nfs::back_end_of(each.directory, path).empty();
  });
}

}  // namespace

bool is_folder_of_unit(const fs::path& real) {
  const std::array<fs::path, 2> folders{"/var/lib/rpcrdma", "/run/rpcrdma"};
  return std::ranges::any_of(folders, [&real](const fs::path& folder) {
    return std::ranges::mismatch(folder, real).in1 == folder.end();
  });
}

std::optional<std::vector<std::string>> obstacles_to_user(const ServeOptions& options,
                                                          const std::vector<nfs::Export>& exports) {
  const std::optional<ServiceUser> user = find_user();
  if (needs_root(options, exports, user)) return std::nullopt;
  std::vector<std::string> obstacles;
  const auto add = [&obstacles](std::string obstacle) {
    if (obstacle.empty() || std::ranges::count(obstacles, obstacle) > 0) return;
    obstacles.push_back(std::move(obstacle));
  };
  const bool is_kerberos = wants_kerberos(exports) || !takes_sys_alone(options.nfs.security);
  if (is_kerberos && options.keytab.empty()) {
    add("Kerberos needs its keytab, which is root's: name one with --keytab, and chown it.");
  }
  if (uses_ceph(exports)) add("CephFS needs its keyring, which is root's: chown it.");
  if (!user) {
    add("Here there is no user rpcrdma: systemd-sysusers makes it.");
    return obstacles;
  }
  for (const nfs::Export& each : exports) add(obstacle_to_writers(*user, each));
  for (const Need& each : needs_of(options, exports)) add(obstacle_at(*user, each));
  return obstacles;
}

}  // namespace rpcrdma::tools
