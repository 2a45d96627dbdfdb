#include "tools/serve_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "nfs/exports.h"
#include "tools/log_kinds.h"
#include "tools/serve_watch.h"

namespace rpcrdma::tools {
namespace {

std::string problem_with_log_levels(const std::string& text) {
  const auto levels = LogLevels::parse(text);
  return levels ? std::string() : levels.error();
}

constexpr const char* kServeFooter =
    "Prints one line, `ready rdma://ADDR:PORT`, when it accepts connections; with --tcp-port,\n"
    "tcp://ADDR:PORT stands behind that. On SIGTERM it answers the calls that it has, closes, and\n"
    "exits 0; with --json it prints its counters then. A second SIGTERM ends it at once. On SIGHUP "
    "it\n"
    "reads --config and --exports again: exports and the level of the log follow, connections "
    "stay, and\n"
    "the log names what takes a restart. SIGUSR1 and SIGUSR2 are ignored. When its RDMA device "
    "goes, it\n"
    "serves the connections that are left, says so, and exits 1.\n"
    "\n"
    "Whoever reaches it may read, put and remove files (--read-only: read). It serves the regular\n"
    "files of the directory and symbolic links to them, and nothing outside of it. A put is "
    "answered\n"
    "when the file and its name are on the disk, by fsync, unless --no-sync is given. Uploads lie "
    "in\n"
    "DIR/.uploads; one that is over is forgotten after --upload-idle, one that finds no room at "
    "once.\n"
    "\n"
    "The log has a line for each connection, change and error: time, level, subsystem, peer and "
    "what\n"
    "happened. "
    "Peers cause at most 200 lines a minute, and those of one kind hide no others; what is left "
    "out\n"
    "is counted within a minute. At debug, there are 100 lines at once of each kind, and 20 a "
    "second.\n"
    "\n"
    "With --ready-port, GET http://ADDR:PORT/ready is answered 200 as long as work is taken: what "
    "keeps\n"
    "the files of each export answers within two seconds, and no SIGTERM has come. Else it is 503, "
    "and\n"
    "says why. From elsewhere, `rpcrdma ping --ready URL` makes calls to find out.\n"
    "\n"
    "With --tcp-port it serves the same files by plain TCP, to --connections at a time: one more\n"
    "takes the place of one that has made no call, or of an idle one of the host that has most, "
    "if its\n"
    "own host has fewer; else it is refused. Such a connection may step up to RDMA; put, get, ls "
    "and rm\n"
    "do that with --step-up.\n"
    "\n"
    "It answers rpcbind's questions (program 100000, versions 3 and 4) as well.";

}  // namespace

void NfsOptions::add_to(Command& command) {
  command.add({
      {"--nfs", &directories,
       "DIR[:OPTIONS], a directory to export by NFS version 3, over RDMA and TCP; several times "
       "for several. OPTIONS with commas between: ro or rw (if neither is given), root_squash "
       "(unless another is given), no_root_squash, all_squash, anonuid=N, anongid=N, secure or "
       "insecure (if neither is given), sync, sec=FLAVOR[:FLAVOR] (as --sec), "
       "client=ADDRESS[/BITS] or "
       "client=HOST (several times; all, if none is given), "
       "name=/NAME. ceph:/PATH is a "
       "directory of a CephFS, with the further OPTIONS conf=FILE, id=USER, fs=NAME, "
       "gateway=NAME, by which a server that is started again ends what the one before it held: "
       "two servers need two names"},
      {"--export", &names,
       "the name under which clients mount it, beginning with /; the directory's own unless it is "
       "given. One for each --nfs, in order"},
      {"--exports", &exports_file,
       "a file of exports, in the manner of /etc/exports: DIR CLIENT(OPTIONS) ..."},
      {"--handle-key",
       &key_path,
       "the file with the key of file handles, made if it is not there. With the same key clients "
       "go on after a restart, and at another server of the same files (default: "
       "/var/lib/rpcrdma/handle-key, of a user ~/.local/state/rpcrdma)",
       {.check = not_empty}},
      {"--handles",
       &handles,
       "the kind of file handles: the kernel's (which takes root, and a file system that can be "
       "exported), or numbers in a table beside the key, which follow what is moved through this "
       "server alone; any: the first, or else the second",
       {.choices = "any|kernel|table"}},
      {"--nfs-tcp-port", &tcp_port,
       "port of NFS and MOUNT by TCP, at which Linux asks before it mounts; 0 takes a free one "
       "(default: 2049, or none if that is taken)"},
      {"--nfs-workers",
       &workers,
       "threads of each export that work with files, and wait for disks, on behalf of one host, at "
       "most; on CephFS, as many for looks, changes and data each",
       {.range = {1, 1024}}},
      {"--open-files",
       &open_files_max,
       "files kept open beyond the calls that use them",
       {.range = {16, 1'000'000}}},
      {"--nfs-async", &is_async,
       "answer changes of names and attributes before they are on the disk: faster, and lost when "
       "the machine loses its power"},
  });
}

void ServeOptions::add_store_to(Command& command) {
  command.add({
      {"--read-only", &read_only, "nobody may put or remove files, nor change anything in exports"},
      {"--no-sync", &no_sync,
       "answer a put before its file is on the disk: faster, and lost when the machine loses its "
       "power"},
      {"--upload-idle",
       &upload_idle_s,
       "seconds after which an idle upload is discarded",
       {.range = {0.001, 31'536'000.0}}},
      {"--sec",
       &security,
       "how calls have to be protected, of exports that do not say sec= and of all else: sys, "
       "krb5, krb5i, krb5p, several with colons between (default: sys). Linux makes its Kerberos "
       "contexts by TCP on port 2049 (--nfs-tcp-port)",
       {.check = not_empty, .type = "FLAVOR[:FLAVOR...]"}},
      {"--keytab",
       &keytab,
       "the file with the server's keys of Kerberos, nfs/HOST (default: as the system has it, "
       "KRB5_KTNAME or /etc/krb5.keytab)",
       {.check = not_empty}},
      {"--log-level",
       &log_level,
       "the messages for standard error: none, error, warning, info (connections and changes as "
       "well), debug (everything); of a subsystem as in info,nfs=debug,connections=error. The "
       "subsystems are serve, connections, nfs, blob, security, rpcbind and calls",
       {.check = problem_with_log_levels, .type = "LEVEL[,SUBSYSTEM=LEVEL...]"}},
      {"--log-format",
       &log_format,
       "text, with the time in front; json, an object a line; journal, with the priority in front "
       "as systemd reads it; auto: journal if standard error goes there, else text",
       {.choices = "auto|text|json|journal"}},
  });
}

void ServeOptions::add_listening_to(Command& command) {
  command.add({
      {"--listen", &listen, "address to listen on; 0.0.0.0 or :: is all addresses of this machine"},
      {"--port", &port, "port; 0 takes a free one"},
      {"--tcp-port", &tcp_port,
       "serve by plain TCP as well, at this port (0: a free one); put, get, ls and rm go on over "
       "RDMA from there with --step-up"},
      {"--ready-port", &ready_port,
       "serve http://ADDR:PORT/ready at this port (0: a free one), so that a load balancer knows "
       "whether to send clients here"},
      {"--metrics",
       &metrics,
       "serve http://ADDR:PORT/metrics in the format of Prometheus, and /ready beside it (port 0: "
       "a "
       "free one); this machine only, unless ADDR is given, such as 0.0.0.0 or [::]",
       {.check = problem_with_place, .type = "[ADDR:]PORT"}},
      {"--stat-socket",
       &stat_socket,
       "the socket that `rpcrdma top` and `stat` ask, or none, which also saves the time that "
       "calls are measured (default: PID.sock in /run/rpcrdma, of a user in "
       "$XDG_RUNTIME_DIR/rpcrdma)",
       {.check = not_empty, .type = "PATH"}},
      {"--setup-timeout",
       &setup_timeout_s,
       "seconds after which a peer that does not finish the set-up of RDMA is dropped",
       {.range = {0.001, 3600.0}}},
      {"--tcp-idle",
       &tcp_idle_s,
       "seconds after which a connection by plain TCP is closed on which nothing happens",
       {.range = {0.001, 86400.0}}},
      {"--rdma-idle",
       &rdma_idle_s,
       "seconds after which an RDMA connection is closed on which nothing happens (0: never)",
       {.range = {0.0, 86400.0}}},
      {"--drain",
       &drain_s,
       "seconds that calls, and a reload, get to end after SIGTERM",
       {.range = {0.0, 3600.0}}},
  });
}

void ServeOptions::add_connections_to(Command& command) {
  command.add({
      {"--connections", &connections_max,
       "most connections at a time over RDMA, and as many over TCP"},
      {"--threads",
       &threads,
       "threads among which connections are dealt in turn; each has its part of the memory and of "
       "--receives-max",
       {.range = {1, 256}}},
      {"--receives-max", &receives_max,
       "Receives over all connections, which are granted shares of them; 0: each has --credits of "
       "its own"},
      {"--shared-receives",
       &shared_receives,
       "with verbs: whether those are one queue of the device: auto (where it has one and keeps "
       "connections apart nevertheless), always (where it has one), never",
       {.choices = "auto|always|never", .needs = "--receives-max"}},
      {"--bench", &bench, "also serve the program that `rpcrdma bench rdma://HOST:PORT` measures"},
      {"--rpcbind", &rpcbind,
       "register with this machine's rpcbind until the end: what is served with the netids rdma "
       "and rdma6, NFS and MOUNT by TCP with tcp and tcp6 as well"},
      {"--rpcbind-daemon",
       &rpcbind_daemon,
       "where it is: a socket's path or ADDR:PORT (default: /run/rpcbind.sock, else "
       "127.0.0.1:111)",
       {.needs = "--rpcbind"}},
  });
}

void ServeOptions::add_settings_to(Command& command) {
  command.add({
      {"--config",
       &settings_file,
       "a file in TOML with these options by their names without dashes, as in port = 20049; the "
       "command line has the last word",
       {.check = not_empty, .type = "FILE"}},
      {"--check", &checks_only,
       "print what would be served, and what is wrong with it, and end without serving"},
      {"--unit",
       &prints_unit,
       "with --check, print the lines that the service needs for these directories: redirect them "
       "to /etc/systemd/system/rpcrdma.service.d/exports.conf",
       {.needs = "--check"}},
  });
  command.set_settings_option("--config", {"--config", "--check", "--unit"});
}

void ServeOptions::refuse_idle() const {
  const bool has_blobs = !directory.empty();
  if (!nfs.is_wanted()) {
    common.refuse({"--export", "--handle-key", "--handles", "--nfs-tcp-port", "--nfs-workers",
                   "--open-files", "--nfs-async"},
                  "exports (--nfs or --exports)");
    if (!tcp_port) common.refuse({"--tcp-idle"}, "plain TCP (--tcp-port)");
    if (!has_blobs) common.refuse({"--read-only"}, "files (--blob, --nfs or --exports)");
  }
  if (!has_blobs) common.refuse({"--no-sync", "--upload-idle"}, "files of --blob");
}

void ServeOptions::read_security() {
  if (security.empty()) return;
  auto parsed = ::nfs::parse_security(security);
  if (!parsed) fail(kUsage, fmt::format("--sec: {}", parsed.error()));
  nfs.security = std::move(*parsed);
}

// Server::listen() would refuse it as well, but as a part of the URL that is made of it.
void ServeOptions::refuse_place() const {
  const auto colons = std::ranges::count(listen, ':');
  const bool has_port = listen.starts_with('[') ? !listen.ends_with(']') : colons == 1;
  if (!has_port && listen.find('/') == std::string::npos) return;
  fail(kUsage, fmt::format("--listen takes an address alone, as 0.0.0.0 or ::, and not '{}'; its "
                           "port is --port",
                           listen));
}

void ServeOptions::finish() {
  common.finish();
  refuse_place();
  refuse_idle();
  read_security();
}

void ServeOptions::add_to(Command& command) {
  command.add({{"--blob", &directory,
                "the directory to serve with the blob program; made if it is not there"}});
  add_settings_to(command);
  nfs.add_to(command);
  add_listening_to(command);
  add_connections_to(command);
  add_store_to(command);
  common.protocol = "auto";
  common.add_to(command);
  command.set_footer(kServeFooter);
}

}  // namespace rpcrdma::tools
