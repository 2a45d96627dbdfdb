#include "tools/manual_sections.h"

#include <algorithm>
#include <array>

namespace rpcrdma::tools {
namespace {

// Texts that several pages share are macros, so that the parts of a page are literals.
#define RPCRDMA_PLUG_INS                                                                           \
  "RPCRDMA_PROVIDER_DIR\tThe folder in which the shared objects of RDMA devices and Kerberos are " \
  "looked for first.\n"
#define RPCRDMA_BACK_ENDS \
  "RPCRDMA_BACK_END_DIR\tThe folder in which the shared object of CephFS is looked for first.\n"
#define RPCRDMA_CREDENTIALS \
  "KRB5CCNAME, KRB5_CONFIG\tThe caller's credentials and the settings of Kerberos, for --sec.\n"
#define RPCRDMA_CLIENT_SECURITY                                                                 \
  "Without --sec nothing proves who calls, and data travels in clear. With --sec krb5p, both "  \
  "sides know each other and data is encrypted. The server is not trusted: it cannot write to " \
  "memory that was not offered to it, and what it sends is checked."

constexpr std::string_view kClientEnvironment = RPCRDMA_PLUG_INS RPCRDMA_CREDENTIALS;
constexpr std::string_view kExitStatus =
    "0\tSuccess.\n"
    "1\tThe operation failed; standard error says why.\n"
    "2\tThe command line is wrong.\n"
    "3\tThere is no connection, or it was lost and did not come back.\n";
constexpr std::string_view kLocalExitStatus =
    "0\tSuccess.\n"
    "1\tThe operation failed; standard error says why.\n"
    "2\tThe command line is wrong.\n";
constexpr std::string_view kClientSecurity = RPCRDMA_CLIENT_SECURITY;
constexpr std::string_view kClientSeeAlso = "rpcrdma(1) rpcrdma-serve(1) rpcrdma-doctor(1)";

constexpr auto kPages = std::to_array<ManualSections>({
    {.name = "",
     .examples = "Serve a directory to this machine\trpcrdma serve --blob files &\n"
                 "Send a file there\trpcrdma put rdma://127.0.0.1 README.md\n"
                 "Learn why an export cannot be used\trpcrdma doctor nfs+rdma://HOST/srv/data\n",
     .files = "/etc/rpcrdma/serve.toml\tThe settings of the service, serve.toml(5).\n",
     .environment = kClientEnvironment,
     .exit_status = "0\tSuccess.\n"
                    "1\tThe operation failed; standard error says why.\n"
                    "2\tThe command line is wrong.\n"
                    "3\tThere is no connection, or it was lost and did not come back.\n"
                    "11 to 33\tThe step of `rpcrdma doctor` that failed.\n",
     .security = kClientSecurity,
     .see_also = "serve.toml(5) rpcrdma-gen(1)"},
    {.name = "serve",
     .examples = "Serve files of a directory to this machine\trpcrdma serve --blob files\n"
                 "Export a directory, and figures of it on this machine\t"
                 "rpcrdma serve --nfs /srv/data --listen 0.0.0.0 --metrics 0\n"
                 "Say what the service would serve\t"
                 "rpcrdma serve --config /etc/rpcrdma/serve.toml --check\n",
     .files = "/etc/rpcrdma/serve.toml\tThe settings of the service, serve.toml(5).\n"
              "/var/lib/rpcrdma/handle-key\tThe key of file handles (--handle-key); of a user "
              "~/.local/state/rpcrdma/handle-key.\n"
              "/run/rpcrdma/PID.sock\tThe socket that `rpcrdma top` and `stat` ask "
              "(--stat-socket); of a "
              "user $XDG_RUNTIME_DIR/rpcrdma/PID.sock.\n"
              "DIR/.uploads\tUploads to the directory of --blob that are not complete.\n"
              "/etc/krb5.keytab\tThe server's keys of Kerberos (--keytab).\n"
              "/run/rpcbind.sock\tThe rpcbind at which --rpcbind registers.\n",
     .environment =
         "STATE_DIRECTORY, XDG_STATE_HOME, HOME\tWhere the key of file handles is: the first of "
         "these that is set, the latter two for users other than root.\n"
         "RUNTIME_DIRECTORY, XDG_RUNTIME_DIR\tWhere the socket of figures is.\n"
         "NOTIFY_SOCKET, LISTEN_FDS\tStates are reported to systemd, and sockets come from it.\n"
         "JOURNAL_STREAM\tTells --log-format auto that standard error is the journal.\n"
         "KRB5_KTNAME\tThe file with the server's keys, unless --keytab is "
         "given.\n" RPCRDMA_PLUG_INS RPCRDMA_BACK_ENDS,
     .signals =
         "SIGTERM, SIGINT\tThe server takes no more work, answers the calls that it has within "
         "--drain seconds, and exits 0. A second one ends it at once.\n"
         "SIGHUP\tThe server reads --config and --exports again. Exports and the level of the log "
         "follow, and no connection is lost.\n"
         "SIGPIPE, SIGUSR1, SIGUSR2\tThey are ignored.\n",
     .exit_status = "0\tA signal ended the server, and its calls were answered.\n"
                    "1\tIt could not listen, or its RDMA device is gone; standard error says why.\n"
                    "2\tThe command line or the file of settings is wrong.\n",
     .security =
         "The server listens on this machine alone, unless --listen says otherwise. Without --sec, "
         "everybody who reaches it may read, put and remove the files of --blob, and it believes "
         "the "
         "user and group IDs that callers of an export claim; root is mapped to nobody unless an "
         "export has no_root_squash. With --sec krb5p, callers are authenticated by Kerberos and "
         "data is encrypted.\n"
         "\n"
         "It takes peers to be hostile: what they send has an answer or ends their connection, and "
         "memory, descriptors and lines of the log that they cause are bounded.\n"
         "\n"
         "The pages of --metrics and --ready-port have no authentication. The socket of figures is "
         "for the server's user and root alone. Keep the file of --handle-key to its owner: the "
         "key authenticates file handles.\n"
         "\n"
         "Exports take root, or the capabilities in rpcrdma.service, because the server acts as "
         "the caller of each call. --check --unit prints the paths that the service may write to.",
     .see_also = "rpcrdma(1) serve.toml(5) rpcrdma-top(1) rpcrdma-stat(1) rpcrdma-doctor(1) "
                 "systemd.service(5) exports(5)"},
    {.name = "put",
     .examples = "Send a file\trpcrdma put rdma://HOST README.md\n"
                 "Send it under another name\trpcrdma put rdma://HOST README.md copy.md\n",
     .environment = kClientEnvironment,
     .exit_status = kExitStatus,
     .security = kClientSecurity,
     .see_also = "rpcrdma(1) rpcrdma-get(1) rpcrdma-ls(1) rpcrdma-serve(1)"},
    {.name = "get",
     .examples = "Fetch a file\trpcrdma get rdma://HOST README.md copy.md\n"
                 "Write it to standard output\trpcrdma get rdma://HOST README.md -\n",
     .environment = kClientEnvironment,
     .signals = "SIGINT, SIGTERM, SIGHUP\tThe part that has come is removed, and the signal ends "
                "the command.\n",
     .exit_status = kExitStatus,
     .security = kClientSecurity,
     .see_also = "rpcrdma(1) rpcrdma-put(1) rpcrdma-ls(1) rpcrdma-serve(1)"},
    {.name = "ls",
     .examples = "List the files of a server\trpcrdma ls rdma://HOST\n"
                 "List a directory of an export\trpcrdma ls -l nfs+rdma://HOST/srv/data/tree\n",
     .environment = kClientEnvironment,
     .exit_status = kExitStatus,
     .security = kClientSecurity,
     .see_also = kClientSeeAlso},
    {.name = "rm",
     .examples = "Remove a file of an export\trpcrdma rm nfs+rdma://HOST/srv/data/old.txt\n",
     .environment = kClientEnvironment,
     .exit_status = kExitStatus,
     .security = kClientSecurity,
     .see_also = kClientSeeAlso},
    {.name = "blob",
     .examples = "Send a file to a server of blobs\trpcrdma blob put rdma://HOST README.md\n",
     .environment = kClientEnvironment,
     .exit_status = kExitStatus,
     .security = kClientSecurity,
     .see_also = "rpcrdma(1) rpcrdma-put(1) rpcrdma-get(1) rpcrdma-serve(1)"},
    {.name = "cat",
     .examples = "Print a file\trpcrdma cat nfs+rdma://HOST/srv/data/notes.txt\n",
     .environment = kClientEnvironment,
     .exit_status = kExitStatus,
     .security = kClientSecurity,
     .see_also = kClientSeeAlso},
    {.name = "cp",
     .examples = "Copy a tree into an export\trpcrdma cp -r tree nfs+rdma://HOST/srv/data/\n"
                 "Copy a file out of it\trpcrdma cp nfs+rdma://HOST/srv/data/notes.txt notes.txt\n",
     .environment = kClientEnvironment,
     .signals = "SIGINT, SIGTERM, SIGHUP\tThe command ends behind the operation under way, "
                "says what it has copied, and dies of the signal. A second one ends it at once.\n",
     .exit_status = kExitStatus,
     .security = kClientSecurity,
     .see_also = "rpcrdma(1) rpcrdma-ls(1) rpcrdma-serve(1) cp(1)"},
    {.name = "stat",
     .examples = "Show what is known of a file\trpcrdma stat nfs+rdma://HOST/srv/data/notes.txt\n",
     .files = "/run/rpcrdma/PID.sock\tThe socket of a server on this machine; of a user "
              "$XDG_RUNTIME_DIR/rpcrdma/PID.sock.\n",
     .environment = "XDG_RUNTIME_DIR\tWhere sockets of this user's servers are.\n" RPCRDMA_PLUG_INS
         RPCRDMA_CREDENTIALS,
     .exit_status = kExitStatus,
     .security = "The figures of a server are for its user and root alone. Of a "
                 "URL: " RPCRDMA_CLIENT_SECURITY,
     .see_also = "rpcrdma(1) rpcrdma-top(1) rpcrdma-serve(1) nfsstat(8) mountstats(8)"},
    {.name = "mkdir",
     .examples = "Make a directory and those above it\trpcrdma mkdir -p "
                 "nfs+rdma://HOST/srv/data/new/below\n",
     .environment = kClientEnvironment,
     .exit_status = kExitStatus,
     .security = kClientSecurity,
     .see_also = kClientSeeAlso},
    {.name = "mv",
     .examples = "Rename a file\trpcrdma mv nfs+rdma://HOST/srv/data/draft.txt "
                 "nfs+rdma://HOST/srv/data/final.txt\n",
     .environment = kClientEnvironment,
     .exit_status = kExitStatus,
     .security = kClientSecurity,
     .see_also = kClientSeeAlso},
    {.name = "df",
     .examples = "Show the room of an export\trpcrdma df nfs+rdma://HOST/srv/data\n",
     .environment = kClientEnvironment,
     .exit_status = kExitStatus,
     .security = kClientSecurity,
     .see_also = kClientSeeAlso},
    {.name = "mount",
     .examples = "Mount an export\trpcrdma mount nfs+rdma://HOST/srv/data /mnt/data\n"
                 "Mount it for all users, with two hosts\trpcrdma mount "
                 "nfs+rdma://HOST1,HOST2/srv/data /mnt/data -o allow_other,timeo=300\n"
                 "Unmount it\tumount /mnt/data\n",
     .files = "/dev/fuse\tThe device by which the kernel asks for files.\n"
              "/etc/fstab\tnfs+rdma://HOST/srv/data /mnt/data fuse.rpcrdma _netdev,nofail 0 0\n"
              "/etc/fuse.conf\tuser_allow_other lets users other than root say -o allow_other.\n",
     .environment = kClientEnvironment,
     .signals = "SIGTERM, SIGINT\tThe server keeps what was written, and the export is unmounted, "
                "even if files are open. A second one ends the command at once.\n",
     .exit_status =
         "0\tThe export is mounted; with --foreground, it was unmounted, and the server has kept "
         "all that was written.\n"
         "1\tIt could not be mounted; with --foreground also: something that was written is lost.\n"
         "2\tThe command line is wrong.\n"
         "3\tNo server could be reached.\n",
     .security =
         "A server that lies can show programs wrong names and bytes, and nothing outside "
         "the directory; set-user-ID bits and devices of the export mean nothing without -o "
         "suid,dev. " RPCRDMA_CLIENT_SECURITY,
     .see_also = "rpcrdma(1) rpcrdma-serve(1) nfs(5) fuse(4) fusermount3(1) mount(8)"},
    {.name = "ping",
     .examples = "Make ten calls\trpcrdma ping rdma://HOST --count 10\n"
                 "See whether a server takes work\trpcrdma ping --ready nfs+rdma://HOST/srv/data\n",
     .environment = kClientEnvironment,
     .signals = "SIGINT, SIGTERM\tThe command ends, and prints its summary.\n",
     .exit_status = kExitStatus,
     .security = kClientSecurity,
     .see_also = "rpcrdma(1) rpcrdma-doctor(1) rpcrdma-programs(1) rpcinfo(8)"},
    {.name = "top",
     .examples = "Show what the server does now, once\trpcrdma top --once\n",
     .files = "/run/rpcrdma/PID.sock\tThe sockets of servers on this machine; of a user "
              "$XDG_RUNTIME_DIR/rpcrdma/PID.sock.\n",
     .environment = "XDG_RUNTIME_DIR\tWhere sockets of this user's servers are.\n",
     .exit_status = "0\tSuccess.\n"
                    "1\tThe operation failed; standard error says why.\n"
                    "2\tThe command line is wrong.\n"
                    "3\tNothing answers at the socket.\n",
     .security = "The figures of a server are for its user and root alone.",
     .see_also = "rpcrdma(1) rpcrdma-stat(1) rpcrdma-serve(1)"},
    {.name = "explain",
     .examples = "Tell the calls of a capture\trpcrdma explain trace.pcap\n"
                 "Name the rules that it breaks\trpcrdma explain check trace.pcap\n"
                 "Draw one call\trpcrdma explain ladder 2fa1c5d1 trace.pcap\n",
     .exit_status = "0\tThe capture was read; with check, all of it, and no rule is broken.\n"
                    "1\tThe capture cannot be read, or check has found violations or has not read "
                    "all of it.\n"
                    "2\tThe command line is wrong.\n",
     .security =
         "A capture is taken for hostile: lengths are bounds of what is read, and memory has "
         "limits. It may hold what calls carried, also where a line shows none of it.\n",
     .see_also = "rpcrdma(1) rpcrdma-doctor(1) tcpdump(8) tshark(1)"},
    {.name = "doctor",
     .examples = "Walk to an export\trpcrdma doctor nfs+rdma://HOST/srv/data\n"
                 "Look at this machine as the one that exports\trpcrdma doctor --server\n",
     .files = "/sys/class/infiniband, /dev/infiniband\tThe RDMA devices.\n"
              "/proc/modules, /lib/modules\tThe modules of the kernel.\n"
              "/etc/rpcrdma/serve.toml\tThe settings of the service, which --config names.\n",
     .environment = "RPCRDMA_DOCTOR_ROOT\tThe folder that stands for / where /sys, /proc, "
                    "/dev/infiniband and /lib/modules are read; for tests.\n" RPCRDMA_PLUG_INS
                        RPCRDMA_CREDENTIALS,
     .exit_status = "0\tNothing is wrong.\n"
                    "1\tThe result cannot be written; standard error says why.\n"
                    "2\tThe command line is wrong.\n"
                    "11 to 33\tThe step that failed; the notes above have the list.\n",
     .security = "The command changes nothing, on this machine or at the server: it reads, and "
                 "makes calls that read. " RPCRDMA_CLIENT_SECURITY,
     .see_also = "rpcrdma(1) rpcrdma-ping(1) rpcrdma-serve(1) mount(8) nfs(5) fstab(5)"},
    {.name = "programs",
     .examples = "List the programs of a host's rpcbind\trpcrdma programs HOST\n",
     .environment = kClientEnvironment,
     .exit_status = kExitStatus,
     .security = kClientSecurity,
     .see_also = "rpcrdma(1) rpcrdma-ping(1) rpcinfo(8) rpcbind(8)"},
    {.name = "bench",
     .examples = "Measure on this machine\trpcrdma bench\n",
     .environment = RPCRDMA_PLUG_INS,
     .exit_status = kLocalExitStatus,
     .security = "The program that it starts listens on this machine alone.",
     .see_also = "rpcrdma(1) rpcrdma-serve(1)"},
    {.name = "run",
     .examples = "Serve a program of rpcgen's over RDMA and TCP\t"
                 "rpcrdma run --prefer-rdma -- ./sums_server\n"
                 "Call it over RDMA or not at all\trpcrdma run --rdma-only -- ./sums_client HOST\n"
                 "Ask a program that the host's rpcbind knows over RDMA\t"
                 "rpcrdma run -- rpcinfo -T rdma HOST 100005\n",
     .environment =
         "RPCRDMA_TIRPC_MODE, RPCRDMA_TIRPC_LISTEN, RPCRDMA_TIRPC_PROVIDER, RPCRDMA_TIRPC_CRC, "
         "RPCRDMA_TIRPC_REPLY_MAX, RPCRDMA_TIRPC_CALL_MAX, RPCRDMA_TIRPC_MEMORY_MAX, "
         "RPCRDMA_TIRPC_CONNECTIONS_MAX, RPCRDMA_TIRPC_RPCBIND\tThe options, as the program finds "
         "them. `rpcrdma run --print` shows them for a unit of systemd, beside LD_PRELOAD.\n",
     .exit_status = "1\tThe program was not started; standard error says why.\n"
                    "2\tThe command line is wrong.\n"
                    "others\tThose of the program.\n",
     .security = "The adapter runs with the rights of the program. Programs with the set-user-ID "
                 "bit do not load it. Without RPCSEC_GSS nothing proves who calls, and data "
                 "travels in clear, as over TCP.",
     .see_also = "rpcrdma(1) rpcrdma-ping(1) rpcinfo(8) rpcgen(1) ld.so(8)"},
    {.name = "info",
     .examples = "Show features and devices\trpcrdma info\n",
     .environment = RPCRDMA_PLUG_INS RPCRDMA_BACK_ENDS,
     .exit_status = kLocalExitStatus,
     .see_also = "rpcrdma(1) rpcrdma-doctor(1) rdma(8) ibv_devices(1)"},
    {.name = "completion",
     .examples = "Print what bash reads\trpcrdma completion bash\n",
     .exit_status = kLocalExitStatus,
     .see_also = "rpcrdma(1) bash(1) zsh(1)"},
    {.name = "help",
     .examples = "Show what a command does\trpcrdma help serve\n",
     .exit_status = kLocalExitStatus,
     .see_also = "rpcrdma(1)"},
    {.name = kSettingsPage,
     .examples = "Say what would be served, and what is wrong\t"
                 "rpcrdma serve --config /etc/rpcrdma/serve.toml --check\n",
     .files = "/etc/rpcrdma/serve.toml\tThe file that the service reads.\n"
              "/etc/systemd/system/rpcrdma.service.d/exports.conf\tThe paths that the service may "
              "write to, as `rpcrdma serve --check --unit` prints them.\n",
     .signals = "SIGHUP\tThe server reads the file again: nfs, export, exports and log-level "
                "follow; the log names what takes a restart.\n",
     .security = "Whoever may write to the file decides what root exports: leave it to root. It "
                 "has no secrets; the files that handle-key and keytab name are secrets.",
     .see_also = "rpcrdma-serve(1) rpcrdma(1) systemd.service(5) exports(5)"},
});

constexpr ManualSections kOthers = {.exit_status = kLocalExitStatus, .see_also = "rpcrdma(1)"};

}  // namespace

const ManualSections& sections_of(std::string_view name) {
  const auto* const found = std::ranges::find(kPages, name, &ManualSections::name);
  return found != kPages.end() ? *found : kOthers;
}

}  // namespace rpcrdma::tools
