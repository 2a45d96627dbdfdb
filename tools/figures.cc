#include "tools/figures.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "tools/command.h"
#include "tools/stat_socket.h"

namespace rpcrdma::tools {
namespace {

constexpr std::string_view kPrefix = "rpcrdma_";

// Reads {LABEL="VALUE",…} and moves `line` behind it. Returns false if it is malformed.
bool read_labels(std::string_view& line, std::map<std::string, std::string>& labels) {
  line.remove_prefix(1);
  while (!line.starts_with('}')) {
    const std::size_t end = line.find("=\"");
    if (end == std::string_view::npos) return false;
    std::string& value = labels[std::string(line.substr(0, end))];
    line.remove_prefix(end + 2);
    while (!line.starts_with('"')) {
      if (line.starts_with('\\')) line.remove_prefix(1);
      if (line.empty()) return false;
      value += line.front();
      line.remove_prefix(1);
    }
    line.remove_prefix(1);
    if (line.starts_with(',')) line.remove_prefix(1);
    if (line.empty()) return false;
  }
  line.remove_prefix(1);
  return true;
}

std::optional<Figure> read_line(std::string_view line) {
  if (!line.starts_with(kPrefix)) return std::nullopt;
  line.remove_prefix(kPrefix.size());
  Figure figure;
  const std::size_t end = line.find_first_of("{ ");
  if (end == std::string_view::npos) return std::nullopt;
  figure.name = line.substr(0, end);
  line.remove_prefix(end);
  if (line.starts_with('{') && !read_labels(line, figure.labels)) return std::nullopt;
  figure.value = std::strtod(std::string(line).c_str(), nullptr);
  return figure;
}

bool is_number(const std::string& text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char each) { return each >= '0' && each <= '9'; });
}

}  // namespace

std::string_view Figure::label(const std::string& of) const {
  const auto found = labels.find(of);
  return found == labels.end() ? std::string_view() : std::string_view(found->second);
}

Spread Spread::since(const Spread& before) const {
  Spread difference;
  for (const auto& [bound, count] : below_) {
    const auto found = before.below_.find(bound);
    difference.below_[bound] = count - (found == before.below_.end() ? 0 : found->second);
  }
  return difference;
}

double Spread::quantile(double share) const {
  const double wanted = share * count();
  double low = 0, before = 0;
  for (const auto& [bound, below] : below_) {
    if (below > before && below >= wanted) {
      if (std::isinf(bound)) return low;
      return low + (bound - low) * std::max(0.0, wanted - before) / (below - before);
    }
    low = bound;
    before = below;
  }
  return 0;
}

Figures::Figures(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (auto figure = read_line(text.substr(0, end))) all_.push_back(std::move(*figure));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (all_.empty()) {
    fail(kFailed,
         "this socket says nothing of an rpcrdma server: it is another program's, or that "
         "server is ending");
  }
}

double Figures::sum(std::string_view name) const {
  double sum = 0;
  for (const Figure& each : all_) sum += each.name == name ? each.value : 0;
  return sum;
}

Figures Figures::before(const Figures& now, double seconds) const {
  constexpr double kInexact = 1;  // the clocks of both sides, and whole seconds
  const bool is_anew = now.sum("uptime_seconds") + kInexact < sum("uptime_seconds") + seconds;
  return first("uptime_seconds") != nullptr && is_anew ? Figures() : *this;
}

const Figure* Figures::first(std::string_view name) const {
  const auto found = std::ranges::find(all_, name, &Figure::name);
  return found == all_.end() ? nullptr : &*found;
}

Spread Figures::spread(std::string_view name, const std::string& label,
                       std::string_view value) const {
  const std::string bucket = std::string(name) + "_bucket";
  Spread spread;
  for (const Figure& each : all_) {
    if (each.name != bucket || (!label.empty() && each.label(label) != value)) continue;
    spread.add(std::strtod(std::string(each.label("le")).c_str(), nullptr), each.value);
  }
  return spread;
}

namespace {

// "/mnt/" as completion writes it is "/mnt".
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// Returns the socket of the mount of a process, or at a directory; empty: there is none. It does
// not look at the directory, which may belong to a server that is gone.
std::string mount_socket_of(const std::string& name) {
  const std::string directory = without_slash(std::filesystem::absolute(name).lexically_normal());
  for (const std::string& path : all_mount_sockets()) {
    if (path.ends_with("/" + name + kMountSocket)) return path;
    if (is_number(name) || name.ends_with(".sock")) continue;
    try {
      const std::string text = read_stat_socket(path);
      if (text.empty()) continue;  // it is ending
      const Figures figures(text);
      const Figure* const info = figures.first("mount_info");
      if (info != nullptr && without_slash(std::string(info->label("directory"))) == directory) {
        return path;
      }
    } catch (const std::system_error&) {
      continue;  // its process is gone
    }
  }
  return {};
}

}  // namespace

std::string stat_socket_of(const std::string& server) {
  const std::string of_mount = server.empty() ? server : mount_socket_of(server);
  if (!of_mount.empty()) return of_mount;
  if (!server.empty() && !is_number(server)) return server;
  std::vector<std::string> found = all_stat_sockets();
  if (!server.empty()) {
    const std::string name = "/" + server + ".sock";
    std::erase_if(found, [&name](const std::string& path) { return !path.ends_with(name); });
    if (!found.empty()) return found.front();
    fail(kFailed, fmt::format("process {} has no socket for its figures: `rpcrdma serve` makes one "
                              "in /run/rpcrdma, or of a user in $XDG_RUNTIME_DIR/rpcrdma, unless "
                              "--stat-socket says otherwise; then name its path",
                              server));
  }
  // A server that was killed leaves its socket behind.
  std::erase_if(found, [](const std::string& path) {
    try {
      (void)read_stat_socket(path);
      return false;
    } catch (const std::system_error& error) {
      return error.code().value() == ECONNREFUSED;
    }
  });
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    fail(kFailed,
         "no `rpcrdma serve` of this user runs here: name its process or its socket "
         "(--stat-socket), or be root to see those of other users");
  }
  std::string all;
  for (const std::string& path : found) all += "\n  " + path;
  fail(kUsage, "several servers run here; name one of these sockets, or its process:" + all);
}

Figures Figures::of(const std::string& server) {
  return *of(server, -1);
}

std::optional<Figures> Figures::of(const std::string& server, int stop) {
  const std::string path = stat_socket_of(server);
  try {
    const std::string text = read_stat_socket(path, stop);
    pollfd entry{stop, POLLIN, 0};
    if (stop >= 0 && ::poll(&entry, 1, 0) > 0) return std::nullopt;
    return Figures(text);
  } catch (const std::system_error& error) {
    const int code = error.code().value();
    const char* const remedy = code == EACCES         ? "; only the server's user and root may ask"
                               : code == ECONNREFUSED ? "; its server has ended"
                                                      : "";
    fail(kNoConnection,
         fmt::format("cannot ask at {}: {}{}", path, error.code().message(), remedy));
  }
}

}  // namespace rpcrdma::tools
