#include "tools/top_mount.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "tools/command.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

std::string size_of(const Figures& figures, std::string_view name) {
  return size_text(static_cast<std::uint64_t>(figures.sum(name)));
}

std::string label(const Figures& figures, const char* name) {
  const Figure* const info = figures.first("mount_info");
  return info != nullptr ? std::string(info->label(name)) : std::string();
}

// The share of questions that needed no call, in percent.
std::string share(const Figures& before, const Figures& now, const std::string& what) {
  const auto since = [&](const std::string& name) { return now.sum(name) - before.sum(name); };
  const double cached = since("mount_" + what + "_cached_total");
  const double all = cached + since("mount_" + what + "_asked_total");
  return all > 0 ? fmt::format("{:.0f} %", 100 * cached / all) : std::string("-");
}

const char* state_of(const Figures& figures) {
  if (figures.sum("mount_connections_up") == 0) return "no server answers";
  return figures.sum("mount_requests_waiting") > 0 ? "at work" : "idle";
}

}  // namespace

bool is_of_mount(const Figures& figures) {
  return figures.first("mount_info") != nullptr;
}

std::string mount_table(const Figures& before, const Figures& now, double seconds) {
  const auto rate = [&](std::string_view name) {
    return std::max(0.0, now.sum(name) - before.sum(name)) / seconds;
  };
  const auto bytes = [&](std::string_view name) {
    return size_text(static_cast<std::uint64_t>(rate(name))) + "/s";
  };
  const auto up = static_cast<std::uint64_t>(now.sum("mount_uptime_seconds"));
  std::string text = fmt::format(
      "rpcrdma {} mount of {} at {}, up {}:{:02}:{:02}: {}\n"
      "{:.0f} requests/s, {} read, {} written; {:.0f} wait; timed out: {:.0f}, interrupted: "
      "{:.0f}\n",
      printable(label(now, "version")), printable(label(now, "url")),
      printable(label(now, "directory")), up / 3600, up / 60 % 60, up % 60, state_of(now),
      rate("mount_requests_total"), bytes("mount_read_bytes_total"),
      bytes("mount_written_bytes_total"), now.sum("mount_requests_waiting"),
      now.sum("mount_requests_timed_out_total"), now.sum("mount_requests_interrupted_total"));
  text += fmt::format(
      "connections: {:.0f} of {:.0f} up; files open: {:.0f}, with bytes that the server may lose: "
      "{:.0f}\n",
      now.sum("mount_connections_up"), now.sum("mount_connections"), now.sum("mount_open_files"),
      now.sum("mount_dirty_files"));
  text += fmt::format(
      "memory: {} of {} in use; in mind: {:.0f} of {:.0f} files and directories, {:.0f} at most\n",
      size_of(now, "mount_memory_in_use_bytes"), size_of(now, "mount_memory_limit_bytes"),
      now.sum("mount_nodes"), now.sum("mount_nodes_limit"), now.sum("mount_nodes_most"));
  text += fmt::format(
      "from memory: attributes {}, names {}; read ahead {}, {} in vain; written twice {}\n",
      share(before, now, "attributes"), share(before, now, "names"),
      bytes("mount_read_ahead_bytes_total"), bytes("mount_read_in_vain_bytes_total"),
      size_of(now, "mount_written_twice_bytes_total"));
  return text;
}

Json mount_json(const Figures& before, const Figures& now, double seconds) {
  Json mount = {
      {"url", label(now, "url")}, {"directory", label(now, "directory")}, {"state", state_of(now)}};
  for (const Figure& each : now.all()) {
    constexpr std::string_view kPrefix = "mount_", kCounter = "_total";
    if (!each.name.starts_with(kPrefix) || each.name == "mount_info") continue;
    std::string name = each.name.substr(kPrefix.size());
    if (!name.ends_with(kCounter)) {
      mount.set(name, each.value);
      continue;
    }
    mount.set(name, each.value);
    name.resize(name.size() - kCounter.size());
    mount.set(name + "_per_s", std::max(0.0, each.value - before.sum(each.name)) / seconds);
  }
  return {{"mount", mount}};
}

}  // namespace rpcrdma::tools
