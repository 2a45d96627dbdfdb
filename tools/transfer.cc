// put, get, ls and rm: files by the blob program.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "blob/client.h"
#include "blob/name.h"
#include "blob/sha256.h"
#include "blob/status.h"
#include "tools/command.h"
#include "tools/nfs_commands.h"
#include "tools/output.h"
#include "tools/progress_bar.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

constexpr const char* kNamesFooter =
    "Names are printed with a backslash as \\\\ and each byte that is no printable UTF-8 as "
    "\\xHH.\n"
    "In JSON they are as they are; one that is not UTF-8 is written in that way, and \"escaped\"\n"
    "beside it is true.";

constexpr const char* kNfsUrls = "NFS URLs, and this is none";

struct TransferSettings {
  ClientSettings client;
  blob::TransferOptions transfer;
  bool no_reduce = false;
  std::string file;
  std::string name;

  void add_to(Command& command) {
    command.add({
        {"--size",
         &transfer.size,
         "bytes of data in a call, up to 1 MiB",
         {.range = {1U, blob::BLOB_DATA_MAX}, .takes_units = true}},
        {"--depth", &transfer.depth, "calls in flight", {.range = {1, 64}}},
        {"--no-reduce", &no_reduce,
         "no chunk for the data itself: Long Calls and Long Replies instead"},
    });
    client.add_reconnect_to(command);
    client.add_step_up_to(command);
  }
  // The bar outlives the transfer.
  void show_progress(ProgressBar& bar) {
    transfer.progress = [&bar](std::uint64_t done, std::uint64_t total) {
      bar.update(done, total);
    };
  }
  ClientForCommand connect() {
    client.common.connection.reduce = !no_reduce;
    transfer.more_time_to_sum = !client.has_timeout;
    return client.connect();
  }
};

void add_no_reconnect(Command& command, ClientSettings& client) {
  command.add({{"--no-reconnect", &client.no_reconnect,
                "NFS: fail when the connection is lost, instead of going on over a new one"}});
}

struct ListSettings {
  ClientSettings client;
  NfsSettings nfs;
  ListOptions look;
  bool has_all = false;  // as it is anyway
};

struct RemoveSettings {
  ClientSettings client;
  std::string name;
  bool force = false;
  NfsSettings nfs;
  bool recursive = false;
};

void report(const char* what, const std::string& name, blob::TransferResult& result,
            const Client& client, bool json) {
  const Latency latency = Latency::of(result.latencies_ns);
  const double rate = result.seconds > 0 ? static_cast<double>(result.bytes) / result.seconds : 0;
  if (!json) {
    fmt::print("{} {}: {} in {:.2f} s, {:.2f} GB/s, {} calls, p50 {:.0f} us, p99 {:.0f} us ({})\n",
               what, escaped(name), size_text(result.bytes), result.seconds, rate / 1e9,
               result.calls, latency.p50_us, latency.p99_us, client.connection().provider_name);
    const TransferCounters counters = client.counters();
    if (counters.padded_calls + counters.read_replies > 0) {
      fmt::print(
          "RFC 5666: {} calls with aligned data (RDMA_MSGP), {} replies read and confirmed by "
          "RDMA_DONE\n",
          counters.padded_calls, counters.read_replies);
    }
    return;
  }
  Json value = {{"operation", what},
                {"bytes", result.bytes},
                {"calls", result.calls},
                {"seconds", result.seconds},
                {"gb_per_s", rate / 1e9},
                {"sha256", blob::to_hex(result.sum)},
                {"latency", to_json(latency)},
                {"provider", client.connection().provider_name},
                {"counters", to_json(client.counters())}};
  add_name(value, name);
  print_json(value);
}

// Runs before anything is connected or opened.
void check_name(const std::string& name) {
  const std::string problem = blob::problem_with_name(name);
  if (!problem.empty()) fail(kFailed, fmt::format("{}: {}", name, problem));
}

// "-" is the standard input.
files::File open_input(const std::string& path) {
  return path == "-" ? files::File(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0))
                     : files::File(path, O_RDONLY | O_NOCTTY);
}

std::string problem_with_input(const std::string& path) {
  struct stat status {};
  if (path == "-") return {};
  if (::stat(path.c_str(), &status) != 0) {
    return fmt::format("cannot read {}: {}", path, std::strerror(errno));
  }
  return S_ISDIR(status.st_mode) ? fmt::format("{} is a directory; put takes one file", path)
                                 : std::string();
}

void put(TransferSettings& settings) {
  if (settings.name.empty() && settings.file == "-") {
    fail(kUsage, "standard input has no name of its own; give it one: put URL - NAME");
  }
  blob::Source source(open_input(settings.file));
  if (!source.is_open()) {
    fail(kFailed, fmt::format("cannot read {}: {}", settings.file, std::strerror(errno)));
  }
  if (settings.name.empty()) {
    settings.name = std::filesystem::path(settings.file).filename().string();
  }
  check_name(settings.name);
  auto client = settings.connect();
  // Input without a size may be typed by hand, or come from a slow program: then nobody waits for
  // the server.
  const std::string waited_for(source.likely_size() != 0 ? client->connection().peer_address : "");
  std::optional<ProgressBar> bar;
  settings.show_progress(bar.emplace("put " + escaped(settings.name), waited_for));
  auto result = blob::BlobClient(*client, settings.transfer).put(source, settings.name);
  bar.reset();
  if (!result)
    fail(with_nfs_hint(result.error(), *client), fmt::format("put of {}", settings.file), *client);
  report("put", settings.name, *result, *client, settings.client.common.json);
}

void get(TransferSettings& settings) {
  check_name(settings.name);
  if (settings.file == "-") {
    settings.client.common.refuse({"--json"}, "results, and standard output gets the file");
  }
  Output output(settings.file.empty() ? settings.name : settings.file, settings.name);
  if (!output.problem().empty()) {
    fail(kFailed, fmt::format("cannot write {}: {}", output.path(), output.problem()));
  }
  auto client = settings.connect();
  const std::string waited_for(settings.file == "-" ? "" : client->connection().peer_address);
  std::optional<ProgressBar> bar;
  settings.show_progress(bar.emplace("get " + escaped(settings.name), waited_for));
  blob::BlobClient blobs(*client, settings.transfer);
  // A reader may take its time; the connection lives on meanwhile.
  const auto wait = [&client](int descriptor) {
    pollfd entries[2] = {{descriptor, POLLOUT, 0}, {client->wait_fd(), POLLIN, 0}};
    while (entries[0].revents == 0) {
      ::poll(entries, 2, -1);
      if (entries[1].revents != 0) client->progress();
    }
  };
  auto result = blobs.get(settings.name, [&](Bytes data) { return output.write(data, wait); });
  bar.reset();
  if (!result)
    fail(with_nfs_hint(result.error(), *client), fmt::format("get of {}", settings.name), *client);
  const auto sum = blobs.sum(settings.name, result->bytes);
  if (!sum) fail(sum.error(), fmt::format("checking {}", settings.name), *client);
  if (*sum != result->sum) {
    fail(kFailed, fmt::format("{} arrived damaged or was changed meanwhile: SHA-256 {} here, {} on "
                              "the server {}; get it again",
                              settings.name, blob::to_hex(result->sum), blob::to_hex(*sum),
                              client->connection().peer_address));
  }
  if (!output.finish()) {
    fail(kFailed, fmt::format("cannot write {}: {}", output.path(), std::strerror(errno)));
  }
  if (!output.is_stdout()) {
    report("get", settings.name, *result, *client, settings.client.common.json);
  }
}

void list(ListSettings& settings) {
  if (nfs::is_nfs_url(settings.client.url)) {
    list_export(settings.client, settings.nfs, settings.look);
    return;
  }
  settings.client.common.refuse(
      {"--long", "--recursive", "--mount-port", "--connections", "--no-reconnect"}, kNfsUrls);
  auto client = settings.client.connect();
  const auto entries = blob::BlobClient(*client).list(settings.nfs.entries_max);
  if (!entries) fail(with_nfs_hint(entries.error(), *client));
  Json values = Json::array();
  for (const auto& entry : *entries) {
    if (!settings.client.common.json) {
      const bool is_human = settings.look.is_human;
      const std::string size = is_human ? size_text(entry.size) : std::to_string(entry.size);
      fmt::print("{:>14} {}\n", size, escaped(entry.name));
      continue;
    }
    Json value = {{"size", entry.size}};
    add_name(value, entry.name);
    values.push_back(std::move(value));
  }
  if (settings.client.common.json) {
    print_json({{"entries", values}, {"counters", to_json(client->counters())}});
  }
}

// A removal may be made again after its answer was lost, and succeeds then too: whether there was
// something to remove is asked before.
void remove(RemoveSettings& settings) {
  if (nfs::is_nfs_url(settings.client.url)) {
    if (!settings.name.empty()) fail(kUsage, "rm takes one NFS URL, which has the path in it");
    remove_from_export(settings.client, settings.nfs, settings.recursive, settings.force);
    return;
  }
  if (settings.name.empty()) fail(kUsage, "NAME is required: which file the server is to remove");
  settings.client.common.refuse(
      {"--recursive", "--mount-port", "--connections", "--no-reconnect", "--entries-max"},
      kNfsUrls);
  check_name(settings.name);
  auto client = settings.client.connect();
  blob::BlobClient blobs(*client);
  const auto found = blobs.stat(settings.name);
  // The program may not be available either.
  const bool is_missing =
      !found && found.error().code == Errc::kNotAvailable &&
      found.error().cause == blob::explain(blob::blob_status::BLOB_NO_SUCH_BLOB);
  if (!found && !(is_missing && settings.force)) {
    fail(with_nfs_hint(found.error(), *client), fmt::format("removing {}", settings.name));
  }
  if (!is_missing) {
    const auto removed = blobs.remove(settings.name);
    if (!removed) fail(removed.error(), fmt::format("removing {}", settings.name));
  }
  if (!settings.client.common.json) return;
  Json value = {{"operation", "rm"}, {"removed", !is_missing}};
  add_name(value, settings.name);
  print_json(value);
}

}  // namespace

void add_put(Command& program) {
  Command& command = program.add_subcommand("put", "send a file to a server");
  TransferSettings& settings = command.on_call(put);
  settings.client.add_to(command);
  settings.add_to(command);
  command.add({
      {"FILE",
       &settings.file,
       "the input, read to its end: a file, a FIFO, a device; - for standard input",
       {.check = problem_with_input, .checked_as = "FILE", .is_required = true}},
      {"NAME", &settings.name, "its name on the server (default: the file's; - has none)"},
  });
  command.set_footer(kNamesFooter);
}

void add_get(Command& program) {
  Command& command =
      program.add_subcommand("get", "fetch a file from a server and check its SHA-256");
  TransferSettings& settings = command.on_call(get);
  settings.client.add_to(command);
  settings.add_to(command);
  command.add({
      {"NAME", &settings.name, "its name on the server", {.is_required = true}},
      {"FILE", &settings.file,
       "where to: a file, which gets its new content when that is complete; a directory; "
       "something else, which is written through; - for standard output (default: NAME)"},
  });
  command.set_footer(kNamesFooter);
}

void add_ls(Command& program, Also also) {
  const bool has_nfs = also == Also::kNfs;
  Command& command =
      program.add_subcommand("ls", has_nfs ? "list the files of a server, or of an NFS URL"
                                           : "list the files of a server");
  ListSettings& settings = command.on_call(list);
  settings.client.add_to(command);
  settings.client.add_step_up_to(command);
  settings.nfs.add_entries_to(command);
  command.add(
      {{"-h,--human-readable", &settings.look.is_human, "sizes as 1.5 MiB"},
       {"-a,--all", &settings.has_all, "names that begin with a dot too, as are listed anyway"}});
  if (has_nfs) {
    settings.nfs.add_to(command);
    add_no_reconnect(command, settings.client);
    command.add({{"-l,--long", &settings.look.is_long,
                  "NFS: with mode, links, owner, group, size and time of each"},
                 {"-R,--recursive", &settings.look.is_recursive,
                  "NFS: also what is in the directories, and so on"}});
  }
  command.set_footer(kNamesFooter);
}

void add_rm(Command& program, Also also) {
  const bool has_nfs = also == Also::kNfs;
  Command& command =
      program.add_subcommand("rm", has_nfs ? "remove a file from a server, or what an NFS URL names"
                                           : "remove a file from a server");
  RemoveSettings& settings = command.on_call(remove);
  settings.client.add_to(command);
  settings.client.add_step_up_to(command);
  command.add({
      {"NAME",
       &settings.name,
       has_nfs ? "its name on the server; an NFS URL has it in itself" : "its name on the server",
       {.is_required = !has_nfs}},
      {"-f,--force", &settings.force, "a file that is not there is no error"},
  });
  if (has_nfs) {
    settings.nfs.add_to(command);
    add_no_reconnect(command, settings.client);
    command.add(
        {{"-r,--recursive", &settings.recursive, "NFS: a directory, with all that is in it"}});
    settings.nfs.add_entries_to(command);
  }
}

void add_blob(Command& program) {
  Command& command =
      program.add_subcommand("blob", "put, get, ls and rm, the files of the blob program");
  add_put(command);
  add_get(command);
  add_ls(command, Also::kNothing);
  add_rm(command, Also::kNothing);
}

}  // namespace rpcrdma::tools
