#include "tools/serve_watch.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "tools/command.h"
#include "tools/metrics.h"
#include "tools/numbers.h"
#include "tools/serve_signals.h"
#include "tools/tap_socket.h"

namespace rpcrdma::tools {
namespace {

struct Parsed {
  std::string host;
  std::uint16_t port = 0;
  std::string problem;  // empty: none
};

Parsed parse_place(const std::string& text) {
  Parsed parsed;
  const std::size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? kLoopback : text.substr(0, colon);
  std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  constexpr std::uint64_t kPortMax = 65535;
  if (!read_whole(port, {0, kPortMax}, false).empty() || port.empty()) {
    parsed.problem = fmt::format("takes [ADDR:]PORT with a port from 0 to 65535, not '{}'", text);
    return parsed;
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  in6_addr any{};
  if (::inet_pton(AF_INET, host.c_str(), &any) != 1 &&
      ::inet_pton(AF_INET6, host.c_str(), &any) != 1) {
    parsed.problem = fmt::format(
        "takes [ADDR:]PORT with a numeric address of this machine, such as 0.0.0.0:9100 or "
        "[::]:9100, not '{}'",
        text);
    return parsed;
  }
  parsed.host = host;
  parsed.port = static_cast<std::uint16_t>(std::stoul(port));
  return parsed;
}

}  // namespace

std::string problem_with_place(const std::string& text) {
  return parse_place(text).problem;
}

std::uint16_t port_of_metrics(const std::string& text) {
  return text.empty() ? 0 : parse_place(text).port;
}

std::string ServerFigures::text(bool with_connections) {
  constexpr std::chrono::milliseconds kAge{100};
  const std::lock_guard lock(mutex_);
  Latest& latest = latest_[with_connections ? 1 : 0];
  const auto now = std::chrono::steady_clock::now();
  if (latest.made_at && now - *latest.made_at < kAge) return latest.text;
  ProcessFigures process = ProcessFigures::read();
  process.provider = server_.provider_name();
  process.uptime_s = std::chrono::duration<double>(now - begun_).count();
  const auto errors = exporter_ != nullptr ? exporter_->errors() : std::vector<nfs::StatusCount>();
  latest = {metrics_text(server_.statistics(with_connections), process, errors), now};
  return latest.text;
}

ServeWatch::ServeWatch(const ServeOptions& options, const Server& server, nfs::Exporter* exporter,
                       Tap& tap, std::string tcp_address, StderrLog& log)
    : figures_(server, exporter), tap_(tap), tcp_address_(std::move(tcp_address)) {
  open_pages(options, server, exporter);
  open_sockets(options, log);
  if (socket_) open_live(std::string(server.address()), log);
}

void ServeWatch::open_pages(const ServeOptions& options, const Server& server,
                            nfs::Exporter* exporter) {
  const HttpPages::Page ready{
      "/ready", [exporter]() -> HttpPages::Answer {
        constexpr std::chrono::seconds kAnswerTime{2};
        std::string why;
        if (ServeSignals::is_stopping()) {
          why = "it is shutting down";
        } else if (exporter != nullptr) {
          why = exporter->readiness().why_not(kAnswerTime);
        }
        return {why.empty(), why.empty() ? "ready\n" : "not ready: " + why + "\n"};
      }};
  if (options.ready_port) {
    std::string_view host = server.address().substr(0, server.address().rfind(':'));
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    ready_ = HttpPages::open({std::string(host), *options.ready_port, "--ready-port"}, {ready});
    urls_.push_back(ready_->url() + "/ready");
  }
  if (options.metrics.empty()) return;
  const Parsed place = parse_place(options.metrics);
  const HttpPages::Page metrics{"/metrics",
                                [this]() -> HttpPages::Answer {
                                  return {true, figures_.text(false)};
                                },
                                kMetricsContentType};
  metrics_ = HttpPages::open({place.host, place.port, "--metrics"}, {ready, metrics});
  urls_.push_back(metrics_->url() + "/metrics");
}

// A server works without it, so that only a path that somebody asked for has to be right.
void ServeWatch::open_sockets(const ServeOptions& options, StderrLog& log) {
  std::string path = options.stat_socket;
  if (path == "none") return;
  if (path.empty()) {
    const std::string folder = own_stat_folder();
    if (folder.empty()) return;
    remove_stale_stat_sockets(folder);
    path = fmt::format("{}/{}.sock", folder, ::getpid());
  }
  try {
    socket_ = std::make_unique<StatSocket>(path, [this] { return figures_.text(true); });
  } catch (const std::system_error& error) {
    const std::string why =
        fmt::format("cannot listen at {} for `rpcrdma top`: {}", path, error.code().message());
    if (!options.stat_socket.empty()) fail(kFailed, why);
    log.write(LogKind::kSetting, why);
  }
}

void ServeWatch::open_live(const std::string& rdma_address, StderrLog& log) {
  const std::string path = live_socket_of(socket_->path());
  try {
    live_ = std::make_unique<StatSocket>(path, [this, rdma_address](int client, int ending) {
      serve_tap(tap_, rdma_address, tcp_address_, client, ending);
    });
  } catch (const std::system_error& error) {
    log.write(LogKind::kSetting, fmt::format("cannot listen at {} for `rpcrdma explain --pid`: {}",
                                             path, error.code().message()));
  }
}

}  // namespace rpcrdma::tools
