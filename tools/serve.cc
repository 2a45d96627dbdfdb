#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>

#include "blob/service.h"
#include "blob/status.h"
#include "blob/step_up_listener.h"
#include "rpcbind/registration.h"
#include "rpcbind/service.h"
#include "rpcrdma/server.h"
#include "tools/command.h"

namespace rpcrdma::tools {
namespace {

struct ServeOptions {
  CommonOptions common;
  std::string directory;
  std::string listen = "0.0.0.0";
  std::uint16_t port = kDefaultPort;
  std::optional<std::uint16_t> tcp_port;
  double setup_timeout_s = 5;
  double drain_s = 10;
  std::size_t connections_max = 1024;
  std::uint32_t receives_max = 0;
  std::string shared_receives = "auto";
  bool rpcbind = false;
  std::string rpcbind_daemon;  // empty: where it usually is
};

std::atomic<Server*> server_to_stop = nullptr;
std::atomic<bool> stopping = false;

// Server::stop() is safe in a signal handler.
extern "C" void stop_server(int) {
  stopping = true;
  if (Server* server = server_to_stop.load()) server->stop();
}

void stop_on_signals(Server& server) {
  server_to_stop = &server;
  struct sigaction action {};
  action.sa_handler = stop_server;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  // A file over the limit of this process is an error for its client, not the end of the server.
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);
}

// What this machine's rpcbind is told, as long as the server runs.
rpcbinding::Registration tell_rpcbind(const ServeOptions& options, const Server& server) {
  auto registration = rpcbinding::Registration::make({blob::BLOB_PROGRAM, blob::BLOB_V1},
                                                     rpcbinding::endpoints_of(server.address()),
                                                     options.rpcbind_daemon);
  if (registration) return std::move(*registration);
  const bool usage = registration.error().code == Errc::kBadUrl;
  fail(usage ? kUsage : kFailed, registration.error().message());
}

std::optional<blob::StepUpListener> listen_for_steps_up(const ServeOptions& options,
                                                        Server& server) {
  if (!options.tcp_port) return std::nullopt;
  // On the same address, whichever of a name's it is.
  const auto address = rpcbinding::from_socket_text(server.address());
  if (!address) fail(kFailed, fmt::format("no TCP port next to {}", server.address()));
  auto listener = blob::StepUpListener::listen(
      address->host(), *options.tcp_port, server,
      {.timeout =
           std::chrono::milliseconds(static_cast<std::int64_t>(options.setup_timeout_s * 1e3))});
  if (!listener) fail(listener.error());
  return std::move(*listener);
}

// Server::run() next to plain TCP.
void run_both(Server& server, std::optional<blob::StepUpListener>& plain) {
  for (server.progress(); !server.drained(); server.progress()) {
    pollfd entries[2] = {{server.wait_fd(), POLLIN, 0}, {plain ? plain->wait_fd() : -1, POLLIN, 0}};
    ::poll(entries, 2, -1);
    if (stopping) plain.reset();
    if (plain) plain->progress();
  }
}

void serve(ServeOptions& options) {
  options.common.finish();
  blob::Store store(options.directory);
  if (const auto status = store.open(); status != blob::blob_status::BLOB_OK) {
    fail(kFailed, fmt::format("cannot use the directory {}: {}; it must exist and be writable",
                              options.directory, blob::explain(status)));
  }
  ServerOptions server_options;
  server_options.provider = options.common.provider;
  server_options.provider.setup_timeout_server =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.setup_timeout_s * 1e3));
  server_options.connection = options.common.connection;
  server_options.connections_max = options.connections_max;
  server_options.receives_max = options.receives_max;
  if (options.shared_receives == "always") {
    server_options.shared_receives = SharedReceives::kAlways;
  } else if (options.shared_receives == "never") {
    server_options.shared_receives = SharedReceives::kNever;
  }
  server_options.bulk_size_max = blob::BLOB_DATA_MAX;
  server_options.long_call_size_max = blob::BLOB_DATA_MAX + (64U << 10U);  // data and its header
  server_options.drain_timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.drain_s * 1e3));
  const bool is_v6 = options.listen.find(':') != std::string::npos && options.listen[0] != '[';
  const std::string url = is_v6 ? fmt::format("rdma://[{}]:{}", options.listen, options.port)
                                : fmt::format("rdma://{}:{}", options.listen, options.port);
  auto server = Server::listen(url, server_options);
  if (!server) fail(server.error());
  auto service = std::make_unique<blob::BlobService>(store);
  if (auto added = server->add(blob::BLOB_PROGRAM, blob::BLOB_V1, *service); !added) {
    fail(added.error());
  }
  rpcbinding::RpcbindService rpcbind(server->address());
  rpcbind.add(blob::BLOB_PROGRAM, blob::BLOB_V1);
  if (auto added = rpcbind.add_to(*server); !added) fail(added.error());
  std::optional<blob::StepUpListener> plain = listen_for_steps_up(options, *server);
  stop_on_signals(*server);
  // Behind the line above, so that no signal ends the program with the registration left.
  std::optional<rpcbinding::Registration> registration;
  if (options.rpcbind) registration.emplace(tell_rpcbind(options, *server));
  fmt::print("ready rdma://{}", server->address());
  if (plain) fmt::print(" tcp://{}", plain->address());
  fmt::print("\n");
  std::fflush(stdout);
  if (plain) {
    run_both(*server, plain);
  } else {
    server->run();
  }
  if (registration) {
    if (const auto ended = registration->end(); !ended) {
      fmt::print(stderr, "rpcrdma: {}\n", ended.error().message());
    }
  }
  server_to_stop = nullptr;
  if (options.common.json) fmt::print("{}\n", to_json(server->counters()).dump());
  if (const auto& failure = server->failure()) fail(kFailed, failure->message());
}

}  // namespace

void add_serve(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "serve a directory of files until SIGTERM");
  command->add_option("--blob", options->directory, "the directory to serve with the blob program")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--listen", options->listen, "address to listen on")->capture_default_str();
  command->add_option("--port", options->port, "port; 0 takes a free one")->capture_default_str();
  command->add_option("--tcp-port", options->tcp_port,
                      "take plain TCP connections as well, at this port (0: a free one), which "
                      "step up to RDMA when they ask (put --step-up)");
  command
      ->add_option(
          "--setup-timeout", options->setup_timeout_s,
          "seconds after which a peer that does not finish the set-up, or does not step up, is "
          "dropped")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  command->add_option("--drain", options->drain_s, "seconds that calls get to end after SIGTERM")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command->add_option("--connections", options->connections_max, "most connections at a time")
      ->capture_default_str();
  CLI::Option* const receives_max =
      command
          ->add_option("--receives-max", options->receives_max,
                       "Receives over all connections, which are granted shares of them; 0: each "
                       "has --credits of its own")
          ->capture_default_str();
  command
      ->add_option("--shared-receives", options->shared_receives,
                   "with verbs: whether those are one queue of the device: auto (where it has one "
                   "and keeps connections apart nevertheless), always (where it has one), never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str()
      ->needs(receives_max);
  CLI::Option* const rpcbind = command->add_flag(
      "--rpcbind", options->rpcbind,
      "register with this machine's rpcbind, netids rdma and rdma6, until the end");
  command
      ->add_option("--rpcbind-daemon", options->rpcbind_daemon,
                   "where it is: a socket's path or ADDR:PORT (default: /run/rpcbind.sock, else "
                   "127.0.0.1:111)")
      ->needs(rpcbind);
  options->common.add_to(*command);
  command->footer(
      "Prints one line, `ready rdma://ADDR:PORT`, when it accepts connections; with --tcp-port,\n"
      "tcp://ADDR:PORT stands behind that. On SIGTERM it answers the calls that it has, closes, "
      "and\n"
      "exits 0; with --json it prints its counters then. When its RDMA device goes, it serves\n"
      "the connections that are left, says so, and exits 1.\n"
      "Over RDMA it answers rpcbind's questions (program 100000, versions 3 and 4) as well.");
  command->callback([options] { serve(*options); });
}

}  // namespace rpcrdma::tools
