// `rpcrdma mount`: an export of an NFS server as a directory here, by FUSE.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "files/file.h"
#include "mount/fuse_session.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/mount_figures.h"
#include "tools/mount_options.h"
#include "tools/nfs_commands.h"
#include "tools/stat_socket.h"

namespace rpcrdma::tools {
namespace {

struct MountSettings {
  ClientSettings client;
  NfsSettings nfs;
  std::string url, directory;
  std::vector<std::string> options;
  std::string uid, gid, stat_socket;
  bool is_read_only = false;
  bool stays = false;
};

// Signals that would end the process that was called. The child has a session of its own, in which
// they do not reach it, and would mount the export later, for nobody.
constexpr std::array<int, 3> kEndSignals{SIGINT, SIGTERM, SIGHUP};
volatile sig_atomic_t child_to_end = 0;
volatile sig_atomic_t has_passed_on = 0;

extern "C" void pass_on(int) {
  const int error = errno;  // the interrupted code's
  // A child that is mounting takes a second one for a wish to end without an unmount.
  if (has_passed_on == 0) ::kill(child_to_end, SIGTERM);
  has_passed_on = 1;
  errno = error;
}

void pass_signals_on(pid_t child) noexcept {
  child_to_end = child;
  struct sigaction action {};
  action.sa_handler = pass_on;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // the second one ends the process
  for (const int number : kEndSignals) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);  // nohup
  }
}

// A child goes on with the mount, and the process that was called ends when the mount is there, or
// with the child's exit status. The child must begin before there are connections and threads.
class Background {
 public:
  Background() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("making a pipe");
    files::File reading(ends[0]);
    ready_ = files::File(ends[1]);
    sigset_t passed_on, before;
    sigemptyset(&passed_on);
    for (const int number : kEndSignals) sigaddset(&passed_on, number);
    ::sigprocmask(SIG_BLOCK, &passed_on, &before);  // until the child is known
    const pid_t child = ::fork();
    if (child < 0) fail("starting a process");
    if (child == 0) {
      ::setsid();
      ::signal(SIGPIPE, SIG_IGN);  // the parent, which reads the pipe, may have ended
      ::sigprocmask(SIG_SETMASK, &before, nullptr);
      return;
    }
    pass_signals_on(child);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ready_ = {};
    ::_exit(status_of(child, reading));
  }
  // The mount is there. Nobody reads what this process says from now on.
  void report_ready() {
    // It would keep the file system of its folder from being unmounted.
    if (::chdir("/") != 0) fail("leaving the current folder");
    const files::File nothing("/dev/null", O_RDWR);
    for (int each = 0; each < 3; ++each) ::dup2(nothing.descriptor(), each);
    if (::write(ready_.descriptor(), "", 1) != 1) fail("telling that the export is mounted");
    ready_ = {};
  }

 private:
  static int status_of(pid_t child, const files::File& reading) noexcept {
    char byte = 0;
    ssize_t count = 0;
    while ((count = ::read(reading.descriptor(), &byte, 1)) < 0 && errno == EINTR) {
    }
    if (count == 1 && has_passed_on == 0) return kSuccess;
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : kFailed;
  }
  [[noreturn]] static void fail(const char* what) {
    tools::fail(kFailed, fmt::format("{}: {}", what, std::strerror(errno)));
  }
  files::File ready_;
};

MountWords words_of(MountSettings& settings) {
  MountWords words;
  for (const std::string& each : settings.options) {
    if (auto read = read_mount_words(each, words); !read) fail(kUsage, read.error());
  }
  for (const auto& [name, value] : {std::pair("uid=", settings.uid), {"gid=", settings.gid}}) {
    if (value.empty()) continue;
    if (auto read = read_mount_words(name + value, words); !read) fail(kUsage, read.error());
  }
  auto url = with_words(settings.url, words);
  if (!url) fail(kUsage, url.error());
  settings.url = std::move(*url);
  words.is_read_only |= settings.is_read_only;
  if (words.patience) {
    settings.client.timeout_s = std::chrono::duration<double>(*words.patience).count();
  }
  if (words.mount_port) settings.nfs.mount_port = *words.mount_port;
  if (words.connections) settings.nfs.connections = *words.connections;
  if (words.security) settings.client.security = *words.security;
  if (words.is_for_all && settings.client.security != "sys") {
    fail(kUsage,
         "-o allow_other has calls made in the names of their users, for which Kerberos "
         "has no tickets here; use it with sec=sys");
  }
  return words;
}

std::string statistics_text(mounts::Session& session) {
  const mounts::Statistics& counted = session.statistics();
  return fmt::format(
      "rpcrdma: attributes {} cached, {} asked; names {} cached, {} asked; {} read ahead, {} of it "
      "in vain; {} written twice, {} commits; {} requests timed out, {} interrupted; {} files and "
      "directories in mind, {} at most, {} names forgotten",
      counted.attributes_cached, counted.attributes_asked, counted.names_cached,
      counted.names_asked, size_text(counted.bytes_read_ahead), size_text(counted.bytes_in_vain),
      size_text(counted.bytes_written_twice), counted.commits, session.requests().timed_out(),
      session.requests().interrupted(), session.tree().nodes().size(),
      session.tree().nodes().most(), counted.names_forgotten);
}

// A mount works without it, so that only a path that somebody asked for has to be right.
std::unique_ptr<StatSocket> open_socket(const MountSettings& settings,
                                        const mounts::Session& session,
                                        const std::string& directory) {
  std::string path = settings.stat_socket;
  if (path == "none") return nullptr;
  if (path.empty()) {
    const std::string folder = own_stat_folder();
    if (folder.empty()) return nullptr;
    remove_stale_stat_sockets(folder);
    path = fmt::format("{}/{}{}", folder, ::getpid(), kMountSocket);
  }
  try {
    path = std::filesystem::absolute(path).string();  // this process may leave its folder
    return std::make_unique<StatSocket>(path, [&session, url = settings.url, directory] {
      return mount_figures(session, url, directory);
    });
  } catch (const std::system_error& error) {
    if (settings.stat_socket.empty()) return nullptr;
    fail(kFailed,
         fmt::format("cannot listen at {} for `rpcrdma top`: {}", path, error.code().message()));
  }
}

void mount_export(MountSettings& settings) {
  settings.client.common.refuse({"--json"}, "results, and mount prints none");
  (void)parsed_nfs_url(settings.url);
  const MountWords words = words_of(settings);
  settings.nfs.note({settings.url});
  std::array<char, PATH_MAX> whole{};
  struct stat status {};
  if (::realpath(settings.directory.c_str(), whole.data()) == nullptr ||
      ::stat(whole.data(), &status) != 0) {
    const char* const remedy =
        errno == ENOTCONN ? "; a mount whose process is gone is still there: umount -l ends it"
                          : "";
    fail(kFailed, fmt::format("{}: {}{}", settings.directory, std::strerror(errno), remedy));
  }
  std::unique_ptr<Background> background;
  if (!settings.stays) background = std::make_unique<Background>();
  Interrupt interrupt("rpcrdma: interrupted, nothing is mounted\n", kFailed);
  // A mount does not log out: the kernel may be in the middle of something when it ends.
  const std::unique_ptr<nfs::Mounted> server(
      mount(settings.client, settings.nfs, settings.url).release());
  mounts::SessionOptions options;
  options.tree.time_outs = {words.file_min, words.file_max, words.directory_min,
                            words.directory_max};
  options.tree.memory = words.memory;
  options.tree.asks_at_open = words.asks_at_open;
  options.tree.nodes_max = words.nodes;
  options.tree.read_size = words.read_size.value_or(options.tree.read_size);
  options.tree.write_size = words.write_size.value_or(options.tree.write_size);
  options.uid = words.uid;
  options.gid = words.gid;
  options.patience =
      std::chrono::milliseconds(static_cast<std::int64_t>(settings.client.timeout_s * 1e3));
  options.is_read_only = words.is_read_only;
  options.is_for_all = words.is_for_all;
  options.fuse = words.fuse;
  options.source = settings.url;
  options.report_loss = [&] {
    say_failure(
        fmt::format("{}: the server has not kept all that was written; programs that did "
                    "not look at the result of close or fsync do not know",
                    settings.url));
  };
  // From then on a signal has the mount taken back.
  options.is_about_to_mount = [&] { interrupt.wait_for_it(); };
  auto session = mounts::Session::mount(*server, whole.data(), options);
  if (!session) fail(kFailed, session.error());
  const auto socket = open_socket(settings, **session, whole.data());
  if (background) {
    background->report_ready();
  } else {
    say(fmt::format("ready {} at {}", settings.url, whole.data()));
  }
  const bool has_kept_all = (*session)->run(interrupt.descriptor());
  if (settings.client.has_stats) say(statistics_text(**session));
  if (!has_kept_all) throw Exit{kFailed};
}

}  // namespace

void add_mount(Command& program) {
  Command& command = program.add_subcommand(
      "mount",
      "make an export of an NFS server a directory here, by FUSE, without a kernel module");
  auto& settings = command.on_call(mount_export);
  command.add(
      {{"URL", &settings.url, "the export, or a directory in it", {.is_required = true}},
       {"DIR", &settings.directory, "where it appears", {.is_required = true}},
       {"-o,--options",
        &settings.options,
        "options of nfs(5) and mount(8), with commas between them: ro, timeo=TENTHS, "
        "acregmin=S, acregmax=S, acdirmin=S, acdirmax=S, actimeo=S, noac, nocto, "
        "nconnect=N, port=PORT, mountport=PORT, proto=rdma|tcp, rsize=BYTES, wsize=BYTES, "
        "sec=FLAVOR, allow_other, uid=N, gid=N, memory=SIZE, nodes=N, suid, dev, noexec, noatime, "
        "sync",
        {.type = "OPTION[,OPTION...]"}},
       {"--read-only", &settings.is_read_only, "refuse all changes, as -o ro"},
       {"--uid",
        &settings.uid,
        "show all files as this user's, by number, as -o uid; the server goes on checking by its "
        "own",
        {.type = "N"}},
       {"--gid", &settings.gid, "the same for the group", {.type = "N"}},
       {"--stat-socket",
        &settings.stat_socket,
        "where `rpcrdma top` asks; without this, in the folder of serve's sockets, and with `none` "
        "nowhere",
        {.type = "PATH"}},
       {"-f,--foreground", &settings.stays,
        "stay, and say `ready` on stderr; without this the command ends when the export is "
        "mounted, and a process in the background goes on"}});
  settings.client.add_calls_to(command,
                               "seconds that each request of a program may take, as -o timeo");
  settings.client.add_reconnect_to(command);
  settings.nfs.add_to(command);
  command.set_footer(
      "umount DIR, or fusermount3 -u DIR without root, ends it; SIGTERM does so even if it is in "
      "use, once the server has kept what was written.\n"
      "In /etc/fstab: nfs+rdma://HOST/EXPORT DIR fuse.rpcrdma _netdev,nofail 0 0");
}

}  // namespace rpcrdma::tools
