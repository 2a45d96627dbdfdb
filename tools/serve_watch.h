// How a running `rpcrdma serve` is watched: its pages by HTTP, and its socket for `rpcrdma top`.
#ifndef RPCRDMA_TOOLS_SERVE_WATCH_H_
#define RPCRDMA_TOOLS_SERVE_WATCH_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nfs/exporter.h"
#include "rpcrdma/server.h"
#include "rpcrdma/tap.h"
#include "tools/http_pages.h"
#include "tools/log.h"
#include "tools/serve_options.h"
#include "tools/stat_socket.h"

namespace rpcrdma::tools {

// Gives the figures of a server as text, on any thread. It asks the server at most ten times a
// second, however many ask it.
class ServerFigures {
 public:
  // `exporter`: null if there are no exports. Both outlive it.
  ServerFigures(const Server& server, const nfs::Exporter* exporter)
      : server_(server), exporter_(exporter), begun_(std::chrono::steady_clock::now()) {}
  std::string text(bool with_connections);

 private:
  struct Latest {
    std::string text;
    std::optional<std::chrono::steady_clock::time_point> made_at;
  };

  const Server& server_;
  const nfs::Exporter* const exporter_;
  const std::chrono::steady_clock::time_point begun_;
  std::mutex mutex_;
  std::array<Latest, 2> latest_;  // without connections, and with them; guarded by mutex_
};

class ServeWatch {
 public:
  // Ends the command if the options ask for something that cannot be. `exporter`: null if there are
  // no exports. `tap`: of the server; `tcp_address`: where it listens by TCP, empty: nowhere. All
  // outlive it.
  ServeWatch(const ServeOptions& options, const Server& server, nfs::Exporter* exporter, Tap& tap,
             std::string tcp_address, StderrLog& log);
  // URLs of the pages, for the line that says that the server is ready.
  std::vector<std::string> urls() const { return urls_; }

 private:
  void open_pages(const ServeOptions& options, const Server& server, nfs::Exporter* exporter);
  void open_sockets(const ServeOptions& options, StderrLog& log);
  void open_live(const std::string& rdma_address, StderrLog& log);

  ServerFigures figures_;
  std::vector<std::string> urls_;
  std::unique_ptr<HttpPages> ready_, metrics_;  // null: not asked for
  Tap& tap_;
  const std::string tcp_address_;
  std::unique_ptr<StatSocket> socket_, live_;  // null: there is no place for them
};

// Checks "[ADDR:]PORT" of --metrics; empty: it is right.
std::string problem_with_place(const std::string& text);
// Returns the port of such a text; 0 if it names none, or is empty.
std::uint16_t port_of_metrics(const std::string& text);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_WATCH_H_
