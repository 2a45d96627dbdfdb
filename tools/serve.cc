#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>

#include "blob/periodic.h"
#include "blob/service.h"
#include "blob/status.h"
#include "rpcbind/registration.h"
#include "rpcbind/service.h"
#include "rpcrdma/server.h"
#include "rpcrdma/tap.h"
#include "tools/bench/service.h"
#include "tools/command.h"
#include "tools/log.h"
#include "tools/serve_check.h"
#include "tools/serve_descriptors.h"
#include "tools/serve_nfs.h"
#include "tools/serve_options.h"
#include "tools/serve_reload.h"
#include "tools/serve_security.h"
#include "tools/serve_signals.h"
#include "tools/serve_watch.h"
#include "tools/systemd.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

// Registers the services with this machine's rpcbind, as long as the server runs. `nfs_plain`: the
// address of NFS and MOUNT over TCP, or empty.
std::vector<rpcbinding::Registration> tell_rpcbind(const ServeOptions& options,
                                                   std::string_view address,
                                                   std::string_view nfs_plain, StderrLog& log) {
  using rpcbinding::Over;
  using rpcbinding::Registration;
  std::vector<Registration> registrations;
  const auto tell = [&](const Registration::Program& program, std::string_view where) {
    auto made =
        Registration::make(program, rpcbinding::endpoints_of(where), options.rpcbind_daemon);
    if (made) return registrations.push_back(std::move(*made));
    const bool usage = made.error().code == Errc::kBadUrl;
    // Registrations that were made already are taken back: fail() leaves by an exception.
    fail(usage ? kUsage : kFailed, made.error().message());
  };
  // By TCP first, where another server that runs is noticed before anything of it is replaced.
  if (!nfs_plain.empty()) {
    tell({nfs3::NFS_PROGRAM, nfs3::NFS_V3, Over::kTcp}, nfs_plain);
    tell({mount3::MOUNT_PROGRAM, mount3::MOUNT_V3, Over::kTcp}, nfs_plain);
  }
  if (options.nfs.is_wanted()) tell({nfs3::NFS_PROGRAM, nfs3::NFS_V3}, address);
  if (!options.directory.empty()) tell({blob::BLOB_PROGRAM, blob::BLOB_V1}, address);
  if (nfs_plain.empty()) return registrations;
  // A machine that mounts by NFS itself has a lock manager, in whose place this one must not be.
  auto locks = Registration::make({nlm4::NLM_PROGRAM, nlm4::NLM_V4, Over::kTcp},
                                  rpcbinding::endpoints_of(nfs_plain), options.rpcbind_daemon);
  if (locks) {
    registrations.push_back(std::move(*locks));
  } else {
    log.write(LogKind::kRegistrationFailed,
              fmt::format("{}; clients have to mount with nolock", locks.error().message()));
  }
  return registrations;
}

// Returns the socket of this name that the service was started with; -1: there is none.
int given_socket(std::vector<systemd::Socket>& given, std::string_view name) {
  const auto found = std::ranges::find(given, name, &systemd::Socket::name);
  if (found == given.end()) return -1;
  const int descriptor = found->descriptor;
  given.erase(found);
  return descriptor;
}

// Sockets would be left on which clients wait for ever.
void refuse_other_sockets(const std::vector<systemd::Socket>& given) {
  if (given.empty()) return;
  fail(kUsage, fmt::format("the socket '{}' of the service has no use: FileDescriptorName= is nfs, "
                           "with exports, or blob, with tcp-port, for one socket each",
                           given.front().name));
}

// Listens at this port on the server's first address, even if its name has several.
Expected<std::string, Error> listen_at_port(Server& server, std::uint16_t port) {
  const std::string_view address = server.address();
  return server.add_listener(
      fmt::format("tcp://{}:{}", address.substr(0, address.rfind(':')), port));
}

// The error's code is left out: an address that is in use would be "out of resources".
std::string why_not_listening(std::string_view operation, const Error& error) {
  return fmt::format("{} ({}) failed: {}", operation, error.peer, error.cause);
}

// Empty: not asked for.
std::string listen_by_tcp(const ServeOptions& options, Server& server,
                          std::vector<systemd::Socket>& given) {
  if (!options.tcp_port) return {};
  const int socket = given_socket(given, "blob");
  auto listening =
      socket >= 0 ? server.add_listener(socket) : listen_at_port(server, *options.tcp_port);
  if (!listening) {
    fail(kFailed, why_not_listening("listening on plain TCP", listening.error()));
  }
  return std::move(*listening);
}

// Listens for NFS by TCP, where MOUNT is asked for, too, and returns the address. Empty: the usual
// port is taken, by the kernel's server perhaps, and nobody asked for another.
std::string listen_for_nfs(const ServeOptions& options, Server& server, StderrLog& log,
                           std::vector<systemd::Socket>& given) {
  if (!options.nfs.is_wanted()) return {};
  const int socket = given_socket(given, "nfs");
  auto listening = socket >= 0 ? server.add_listener(socket)
                               : listen_at_port(server, options.nfs.tcp_port.value_or(kNfsTcpPort));
  if (listening) return std::move(*listening);
  const std::string why =
      why_not_listening("listening for NFS and MOUNT by TCP", listening.error());
  if (options.nfs.tcp_port || socket >= 0) fail(kFailed, why);
  log.write(LogKind::kSetting,
            fmt::format("{}; Linux cannot mount without MOUNT by TCP: name another port with "
                        "--nfs-tcp-port",
                        why));
  return {};
}

// Makes the directory if it does not exist, so that the first example of the documents works on a
// fresh system.
void make_directory(const ServeOptions& options, StderrLog& log) {
  const std::string& directory = options.directory;
  struct stat status {};
  if (::stat(directory.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return;
    fail(kUsage, fmt::format("--blob {}: this is no directory", directory));
  }
  if (options.read_only || ::mkdir(directory.c_str(), 0777) != 0) {
    fail(kUsage,
         fmt::format("--blob {}: there is no such directory, and it {}; make it, or name "
                     "another one",
                     directory,
                     options.read_only ? "is not made by --read-only"
                                       : fmt::format("cannot be made: {}", std::strerror(errno))));
  }
  log.write(LogKind::kState, fmt::format("made the directory {}", directory));
}

blob::StoreOptions store_options(const ServeOptions& options, StderrLog& log) {
  blob::StoreOptions store;
  store.is_read_only = options.read_only;
  store.upload_idle_max = milliseconds(options.upload_idle_s);
  if (options.no_sync) store.sync = nullptr;
  store.log = &log;
  return store;
}

void log_call(StderrLog& log, const CallReport& call) {
  const auto us = [](std::chrono::nanoseconds time) {
    return static_cast<double>(time.count()) / 1e3;
  };
  const std::string name = call.name.empty() ? fmt::format("procedure {}", call.procedure.number)
                                             : std::string(call.name);
  const std::string form = call.is_long           ? "Long Call"
                           : call.read_chunks > 0 ? fmt::format("{} Read chunks", call.read_chunks)
                                                  : "no Read chunk";
  const char* const status =
      call.status == AcceptStatus::kSuccess ? "" : ", refused by its service";
  log.write(
      LogKind::kCall,
      fmt::format("{} XID {:#010x} {} of program {} version {}: {}, {} bytes of arguments, {} "
                  "of results, {:.1f} us ({:.1f} in the service, {:.1f} for memory){}",
                  call.peer, call.xid, name, call.procedure.program, call.procedure.version, form,
                  call.arguments_size, call.results_size, us(call.time), us(call.service_time),
                  us(call.memory_wait), status));
}

void log_connection(StderrLog& log, const ConnectionEvent& event) {
  switch (event.kind) {
    case ConnectionEvent::Kind::kOpened:
      return log.write(LogKind::kConnected,
                       fmt::format("{} connected ({} now)", event.peer, event.connections));
    case ConnectionEvent::Kind::kReady:
      return log.write(LogKind::kConnectionDetail,
                       fmt::format("{} negotiated: {}", event.peer, to_string(*event.terms)));
    case ConnectionEvent::Kind::kRefused:
      return log.write(LogKind::kConnectionRefused,
                       fmt::format("{} was refused: {}", event.peer, event.error->cause));
    case ConnectionEvent::Kind::kEnded:
      break;
  }
  const TransferCounters& counters = event.counters;
  if (event.was_reset_at_rest) {
    log.write(LogKind::kConnectionReset,
              fmt::format("{} was closed by a reset after {} calls, with none under way",
                          event.peer, counters.calls));
  } else if (event.error != nullptr) {
    log.write(LogKind::kConnectionLost, fmt::format("{} was lost after {} calls: {}", event.peer,
                                                    counters.calls, event.error->cause));
  } else {
    log.write(LogKind::kConnectionDetail,
              fmt::format("{} closed after {} calls, {}", event.peer, counters.calls,
                          size_text(counters.payload_bytes)));
  }
  if (counters.versions_refused > 0) {
    log.write(LogKind::kVersionRefused,
              fmt::format("{} asked for a version of RPC-over-RDMA that is not "
                          "served (--rpcrdma-version)",
                          event.peer));
  }
  const std::uint64_t errors = counters.errors_sent - counters.versions_refused;
  if (errors + counters.messages_dropped + counters.credit_overruns > 0) {
    log.write(LogKind::kProtocolBroken,
              fmt::format("{} broke the protocol: {} RDMA_ERRORs sent, {} messages dropped, {} "
                          "calls beyond its credits",
                          event.peer, errors, counters.messages_dropped, counters.credit_overruns));
  }
}

// For `rpcrdma explain --pid`: some hundred MiB/s of 8 KiB records between two looks.
constexpr std::size_t kTapRoom = 4U << 20U;
constexpr std::chrono::minutes kPatienceWithDisks{1};  // at the end; one that takes longer hangs

ServerOptions server_options(const ServeOptions& options, StderrLog& log, Tap& tap) {
  ServerOptions server;
  if (options.stat_socket != "none") server.tap = &tap;
  server.provider = options.common.provider;
  server.provider.setup_timeout_server = milliseconds(options.setup_timeout_s);
  server.connection = options.common.connection;
  server.version = options.common.version();
  server.connections_max = options.connections_max;
  server.receives_max = options.receives_max;
  server.shards = options.threads;
  if (options.shared_receives == "always") {
    server.shared_receives = SharedReceives::kAlways;
  } else if (options.shared_receives == "never") {
    server.shared_receives = SharedReceives::kNever;
  }
  server.bulk_size_max =
      options.bench ? std::max(blob::BLOB_DATA_MAX, bench::kSizeMax) : blob::BLOB_DATA_MAX;
  server.long_call_size_max = blob::BLOB_DATA_MAX + (64U << 10U);  // data and its header
  server.tcp.record_size_max = blob::BLOB_DATA_MAX + (64U << 10U);
  if (options.nfs.is_wanted()) nfs::Exporter::make_room_in(server);
  server.tcp.connections_max = options.connections_max;
  server.tcp.idle_timeout = milliseconds(options.tcp_idle_s);
  server.idle_timeout = milliseconds(options.rdma_idle_s);
  // `rpcrdma top` may come at any time.
  server.measures_calls = options.stat_socket != "none" || !options.metrics.empty();
  server.drain_timeout = milliseconds(options.drain_s);
  server.on_connection = [&log](const ConnectionEvent& event) { log_connection(log, event); };
  // Only a server that begins with that reports calls: to report each takes its time, also of calls
  // whose lines are left out.
  if (log.takes(LogKind::kCall)) {
    server.on_call = [&log](const CallReport& call) { log_call(log, call); };
  }
  return server;
}

Server listen(const ServeOptions& options, StderrLog& log, Tap& tap) {
  const bool is_v6 = options.listen.find(':') != std::string::npos && options.listen[0] != '[';
  const std::string url = is_v6 ? fmt::format("rdma://[{}]:{}", options.listen, options.port)
                                : fmt::format("rdma://{}:{}", options.listen, options.port);
  auto server = Server::listen(url, server_options(options, log, tap));
  if (!server) fail(kFailed, fmt::format("cannot listen on {}: {}", url, server.error().cause));
  return std::move(*server);
}

// Lists the services for a person.
std::string what_is_served(const ServeOptions& options) {
  std::string text;
  const auto add = [&text](const std::string& what) {
    if (!text.empty()) text += ", ";
    text += what;
  };
  if (!options.directory.empty()) add(options.directory);
  if (options.nfs.is_wanted()) add("NFS");
  if (options.bench) add("the benchmark");
  return text;
}

void announce(const ServeOptions& options, const Server& server, const std::string& plain,
              StderrLog& log) {
  const char* const rights = options.directory.empty() ? ""
                             : options.read_only       ? ", read-only"
                                                 : ", readable and writable for whoever reaches it";
  log.write(LogKind::kState,
            fmt::format("serving {} on {} by {}{}{}", what_is_served(options), server.address(),
                        server.provider_name(), rights,
                        options.listen == kLoopback
                            ? "; this machine only (--listen 0.0.0.0: all addresses)"
                            : ""));
  if (options.shared_receives != "auto" && server.provider_name() == "siwarp") {
    log.write(LogKind::kSetting,
              "--shared-receives is for RDMA devices; siwarp has no queue of its own for them");
  }
  if (!plain.empty() && server.provider_name() != "siwarp") {
    log.write(LogKind::kSetting,
              fmt::format("connections by TCP cannot step up to RDMA by {}; they can with "
                          "--provider siwarp",
                          server.provider_name()));
  }
}

// The line that scripts wait for, and with exports what to type elsewhere.
void say_ready(const ServeOptions& options, const Server& server, const std::string& plain,
               const nfs::Exporter* exporter, const std::string& nfs_plain,
               const ServeWatch& watch) {
  fmt::print("ready");
  if (!options.directory.empty() || options.bench || exporter == nullptr) {
    fmt::print(" rdma://{}", server.address());
  }
  if (!plain.empty()) fmt::print(" tcp://{}", plain);
  if (exporter != nullptr) fmt::print("{}", nfs_urls(*exporter, server.address(), nfs_plain));
  for (const std::string& url : watch.urls()) fmt::print(" {}", url);
  fmt::print("\n");
  if (exporter != nullptr) {
    fmt::print("{}", mount_commands(*exporter, server.address(), nfs_plain));
  }
  std::fflush(stdout);
}

void open_store(const ServeOptions& options, StderrLog& log, std::optional<blob::Store>& store) {
  make_directory(options, log);
  store.emplace(options.directory, store_options(options, log));
  if (const auto status = store->open(); status != blob::blob_status::BLOB_OK) {
    fail(kFailed, fmt::format("cannot use the directory {}: {}; it must be readable{}",
                              options.directory, blob::explain(status),
                              options.read_only ? "" : " and writable (or use --read-only)"));
  }
}

void add_exports(nfs::Exporter& exporter, Server& server, rpcbinding::RpcbindService& rpcbind) {
  if (auto added = exporter.add_to(server); !added) fail(added.error());
  rpcbind.add(nfs3::NFS_PROGRAM, nfs3::NFS_V3);
  rpcbind.add(mount3::MOUNT_PROGRAM, mount3::MOUNT_V3);
  rpcbind.add(nlm4::NLM_PROGRAM, nlm4::NLM_V4);
}

// The time that calls and reloads have when the server was asked to stop.
class Drain {
 public:
  using Clock = std::chrono::steady_clock;
  Drain(const ServeOptions& options, StderrLog& log) : seconds_(options.drain_s), log_(log) {}

  // Begins it, and says so, at the first time. From any thread.
  void begin() {
    const std::lock_guard lock(mutex_);
    if (until_) return;
    until_ = Clock::now() + milliseconds(seconds_);
    log_.write(LogKind::kState,
               fmt::format("stopping: calls in service have {} s, and nobody may connect any more",
                           seconds_));
  }
  // Returns when it ends. A server that ends without a request begins it here.
  Clock::time_point end() {
    const std::lock_guard lock(mutex_);
    return until_ ? *until_ : Clock::now() + milliseconds(seconds_);
  }

 private:
  const double seconds_;
  StderrLog& log_;
  std::mutex mutex_;
  std::optional<Clock::time_point> until_;  // guarded by mutex_
};

using Left = blob::BlobService::Left;

// Threads that wait for a disk, a cluster or a name server that does not answer cannot be ended.
[[noreturn]] void leave_threads(ExitCode code, StderrLog& log) {
  log.report_all_left_out();
  std::fflush(stdout);  // and no other file, which such a thread may have locked
  ::_exit(static_cast<int>(code));
}

// Waits for calls that the service of blobs and exports have not answered, which share the time:
// systemd would kill the process behind TimeoutStopSec. Returns what still waits.
Left end_calls(std::optional<blob::BlobService>& files, nfs::Exporter* exporter) {
  const Drain::Clock::time_point begun = Drain::Clock::now();
  const Left left = files ? files->stop(begun + kPatienceWithDisks) : Left::kNone;
  return exporter == nullptr || exporter->stop(begun) ? left : Left::kCalls;
}

// Ends the command where destructors would wait for threads of files or of a reload.
void leave_what_waits(bool has_reloaded, Left left, const Server& server, StderrLog& log) {
  if (has_reloaded && left == Left::kNone) return;
  if (!has_reloaded)
    log.write(LogKind::kState, "exiting without the reload that is under way, which waits");
  if (left == Left::kExpiry) {
    log.write(LogKind::kState,
              "exiting without the removal of files that is under way, which waits");
  }
  if (left == Left::kCalls) {
    say_failure("exiting with calls that wait for storage; their clients will retry");
  }
  if (const auto& failure = server.failure()) say_failure(failure->message());
  leave_threads(left != Left::kCalls && !server.failure() ? kSuccess : kFailed, log);
}

void serve(ServeOptions& options) {
  if (options.directory.empty() && !options.bench && !options.nfs.is_wanted()) {
    fail(kUsage,
         "there is nothing to serve: --nfs DIR exports a directory by NFS, --blob DIR serves "
         "one to put and get");
  }
  options.finish();
  options.nfs.is_read_only = options.read_only;
  StderrLog log(*LogLevels::parse(options.log_level), log_format(options.log_format));
  if (options.checks_only) return check_serving(options, log);
  const blob::Periodic counts(std::chrono::seconds(1), [&log] { log.report_left_out(); });
  std::optional<blob::Store> store;
  std::optional<blob::BlobService> files;
  std::optional<bench::BenchService> bench;
  std::unique_ptr<nfs::Exporter> exporter;  // all outlive the server
  if (!options.directory.empty()) open_store(options, log, store);
  std::vector<nfs::Export> exports;
  if (options.nfs.is_wanted()) exports = exports_of(options.nfs, log);
  make_room_for_descriptors(options, exports.size(), log);
  if (options.nfs.is_wanted()) exporter = open_exports(std::move(exports), options.nfs, log);
  const std::unique_ptr<gss::Mechanism> kerberos =
      kerberos_for(options, exporter != nullptr && wants_kerberos(*exporter));
  Tap tap(kTapRoom);
  Server server = listen(options, log, tap);
  if (kerberos) secure(options, *kerberos, log, server);
  rpcbinding::RpcbindService rpcbind(server.address());
  if (store) {
    files.emplace(*store);
    if (auto added = server.add(blob::BLOB_PROGRAM, blob::BLOB_V1, *files); !added) {
      fail(added.error());
    }
    rpcbind.add(blob::BLOB_PROGRAM, blob::BLOB_V1);
  }
  if (options.bench) {
    if (auto added = bench.emplace().add_to(server); !added) fail(added.error());
  }
  if (exporter) add_exports(*exporter, server, rpcbind);
  if (auto added = rpcbind.add_to(server); !added) fail(added.error());
  std::vector<systemd::Socket> given = systemd::take_sockets();
  const std::string plain = listen_by_tcp(options, server, given);
  const std::string nfs_plain = listen_for_nfs(options, server, log, given);
  refuse_other_sockets(given);
  Drain drain(options, log);
  ServeReload reload(options, log, exporter.get());
  // The handler finds no server that is gone, also when an error ends the command.
  ServeSignals signals(
      server, [&reload] { reload.run(); }, [&drain] { drain.begin(); });
  // Behind the line above, so that no signal ends the program with the registration left.
  std::vector<rpcbinding::Registration> registrations;
  if (options.rpcbind) registrations = tell_rpcbind(options, server.address(), nfs_plain, log);
  announce(options, server, plain, log);
  std::optional<ServeWatch> watch(std::in_place, options, server, exporter.get(), tap,
                                  plain.empty() ? nfs_plain : plain, log);
  say_ready(options, server, plain, exporter.get(), nfs_plain, *watch);
  systemd::report_ready("serving");
  server.run();
  if (ServeSignals::is_stopping()) drain.begin();  // the thread of the signals may be late
  log.write(LogKind::kState, "drained: every connection is closed");
  watch.reset();  // before what it asks
  const bool has_reloaded = signals.end_reloads(drain.end());
  const Left left = end_calls(files, exporter.get());
  for (rpcbinding::Registration& each : registrations) {
    if (const auto ended = each.end(); !ended) {
      log.write(LogKind::kRegistrationLeft, ended.error().message());
    }
  }
  if (options.common.json) print_json(to_json(server.counters()));
  leave_what_waits(has_reloaded, left, server, log);
  if (const auto& failure = server.failure()) fail(kFailed, failure->message());
}

}  // namespace

void add_serve(Command& program) {
  Command& command = program.add_subcommand("serve", "serve a directory of files until SIGTERM");
  command.on_call(serve).add_to(command);
}

}  // namespace rpcrdma::tools
