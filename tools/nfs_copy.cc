// cp: files and trees between this machine and an export.
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nfs/client/copier.h"
#include "tools/nfs_commands.h"
#include "tools/progress_bar.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

struct CopySettings {
  ClientSettings client;
  NfsSettings nfs;
  nfs::CopyOptions copy;
  std::string sparse = "auto";
  bool is_archive = false;
  std::vector<std::string> paths;  // the target last
};

// SIGINT, SIGTERM or SIGHUP; the second one ends the program at once.
volatile sig_atomic_t interrupted_by = 0;

void note_signal(int number) {
  interrupted_by = number;
  constexpr std::string_view kText = "\nrpcrdma: cp ends; a second signal ends it at once\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
}

void note_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);  // nohup
  }
}

struct Copied {
  nfs::CopyResult sum;
  std::string provider;
};

void add(nfs::CopyResult& sum, nfs::CopyResult&& more) {
  sum.files += more.files;
  sum.directories += more.directories;
  sum.links += more.links;
  sum.bytes += more.bytes;
  sum.rewritten += more.rewritten;
  sum.stayed += more.stayed;
  sum.in_place += more.in_place;
  sum.parts_left += more.parts_left;
  sum.skipped_count += more.skipped_count;
  sum.failure_count += more.failure_count;
  sum.is_lost = sum.is_lost || more.is_lost;
  sum.is_interrupted = sum.is_interrupted || more.is_interrupted;
  std::ranges::move(more.skipped, std::back_inserter(sum.skipped));
  std::ranges::move(more.failures, std::back_inserter(sum.failures));
}

// Returns the beginning that paths below the export have in URLs.
std::string top_of(const nfs::Mounted& server) {
  const std::string& path = server.url().path;
  std::string top = path.substr(0, path.size() - server.path().size());
  return top.ends_with('/') ? top : top + "/";
}

bool is_directory(nfs::Mounted& server) {
  const nfs::Node node = take(server, server.path(), server.look_up_path(server.path()));
  return node.attributes.type == nfs3::ftype3::NF3DIR;
}

MountedForCommand mount_target(CopySettings& settings, const std::string& target) {
  auto server = mount(settings.client, settings.nfs, target);
  if (target.ends_with('/') && !server->path().empty() && !is_directory(*server)) {
    fail(kFailed, server->path() + ": it is no directory");
  }
  return server;
}

// Lines of what is copied; the paths below an export are printed as those of URLs.
void print_copied(CopySettings& settings, const std::string& from_top, const std::string& to_top) {
  if (!settings.client.is_verbose) return;
  settings.copy.copied = [from_top, to_top](const std::string& from, const std::string& to) {
    const std::string line = escaped(from_top + from) + " -> " + escaped(to_top + to) + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);  // main() finds that it failed
  };
}

void upload(CopySettings& settings, const std::vector<std::string>& sources,
            const std::string& target, Copied& copied) {
  const auto server = mount_target(settings, target);
  note_signals();
  print_copied(settings, "", top_of(*server));
  nfs::Copier copier(*server, settings.copy);
  add(copied.sum, copier.upload(sources, server->path()));
  copied.provider = server->connections().provider_name();
}

void download(CopySettings& settings, const std::vector<std::string>& sources,
              const std::string& target, Copied& copied) {
  struct stat status {};
  if (sources.size() > 1 && (::stat(target.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))) {
    fail(kFailed, fmt::format("{}: it is no directory, which several sources need", target));
  }
  for (const std::string& each : sources) {
    if (copied.sum.is_lost || copied.sum.is_interrupted) return;
    const auto server = mount(settings.client, settings.nfs, each);
    note_signals();
    print_copied(settings, top_of(*server), "");
    nfs::Copier copier(*server, settings.copy);
    add(copied.sum, copier.download({server->path()}, target));
    copied.provider = server->connections().provider_name();
  }
}

void relay(CopySettings& settings, const std::vector<std::string>& sources,
           const std::string& target, Copied& copied) {
  const auto server = mount_target(settings, target);
  if (sources.size() > 1 && !is_directory(*server)) {
    fail(kFailed, server->path() + ": it is no directory, which several sources need");
  }
  copied.provider = server->connections().provider_name();
  for (const std::string& each : sources) {
    if (copied.sum.is_lost || copied.sum.is_interrupted) return;
    const auto source = mount(settings.client, settings.nfs, each);
    note_signals();
    print_copied(settings, top_of(*source), top_of(*server));
    nfs::Copier copier(*server, settings.copy);
    add(copied.sum, copier.relay(*source, {source->path()}, server->path()));
  }
}

void say_problems(const nfs::CopyResult& result) {
  for (const std::string& each : result.skipped) {
    say(fmt::format("rpcrdma: {}: skipped, it is no file, directory or link", escaped(each)));
  }
  if (result.skipped.size() < result.skipped_count) {
    say(fmt::format("rpcrdma: {} more were skipped", result.skipped_count - result.skipped.size()));
  }
  for (const nfs::Failure& each : result.failures) {
    say("rpcrdma: " + printable(each.message()));
  }
  if (result.failures.size() < result.failure_count) {
    say(fmt::format("rpcrdma: {} more failed", result.failure_count - result.failures.size()));
  }
  if (result.in_place > 0) {
    say(fmt::format(
        "rpcrdma: {} files were written in place, since no files may be made beside them: "
        "a part of the new content is there while one is written, and if that fails",
        result.in_place));
  }
  if (result.parts_left > 0) {
    say(
        fmt::format("rpcrdma: parts of {} files are left at the server; their names are "
                    "'.NAME.rpcrdma-XXXXXXXXXXXX'",
                    result.parts_left));
  }
}

void report(const Copied& copied, double seconds, bool verified, bool json) {
  const nfs::CopyResult& sum = copied.sum;
  const double rate = seconds > 0 ? static_cast<double>(sum.bytes) / seconds / 1e9 : 0;
  if (json) {
    print_json({{"operation", "cp"},
                {"files", sum.files},
                {"directories", sum.directories},
                {"links", sum.links},
                {"bytes", sum.bytes},
                {"stayed", sum.stayed},
                {"rewritten", sum.rewritten},
                {"in_place", sum.in_place},
                {"parts_left", sum.parts_left},
                {"skipped", sum.skipped_count},
                {"failed", sum.failure_count},
                {"verified", verified},
                {"seconds", seconds},
                {"gb_per_s", rate},
                {"provider", copied.provider}});
    return;
  }
  fmt::print("cp: {} files, {} directories, {} links, {} in {:.2f} s, {:.2f} GB/s{} ({})\n",
             sum.files, sum.directories, sum.links, size_text(sum.bytes), seconds, rate,
             verified ? ", verified" : "", copied.provider);
  if (sum.stayed > 0) fmt::print("{} files and links were there, and stay\n", sum.stayed);
  if (sum.rewritten > 0) {
    fmt::print("{} times a file was written again, since the server was restarted\n",
               sum.rewritten);
  }
}

std::string server_of(const std::string& url) {
  return parsed_nfs_url(url).servers.front().host;
}

// Each file after the one before.
void print(CopySettings& settings, const std::vector<std::string>& sources) {
  if (settings.client.is_verbose) fail(kUsage, "-v says what is copied where the files go to");
  if (settings.copy.verify) {
    fail(kUsage, "--verify reads again what was copied, which standard output has no way to");
  }
  settings.client.common.refuse(
      {"--preserve", "--no-clobber", "--sparse", "--files", "--depth", "--json"},
      "copies, and standard output gets what the files hold");
  for (const std::string& each : sources) print_file(settings.client, settings.nfs, each);
}

void copy(CopySettings& settings) {
  std::vector<std::string> sources = settings.paths;
  const std::string target = std::move(sources.back());
  sources.pop_back();
  const bool is_upload = nfs::is_nfs_url(target);
  const auto remote =
      std::ranges::count_if(sources, [](const auto& each) { return nfs::is_nfs_url(each); });
  const bool is_from_server = remote == static_cast<std::ptrdiff_t>(sources.size());
  if (!is_from_server && (remote > 0 || !is_upload)) {
    fail(kUsage, "the target is an NFS URL, or all sources are, or both; others are paths here");
  }
  for (const std::string& each : settings.paths) {
    if (nfs::is_nfs_url(each)) parsed_nfs_url(each);  // before anything is copied
  }
  settings.nfs.note(settings.paths);
  if (target == "-") return print(settings, sources);
  settings.copy.recursive = settings.copy.recursive || settings.is_archive;
  settings.copy.keep = settings.copy.keep || settings.is_archive;
  settings.copy.umask = own_umask();
  settings.copy.sparse = settings.sparse == "always"  ? nfs::Sparse::kAlways
                         : settings.sparse == "never" ? nfs::Sparse::kNever
                                                      : nfs::Sparse::kAuto;
  const auto begun = std::chrono::steady_clock::now();
  const std::string server = server_of(is_upload ? target : sources.front());
  std::optional<ProgressBar> bar(std::in_place, "cp to " + escaped(target),
                                 settings.client.is_verbose ? "" : server);
  if (!settings.client.is_verbose) {
    settings.copy.progress = [&bar](const nfs::CopyProgress& now) {
      bar->update(now.bytes, now.bytes_known);
    };
  }
  settings.copy.is_interrupted = [] { return interrupted_by != 0; };
  Copied copied;
  (!is_upload ? download : is_from_server ? relay : upload)(settings, sources, target, copied);
  bar.reset();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  say_problems(copied.sum);
  report(copied, took.count(), settings.copy.verify, settings.client.common.json);
  if (const int number = interrupted_by; number != 0) {
    std::fflush(stdout);  // the signal ends the process without that
    ::signal(number, SIG_DFL);
    ::raise(number);
  }
  if (copied.sum.is_lost) throw Exit{kNoConnection};
  if (copied.sum.failure_count > 0) throw Exit{kFailed};
}

}  // namespace

void add_cp(Command& program) {
  Command& command =
      program.add_subcommand("cp", "copy files and trees between this machine and NFS servers");
  CopySettings& settings = command.on_call(copy);
  command.add({
      {"PATH",
       &settings.paths,
       "SOURCE... TARGET: paths here and NFS URLs; the target is a URL, or all sources are, or "
       "both; "
       "the target - is standard output",
       {.is_required = true, .least_values = 2, .most_values = kMany}},
      {"-r,--recursive", &settings.copy.recursive,
       "directories as well, with all that is in them; symbolic links as links"},
      {"-a,--archive", &settings.is_archive, "the same as -rp"},
      {"-p,--preserve", &settings.copy.keep,
       "keep modes and times; else they are those of new files"},
      {"-n,--no-clobber", &settings.copy.no_clobber,
       "leave files and links that are there already"},
      {"--sparse",
       &settings.sparse,
       "holes where it is copied to: those of the source (auto); each 4 KiB of zeros (always)",
       {.choices = "auto|always|never"}},
      {"--verify", &settings.copy.verify, "read each file again from the server, and compare it"},
      {"--files", &settings.copy.files, "files under way at a time", {.range = {1, 64}}},
      {"--depth",
       &settings.copy.buffers,
       "READs or WRITEs under way at a time",
       {.range = {1, 32}}},
  });
  settings.client.verbose = ClientSettings::Verbose::kAlsoMore;
  settings.client.add_calls_to(command, "seconds that connecting and each call may take");
  settings.client.add_reconnect_to(command);
  settings.nfs.add_to(command);
  settings.nfs.add_entries_to(command);
  command.add(
      {{"-v,--verbose",
        &settings.client.is_verbose,
        "a line for each file, link and new directory: SOURCE -> TARGET; and one on stderr for "
        "what was negotiated with the server",
        {.excludes = "--json"}}});
  command.set_footer(
      "-p keeps modes (but for set-user-ID and set-group-ID) and times (1970 to 2106), and no\n"
      "owners. Without it, a file that is there keeps its mode, a new one has that of the source\n"
      "as the umask leaves it, and times are those of the copying. What is no file, directory or "
      "symbolic link is skipped in trees, and an error\n"
      "where it is named.\n"
      "NFS URLs: nfs+rdma://HOST[:PORT]/EXPORT[/PATH] or nfs+tcp://HOST[:PORT]/...");
}

}  // namespace rpcrdma::tools
