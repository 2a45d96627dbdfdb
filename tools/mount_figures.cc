#include "tools/mount_figures.h"

#include <fmt/format.h>

#include <chrono>
#include <iterator>

#include "rpcrdma/version.h"

namespace rpcrdma::tools {
namespace {

std::string quoted(const std::string& text) {
  std::string made = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') made += '\\';
    made += each == '\n' ? ' ' : each;
  }
  return made + "\"";
}

}  // namespace

std::string mount_figures(const mounts::Session& session, const std::string& url,
                          const std::string& directory) {
  const mounts::Snapshot now = session.snapshot();
  const mounts::Statistics& counted = now.statistics;
  std::string text = fmt::format("rpcrdma_mount_info{{version={},url={},directory={}}} 1\n",
                                 quoted(kLibraryVersion), quoted(url), quoted(directory));
  const auto add = [&](const char* name, auto value) {
    fmt::format_to(std::back_inserter(text), "rpcrdma_mount_{} {}\n", name, value);
  };
  add("uptime_seconds", std::chrono::duration<double>(now.up).count());
  add("requests_total", now.requests);
  add("requests_waiting", now.waiting);
  add("requests_timed_out_total", now.timed_out);
  add("requests_interrupted_total", now.interrupted);
  add("read_bytes_total", counted.bytes_read);
  add("written_bytes_total", counted.bytes_written);
  add("read_ahead_bytes_total", counted.bytes_read_ahead);
  add("read_in_vain_bytes_total", counted.bytes_in_vain);
  add("written_twice_bytes_total", counted.bytes_written_twice);
  add("commits_total", counted.commits);
  add("attributes_cached_total", counted.attributes_cached);
  add("attributes_asked_total", counted.attributes_asked);
  add("names_cached_total", counted.names_cached);
  add("names_asked_total", counted.names_asked);
  add("names_forgotten_total", counted.names_forgotten);
  add("connections", now.connections);
  add("connections_up", now.connections_up);
  add("open_files", now.open_files);
  add("dirty_files", now.dirty_files);
  add("memory_in_use_bytes", now.memory_in_use);
  add("memory_limit_bytes", now.memory_limit);
  add("nodes", now.nodes);
  add("nodes_most", now.nodes_most);
  add("nodes_limit", now.nodes_limit);
  return text;
}

}  // namespace rpcrdma::tools
