#include "tools/nfs_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "tools/server_stat.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

using nfs3::ftype3;

constexpr std::size_t kDepthMax = 512;  // of directories that are removed or listed

struct FileSettings {
  ClientSettings client;
  NfsSettings nfs;
  std::vector<std::string> urls;
  bool with_parents = false;
  bool is_human = false;  // as it is anyway

  void add_to(Command& command, int count_min, int count_max, const char* help) {
    command.add({{"URL",
                  &urls,
                  help,
                  {.is_required = true, .least_values = count_min, .most_values = count_max}}});
    client.add_calls_to(command, "seconds that connecting and each call may take");
    client.add_reconnect_to(command);
    nfs.add_to(command);
    command.set_footer(
        "NFS URLs: nfs+rdma://HOST[:PORT][,HOST...]/EXPORT[/PATH] or nfs+tcp://HOST[:PORT]...");
  }
};

// --- Paths --------------------------------------------------------------------------------------

struct Place {
  nfs3::nfs_fh3 directory;
  std::string name;
};

// Returns the directory and the last name of a path; the export itself has no name.
Place place_of(nfs::Mounted& server, const std::string& path) {
  if (path.empty()) fail(kFailed, server.url().path + ": this is an export as a whole");
  const std::size_t slash = path.rfind('/');
  const std::string above = slash == std::string::npos ? "" : path.substr(0, slash);
  nfs::Node node = take(server, above, server.look_up_path(above));
  if (node.attributes.type != ftype3::NF3DIR) fail(kFailed, above + ": not a directory");
  return {std::move(node.handle), path.substr(slash == std::string::npos ? 0 : slash + 1)};
}

bool is_missing(const nfs::Failure& why) {
  return !why.error && why.local.empty() && why.status == nfs3::nfsstat3::NFS3ERR_NOENT;
}

// --- Text ---------------------------------------------------------------------------------------

struct Kind {
  char letter;
  std::string_view name;
};

Kind kind_of(ftype3 type) {
  switch (type) {
    case ftype3::NF3REG:
      return {'-', "file"};
    case ftype3::NF3DIR:
      return {'d', "directory"};
    case ftype3::NF3LNK:
      return {'l', "symbolic link"};
    case ftype3::NF3BLK:
      return {'b', "block device"};
    case ftype3::NF3CHR:
      return {'c', "character device"};
    case ftype3::NF3SOCK:
      return {'s', "socket"};
    case ftype3::NF3FIFO:
      return {'p', "FIFO"};
  }
  return {'?', "something"};
}

// "drwxr-xr-x"
std::string mode_text(const nfs3::fattr3& of) {
  std::string text = std::string(1, kind_of(of.type).letter) + "rwxrwxrwx";
  for (std::size_t bit = 0; bit < 9; ++bit) {
    if ((of.mode & (0400U >> bit)) == 0) text[bit + 1] = '-';
  }
  const auto mark = [&](std::uint32_t bit, std::size_t at, char with, char without) {
    if ((of.mode & bit) != 0) text[at] = text[at] == 'x' ? with : without;
  };
  mark(04000, 3, 's', 'S');
  mark(02000, 6, 's', 'S');
  mark(01000, 9, 't', 'T');
  return text;
}

std::string time_text(const nfs3::nfstime3& time) {
  const auto seconds = static_cast<time_t>(time.seconds);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

Json attributes_json(const nfs3::fattr3& of) {
  const auto seconds = [](const nfs3::nfstime3& time) {
    return static_cast<double>(time.seconds) + time.nseconds / 1e9;
  };
  return {{"type", kind_of(of.type).name},
          {"mode", fmt::format("{:04o}", of.mode & 07777U)},
          {"links", of.nlink},
          {"uid", of.uid},
          {"gid", of.gid},
          {"size", of.size},
          {"used", of.used},
          {"fileid", of.fileid},
          {"atime", seconds(of.atime)},
          {"mtime", seconds(of.mtime)},
          {"ctime", seconds(of.ctime)}};
}

// " -> TARGET" of symbolic links.
std::string arrow(nfs::Mounted& server, const nfs::Node& node) {
  if (node.attributes.type != ftype3::NF3LNK) return {};
  const auto target = server.wait_for(server.read_link(node.handle));
  return target ? " -> " + escaped(*target) : "";
}

// --- Commands -----------------------------------------------------------------------------------

void write_out(Bytes data) {
  while (!data.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(kFailed, fmt::format("standard output: {}", std::strerror(errno)));
    data = data.subspan(static_cast<std::size_t>(count));
  }
}

void cat(FileSettings& settings) {
  settings.client.common.refuse({"--json"}, "results, and cat prints what the files hold");
  for (const std::string& url : settings.urls) parsed_nfs_url(url);
  settings.nfs.note(settings.urls);
  for (const std::string& url : settings.urls) print_file(settings.client, settings.nfs, url);
}

void stat(FileSettings& settings) {
  settings.nfs.note(settings.urls);
  for (const std::string& url : settings.urls) {
    if (names_server(url)) {
      print_server_stat(url, settings.client.common.json);
      continue;
    }
    const auto server = mount(settings.client, settings.nfs, url);
    const std::string path = server->path();
    const nfs::Node node = take(*server, path, server->look_up_path(path, false));
    const nfs3::fattr3& of = node.attributes;
    if (settings.client.common.json) {
      Json value = attributes_json(of);
      add_name(value, server->url().path);
      print_json(value);
      continue;
    }
    fmt::print(
        "{}{}\n  {}, {} bytes ({} on the disk), {} links, fileid {}\n  mode {} ({:04o}), uid {}, "
        "gid {}\n  accessed {}\n  modified {}\n  changed  {}\n",
        escaped(server->url().path), arrow(*server, node), kind_of(of.type).name, of.size, of.used,
        of.nlink, of.fileid, mode_text(of), of.mode & 07777U, of.uid, of.gid, time_text(of.atime),
        time_text(of.mtime), time_text(of.ctime));
  }
}

void print_done(const char* operation, const std::string& name) {
  Json value = {{"operation", operation}};
  add_name(value, name);
  print_json(value);
}

void make_directory(nfs::Mounted& server, const std::string& path, std::uint32_t mode) {
  const Place place = place_of(server, path);
  const auto found = server.wait_for(server.look_up(place.directory, place.name));
  if (found) fail(kFailed, path + ": it exists already");
  if (!is_missing(found.error())) fail(found.error(), path, server);
  take(server, path, server.make_directory(place.directory, place.name, mode));
}

void make_directories(nfs::Mounted& server, const std::string& path, std::uint32_t mode) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    const auto found = server.wait_for(server.look_up_path(part));
    if (found && found->attributes.type != ftype3::NF3DIR) {
      fail(kFailed, part + ": it exists, and is no directory");
    }
    if (found) continue;
    if (!is_missing(found.error())) fail(found.error(), part, server);
    const Place place = place_of(server, part);
    take(server, part, server.make_directory(place.directory, place.name, mode));
  }
}

void mkdir(FileSettings& settings) {
  const std::uint32_t mask = own_umask();
  for (const std::string& url : settings.urls) parsed_nfs_url(url);
  settings.nfs.note(settings.urls);
  for (const std::string& url : settings.urls) {
    const auto server = mount(settings.client, settings.nfs, url);
    if (!server->path().empty() || !settings.with_parents) {
      (settings.with_parents ? make_directories : make_directory)(*server, server->path(),
                                                                  0777U & ~mask);
    }
    if (settings.client.common.json) print_done("mkdir", server->url().path);
  }
}

bool is_directory(nfs::Mounted& server, const Place& place) {
  const auto found = server.wait_for(server.look_up(place.directory, place.name));
  return found && found->attributes.type == ftype3::NF3DIR;
}

void move(FileSettings& settings) {
  const nfs::NfsUrl from = parsed_nfs_url(settings.urls[0]);
  const nfs::NfsUrl to = parsed_nfs_url(settings.urls[1]);
  if (from.is_rdma != to.is_rdma || from.servers != to.servers) {
    fail(kUsage, "mv renames within one export; both URLs are of one server then");
  }
  const auto server = mount(settings.client, settings.nfs, settings.urls[0]);
  std::string top = from.path.substr(0, from.path.size() - server->path().size());
  if (!top.ends_with('/')) top += '/';
  if (!(to.path + "/").starts_with(top)) {
    fail(kFailed,
         fmt::format("{}: it is not in the export of {}, and mv renames only", to.path, from.path));
  }
  const std::string path = to.path.size() < top.size() ? "" : to.path.substr(top.size());
  const Place old = place_of(*server, server->path());
  const auto found = server->wait_for(server->look_up_path(path));
  if (!found && !is_missing(found.error())) fail(found.error(), path, *server);
  const bool is_into = found && found->attributes.type == ftype3::NF3DIR;
  const Place made = is_into ? Place{found->handle, old.name} : place_of(*server, path);
  const auto renamed =
      server->wait_for(server->rename(old.directory, old.name, made.directory, made.name));
  if (renamed && settings.client.common.json) print_done("mv", to.path);
  if (renamed) return;
  const nfs::Failure& why = renamed.error();
  const bool is_refused =
      !why.error && why.local.empty() && why.status == nfs3::nfsstat3::NFS3ERR_INVAL;
  if (is_refused && is_directory(*server, old)) {
    const std::string name = is_into ? (path.empty() ? "" : path + "/") + made.name : path;
    fail(kFailed, fmt::format("{}: it cannot be moved to a subdirectory of itself, '{}'",
                              server->path(), name));
  }
  fail(why, server->path(), *server);
}

void df(FileSettings& settings) {
  settings.nfs.note(settings.urls);
  for (const std::string& url : settings.urls) {
    const auto server = mount(settings.client, settings.nfs, url);
    take(*server, server->path(), server->look_up_path(server->path()));
    const auto space = take(*server, server->path(), server->space());
    if (settings.client.common.json) {
      Json value = {
          {"bytes", space.tbytes},      {"free", space.fbytes},
          {"available", space.abytes},  {"files", space.tfiles},
          {"files_free", space.ffiles}, {"provider", server->connections().provider_name()}};
      add_name(value, server->url().path);
      print_json(value);
      continue;
    }
    fmt::print("{}: {} in all, {} free, {} available to you; {} of {} files free\n",
               escaped(server->url().path), size_text(space.tbytes), size_text(space.fbytes),
               size_text(space.abytes), space.ffiles, space.tfiles);
  }
}

// --- ls and rm ----------------------------------------------------------------------------------

void print_entry(nfs::Mounted& server, const std::string& name, const nfs::Node& node,
                 const ListOptions& options) {
  const nfs3::fattr3& of = node.attributes;
  if (!options.is_long) {
    fmt::print("{}\n", escaped(name));
    return;
  }
  const std::string size = options.is_human ? size_text(of.size) : std::to_string(of.size);
  fmt::print("{} {:>3} {:>6} {:>6} {:>14} {} {}{}\n", mode_text(of), of.nlink, of.uid, of.gid, size,
             time_text(of.mtime), escaped(name), arrow(server, node));
}

// One run of ls.
struct Listing {
  nfs::Mounted& server;
  const ListOptions& options;
  const bool json;
  Json values;

  void entry(const std::string& name, const nfs::Node& node) {
    if (!json) {
      print_entry(server, name, node, options);
      return;
    }
    Json value = attributes_json(node.attributes);
    add_name(value, name);
    values.push_back(std::move(value));
  }
  // Lists in the manner of ls -R: a line with the path before the names; in JSON the names have
  // paths.
  void directory(const nfs3::nfs_fh3& handle, const std::string& path, std::size_t depth);
  std::optional<nfs::Node> node_of(const nfs3::nfs_fh3& directory, const nfs::Listed& listed);
};

// nullopt: it was removed meanwhile.
std::optional<nfs::Node> Listing::node_of(const nfs3::nfs_fh3& directory,
                                          const nfs::Listed& listed) {
  const bool is_name_enough = !options.is_long && !json && !options.is_recursive;
  if (listed.node || is_name_enough) return listed.node.value_or(nfs::Node());
  auto found = server.wait_for(server.look_up(directory, listed.name));
  if (!found && is_missing(found.error())) return std::nullopt;
  if (!found) fail(found.error(), listed.name, server);
  return std::move(*found);
}

void Listing::directory(const nfs3::nfs_fh3& handle, const std::string& path, std::size_t depth) {
  if (depth > kDepthMax) fail(kFailed, path + ": directories are too deep here");
  std::vector<nfs::Listed> all = take(server, path, server.list(handle));
  std::ranges::sort(all, {}, &nfs::Listed::name);
  if (options.is_recursive && !json) {
    fmt::print("{}{}:\n", depth == 0 ? "" : "\n", escaped(path));
  }
  const std::string above = json && depth > 0 ? path.substr(2) + "/" : "";
  std::vector<std::pair<std::string, nfs3::nfs_fh3>> folders;
  for (const nfs::Listed& each : all) {
    const auto node = node_of(handle, each);
    if (!node) continue;
    entry(above + each.name, *node);
    const bool is_directory = node->attributes.type == ftype3::NF3DIR;
    if (is_directory) folders.emplace_back(path + "/" + each.name, node->handle);
  }
  if (!options.is_recursive) return;
  for (const auto& [name, folder] : folders) directory(folder, name, depth + 1);
}

// Deepest first. Symbolic links are removed, not followed: handles of the listing say what is
// where.
void remove_content(nfs::Mounted& server, const nfs3::nfs_fh3& directory, const std::string& path,
                    std::size_t depth) {
  if (depth > kDepthMax) fail(kFailed, path + ": directories are too deep here");
  for (const nfs::Listed& each : take(server, path, server.list(directory))) {
    const std::string below = path + "/" + each.name;
    const nfs::Node node =
        each.node ? *each.node : take(server, below, server.look_up(directory, each.name));
    const bool is_directory = node.attributes.type == ftype3::NF3DIR;
    if (is_directory) remove_content(server, node.handle, below, depth + 1);
    take(server, below, server.remove(directory, each.name, is_directory));
  }
}

FileSettings& add(Command& command, void (*run)(FileSettings&), int count_min, int count_max,
                  const char* urls_help) {
  FileSettings& settings = command.on_call(run);
  settings.add_to(command, count_min, count_max, urls_help);
  return settings;
}

void add_mkdir(Command& program) {
  Command& command = program.add_subcommand("mkdir", "make directories at an NFS server");
  FileSettings& settings = add(command, mkdir, 1, kMany, "directories to make");
  command.add({{"-p,--parents", &settings.with_parents,
                "the directories above it as well; one that is there is no error"}});
}

}  // namespace

void print_file(ClientSettings& client, const NfsSettings& settings, const std::string& url) {
  const auto server = mount(client, settings, url);
  const std::string path = server->path();
  const nfs::Node file = take(*server, path, server->look_up_path(path));
  if (file.attributes.type != ftype3::NF3REG) {
    fail(kFailed, fmt::format("{}: it is a {}, and no file that can be written to standard output",
                              server->url().path, kind_of(file.attributes.type).name));
  }
  std::vector<std::byte> buffer(server->read_size());
  for (std::uint64_t offset = 0;;) {
    const auto end = take(*server, path, server->read(file.handle, offset, buffer));
    write_out(Bytes(buffer).first(end.count));
    offset += end.count;
    if (end.is_at_end) break;
  }
}

void list_export(ClientSettings& client, const NfsSettings& settings, const ListOptions& options) {
  client.may_reconnect = true;
  const auto server = mount(client, settings, client.url);
  const std::string path = server->path();
  const nfs::Node top = take(*server, path, server->look_up_path(path));
  Listing listing{*server, options, client.common.json, Json::array()};
  if (top.attributes.type == ftype3::NF3DIR) {
    listing.directory(top.handle, ".", 0);
  } else {
    listing.entry(path.substr(path.rfind('/') + 1), top);
  }
  if (client.common.json) print_json({{"entries", listing.values}});
}

void remove_from_export(ClientSettings& client, const NfsSettings& settings, bool recursive,
                        bool force) {
  client.may_reconnect = true;
  const auto server = mount(client, settings, client.url);
  const std::string path = server->path();
  const auto found = server->wait_for(server->look_up_path(path, false));
  if (!found && !(force && is_missing(found.error()))) fail(found.error(), path, *server);
  if (found) {
    const Place place = place_of(*server, path);
    const bool is_directory = found->attributes.type == ftype3::NF3DIR;
    if (is_directory && !recursive) {
      fail(kFailed, path + ": it is a directory; -r removes it with all that is in it");
    }
    if (is_directory) remove_content(*server, found->handle, path, 0);
    take(*server, path, server->remove(place.directory, place.name, is_directory));
  }
  if (!client.common.json) return;
  Json value = {{"operation", "rm"}, {"removed", found.has_value()}};
  add_name(value, path);
  print_json(value);
}

void add_nfs_commands(Command& program) {
  add(program.add_subcommand("cat", "write files of an NFS server to standard output"), cat, 1,
      kMany, "files");
  add_cp(program);
  Command& status = program.add_subcommand(
      "stat", "show what an NFS server says of files, or what a server here has counted");
  add(status, stat, 1, kMany,
      "files; or servers here, each by its process or the path of its socket");
  status.set_footer(
      "The counters of a server have the names that Linux gives them: rdma_stat_recv, "
      "read_chunk_count\nand the like. `rpcrdma top` shows what it does at the moment.\n"
      "Examples: rpcrdma stat nfs+rdma://HOST/EXPORT/FILE; rpcrdma stat $(pidof rpcrdma)");
  add_mkdir(program);
  add(program.add_subcommand("mv",
                             "rename a file or a directory within an export of an NFS server"),
      move, 2, 2, "SOURCE TARGET: into the target if that is a directory");
  Command& space = program.add_subcommand("df", "show how much room an NFS server has");
  FileSettings& settings = add(space, df, 1, kMany, "anything in the exports");
  space.add({{"-h,--human-readable", &settings.is_human, "sizes as 1.5 GiB, as they are anyway"}});
}

}  // namespace rpcrdma::tools
