// The options of `rpcrdma serve`.
#ifndef RPCRDMA_TOOLS_SERVE_OPTIONS_H_
#define RPCRDMA_TOOLS_SERVE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/command.h"
#include "tools/nfs_options.h"

namespace rpcrdma::tools {

inline constexpr const char* kLoopback = "127.0.0.1";

struct ServeOptions {
  CommonOptions common;
  NfsOptions nfs;
  std::string settings_file;
  bool checks_only = false;
  bool prints_unit = false;
  std::string directory;
  std::string listen = kLoopback;
  std::uint16_t port = kDefaultPort;
  std::optional<std::uint16_t> tcp_port;
  std::optional<std::uint16_t> ready_port;
  std::string metrics;      // [ADDR:]PORT; empty: no page
  std::string stat_socket;  // a path, or "none"; empty: in the usual folder
  double setup_timeout_s = 5;
  double tcp_idle_s = 60, rdma_idle_s = 3600;
  double drain_s = 10;
  std::size_t connections_max = 1024;
  std::uint32_t receives_max = 0;
  std::uint32_t threads = 1;
  std::string shared_receives = "auto";
  bool bench = false;
  bool rpcbind = false;
  std::string rpcbind_daemon;  // empty: where it usually is
  bool read_only = false;
  bool no_sync = false;
  double upload_idle_s = 600;
  std::string log_level = "info";
  std::string log_format = "auto";
  std::string security;  // empty: sys
  std::string keytab;    // empty: the system's

  void add_to(Command& command);
  // Carries the texts over, after parsing. Ends the command if options contradict each other, or
  // would have no effect.
  void finish();

 private:
  void refuse_idle() const;
  void refuse_place() const;
  void read_security();
  void add_settings_to(Command& command);
  void add_listening_to(Command& command);
  void add_connections_to(Command& command);
  void add_store_to(Command& command);
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_OPTIONS_H_
