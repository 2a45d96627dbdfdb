#include "nfs/client/mounted.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "mount3.h"
#include "nfs/client/directory_list.h"
#include "nfs/exports.h"
#include "rpcbind/lookup.h"

namespace nfs {
namespace {

using nfs3::nfsstat3;
using rpcrdma::Error;
using rpcrdma::Task;
using rpcrdma::Unexpected;

constexpr std::uint32_t kTransferMax = 1U << 20U;
constexpr int kLinksMax = 40;  // as Linux
constexpr int kLossesMax = CallMaker::kLossesMax;

Unexpected<Failure> failure(Failure why) {
  return Unexpected<Failure>(std::move(why));
}
Unexpected<Failure> failure(const Error& error) {
  return failure(Failure{.error = error});
}
Unexpected<Failure> failure(nfsstat3 status) {
  return failure(Failure{.status = status});
}

bool is_status(const Failure& why, nfsstat3 status) {
  return !why.error && why.local.empty() && why.status == status;
}

Failure at(std::string path, Failure why) {
  if (why.path.empty()) why.path = std::move(path);
  return why;
}

std::string_view text_of(mount3::mountstat3 status) {
  using mount3::mountstat3;
  switch (status) {
    case mountstat3::MNT3_OK:
      return "it is mounted";
    case mountstat3::MNT3ERR_PERM:
    case mountstat3::MNT3ERR_ACCES:
      return "the server does not export it to this machine";
    case mountstat3::MNT3ERR_NOENT:
      return "the server has no such export, or no such directory in it";
    case mountstat3::MNT3ERR_NOTDIR:
      return "it is no directory";
    case mountstat3::MNT3ERR_NAMETOOLONG:
      return "the name is too long";
    case mountstat3::MNT3ERR_IO:
    case mountstat3::MNT3ERR_INVAL:
    case mountstat3::MNT3ERR_NOTSUPP:
    case mountstat3::MNT3ERR_SERVERFAULT:
      break;
  }
  return "the server failed (see its log)";
}

// Says why an export of the list was not mounted.
Failure refused(mount3::mountstat3 status, const std::vector<mount3::exportnode>& exports,
                const std::string& name) {
  using mount3::mountstat3;
  Failure why{.local = std::string(text_of(status)), .path = name};
  why.refusal = MountRefusal::kServer;
  if (status == mountstat3::MNT3ERR_NOENT) why.refusal = MountRefusal::kNoExport;
  if (status != mountstat3::MNT3ERR_ACCES && status != mountstat3::MNT3ERR_PERM) return why;
  why.refusal = MountRefusal::kClient;
  const auto listed = std::ranges::find(exports, name, &mount3::exportnode::ex_dir);
  if (listed == exports.end()) return why;
  for (const mount3::groupnode& each : listed->ex_groups) why.clients.push_back(each.gr_name);
  return why;
}

// The first name of a path, which loses it.
std::string take_name(std::string& path) {
  const std::size_t end = path.find('/');
  std::string name = path.substr(0, end);
  path = end == std::string::npos ? std::string() : path.substr(end + 1);
  return name;
}

bool begins_with_names(std::string_view path, std::string_view names) {
  if (names == "/") return true;
  return path.starts_with(names) && (path.size() == names.size() || path[names.size()] == '/');
}

rpcrdma::Protection protection_of(const rpcrdma::ClientOptions& options) {
  using rpcrdma::Protection;
  using rpcrdma::gss::Service;
  const auto* const security = std::get_if<rpcrdma::gss::ClientSecurity>(&options.auth);
  if (security == nullptr) return Protection::kSys;
  return security->service == Service::kNone        ? Protection::kKrb5
         : security->service == Service::kIntegrity ? Protection::kKrb5i
                                                    : Protection::kKrb5p;
}

rpcrdma::Authentication plain_auth(const MountOptions& options) {
  if (options.credential) return *options.credential;
  return {};
}

Task<void> pause(Turns& turns, Turns::Clock::duration time) {
  co_await turns.pause(time);
}

// Returns whether MOUNT may be at another port if the connection does not have it.
bool may_be_elsewhere(const Error& error) {
  return error.code == rpcrdma::Errc::kNotAvailable || error.code == rpcrdma::Errc::kRefused ||
         error.code == rpcrdma::Errc::kTooLarge;
}

}  // namespace

std::string Failure::message() const {
  std::string text = path.empty() ? std::string() : path + ": ";
  if (!local.empty()) return text + local;
  if (error) return text + error->message();
  text += to_text(status);
  if (status == nfsstat3::NFS3ERR_ACCES && ::geteuid() == 0) {
    text += " (root is mapped to nobody unless the export has no_root_squash)";
  }
  return text;
}

// --- Mounting -----------------------------------------------------------------------------------

Mounted::Mounted(NfsUrl url, const MountOptions& options)
    : url_(std::move(url)),
      entries_max_(options.entries_max),
      protection_(protection_of(options.client)),
      connections_({options.client, url_.transport_urls(), std::max(1U, options.connections)}),
      call_maker_(connections_, options.client.call_timeout) {}

Result<std::unique_ptr<Mounted>> Mounted::open(const NfsUrl& url, MountOptions options) {
  if (options.client.auth.index() == 0) options.client.auth = plain_auth(options);
  std::unique_ptr<Mounted> made(new Mounted(url, options));
  const auto connection = made->connections_.first();
  if (!connection) return failure(connection.error());
  if (auto why = made->mount(options, **connection)) {
    if (why->error) why->refusal = MountRefusal::kNotAsked;
    return failure(at(url.path, std::move(*why)));
  }
  if (auto why = made->learn_sizes(**connection)) return failure(at(url.path, std::move(*why)));
  made->connections_.begin_others(made->root_);
  return made;
}

std::optional<Failure> Mounted::mount(const MountOptions& options,
                                      Connections::Connection& connection) {
  if (options.mount_port == 0) {
    auto why = mount_by(connection.client());
    if (!why || !why->error || !may_be_elsewhere(*why->error)) return why;
  }
  auto mounts = connect_to_mount(options, url_.servers[connection.server()].host);
  if (!mounts) return Failure{.error = mounts.error()};
  return mount_by(*mounts);
}

rpcrdma::Expected<rpcrdma::Client, Error> Mounted::connect_to_mount(const MountOptions& options,
                                                                    const std::string& host) {
  std::string url = "tcp://" + host + ":" + std::to_string(options.mount_port);
  if (options.mount_port == 0) {
    rpcrdma::rpcbinding::LookupOptions lookup;
    lookup.over = rpcrdma::rpcbinding::Over::kTcp;
    auto found = rpcrdma::rpcbinding::lookup(host, mount3::MOUNT_PROGRAM, mount3::MOUNT_V3, lookup);
    if (!found) return Unexpected<Error>(found.error());
    url = std::move(*found);
  }
  rpcrdma::ClientOptions client = options.client;
  client.reconnect.enabled = false;  // for two calls
  if (protection_ != rpcrdma::Protection::kSys) client.auth = plain_auth(options);
  return rpcrdma::Client::connect(url, client);
}

// The server's list says where an export's name ends; one that has no list for us may still mount.
std::optional<Failure> Mounted::mount_by(rpcrdma::Client& mounts) {
  mount3::MOUNT_V3_Client mount(mounts);
  const auto exports = mount.MOUNTPROC3_EXPORT();
  if (!exports) return Failure{.error = exports.error()};
  std::string best;
  for (const mount3::exportnode& each : *exports) {
    if (begins_with_names(url_.path, each.ex_dir) && each.ex_dir.size() > best.size()) {
      best = each.ex_dir;
    }
  }
  if (best.empty()) {
    std::string text = "the server has no export that this begins with";
    for (const mount3::exportnode& each : *exports) {
      text += (&each == exports->data() ? "; it has " : ", ") + each.ex_dir;
    }
    return Failure{.local = text, .refusal = MountRefusal::kNoExport};
  }
  const auto results = mount.MOUNTPROC3_MNT(best);
  if (!results) return Failure{.error = results.error()};
  if (results->mountinfo() == nullptr) {
    return refused(results->fhs_status(), *exports, best);
  }
  if (results->mountinfo()->fhandle.empty()) {
    return Failure{.local = "the server's handle of it is empty", .path = best};
  }
  if (auto why = flavor_trouble(results->mountinfo()->auth_flavors)) {
    return Failure{.local = std::move(*why), .path = best, .refusal = MountRefusal::kSecurity};
  }
  root_.data = results->mountinfo()->fhandle;
  path_ = url_.path.substr(best == "/" ? 0 : best.size());
  while (path_.starts_with('/')) path_.erase(0, 1);
  return std::nullopt;
}

// Returns why our security flavor does not fit the list that MOUNT gave for the export. If a server
// sends no list, the calls will show.
std::optional<std::string> Mounted::flavor_trouble(const std::vector<int>& flavors) const {
  if (flavors.empty() || std::ranges::count(flavors, static_cast<int>(protection_)) > 0) {
    return std::nullopt;
  }
  std::string text;
  for (const int each : flavors) {
    const auto name = name_of(rpcrdma::Protection{static_cast<std::uint32_t>(each)});
    if (name.empty()) continue;
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  if (text.empty()) return std::nullopt;
  return "the export takes calls protected by " + text + " only, and these are by " +
         std::string(name_of(protection_)) + "; say --sec";
}

std::optional<Failure> Mounted::learn_sizes(Connections::Connection& connection) {
  auto results = connection.nfs().NFSPROC3_FSINFO({root_});
  const auto deadline = Turns::Clock::now() + call_maker_.patience();
  while (results && results->status() == nfsstat3::NFS3ERR_JUKEBOX &&
         Turns::Clock::now() + kPauseMin < deadline) {
    wait_for(pause(turns_, kPauseMin));
    results = connection.nfs().NFSPROC3_FSINFO({root_});
  }
  if (!results) return Failure{.error = results.error()};
  const auto* const info = results->resok();
  if (info == nullptr) return Failure{.status = results->status()};
  const auto size = [](std::uint32_t preferred, std::uint32_t most) {
    const std::uint32_t said = preferred != 0 ? std::min(preferred, most) : most;
    return std::clamp<std::uint32_t>(said, 4096, kTransferMax);
  };
  read_size_ = size(info->rtpref, info->rtmax);
  write_size_ = size(info->wtpref, info->wtmax);
  return std::nullopt;
}

// --- Names --------------------------------------------------------------------------------------

Task<Result<Node>> Mounted::look_up(nfs3::nfs_fh3 directory, std::string name) {
  const nfs3::LOOKUP3args args{{std::move(directory), std::move(name)}};
  bool is_complete = false;
  auto found = co_await call<Node>(
      {}, [&](auto& nfs) { return nfs.NFSPROC3_LOOKUP_async(args); },
      [&](nfs3::LOOKUP3res& results) -> Result<Node> {
        auto* const node = results.resok();
        if (node == nullptr) return failure(results.status());
        const auto* const known = node->obj_attributes.attributes();
        is_complete = known != nullptr;
        return Node{std::move(node->object), is_complete ? *known : nfs3::fattr3()};
      });
  if (!found || is_complete) co_return found;
  auto asked = co_await attributes(found->handle);
  if (!asked) co_return failure(asked.error());
  found->attributes = *asked;
  co_return found;
}

Task<Result<nfs3::fattr3>> Mounted::attributes(nfs3::nfs_fh3 file) {
  const nfs3::GETATTR3args args{std::move(file)};
  co_return co_await call<nfs3::fattr3>(
      {}, [&](auto& nfs) { return nfs.NFSPROC3_GETATTR_async(args); },
      [](nfs3::GETATTR3res& results) -> Result<nfs3::fattr3> {
        if (results.resok() == nullptr) return failure(results.status());
        return results.resok()->obj_attributes;
      });
}

Task<Result<Node>> Mounted::look_up_path(std::string path, bool follow) {
  auto top = co_await attributes(root_);
  if (!top) co_return failure(at("/", top.error()));
  std::vector<Node> way{{root_, *top}};  // from the export's directory to where we are
  std::string done;
  for (int links = 0; !path.empty();) {
    const std::string name = take_name(path);
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      if (way.size() == 1) co_return failure({.local = "it leads out of the export", .path = done});
      way.pop_back();
      continue;
    }
    done += (done.empty() ? "" : "/") + name;
    auto found = co_await look_up(way.back().handle, name);
    if (!found) co_return failure(at(done, found.error()));
    if (found->attributes.type != nfs3::ftype3::NF3LNK || (path.empty() && !follow)) {
      way.push_back(std::move(*found));
      continue;
    }
    auto target = co_await read_link(found->handle);
    if (!target) co_return failure(at(done, target.error()));
    if (++links > kLinksMax) co_return failure({.local = "too many symbolic links", .path = done});
    if (target->starts_with('/')) {
      co_return failure(
          {.local = "a symbolic link to '" + *target + "', which is a path of the server's machine",
           .path = done});
    }
    path = *target + "/" + path;
  }
  co_return std::move(way.back());
}

Task<Result<std::string>> Mounted::read_link(nfs3::nfs_fh3 link) {
  const nfs3::READLINK3args args{std::move(link)};
  std::vector<std::byte> place(nfs3::NFS3_PATH_MAX);
  co_return co_await call<std::string>(
      {}, [&](auto& nfs) { return nfs.NFSPROC3_READLINK_async(args, place); },
      [](auto& results) -> Result<std::string> {
        if (results.resok() == nullptr) return failure(results.status());
        return std::string(results.resok()->data);
      });
}

Task<Result<std::vector<Listed>>> Mounted::list(nfs3::nfs_fh3 directory, std::size_t enough) {
  DirectoryList list(std::move(directory), entries_max_);
  for (;;) {
    auto is_last = co_await call<bool>(
        {}, [&](auto& nfs) { return nfs.NFSPROC3_READDIRPLUS_async(list.next()); },
        [&](nfs3::READDIRPLUS3res& results) { return list.take(results); });
    if (!is_last) co_return failure(is_last.error());
    if (*is_last || list.names().size() >= enough) co_return std::move(list.names());
  }
}

// A CREATE whose answer was lost may still be executed after another one has written data, so that
// it sets no size. Content of an existing file is cut by a further call, which changes nothing that
// was written since.
Task<Result<Node>> Mounted::create(nfs3::nfs_fh3 directory, std::string name, std::uint32_t mode,
                                   Route route) {
  nfs3::createhow3 how;
  nfs3::sattr3& attributes = how.set_obj_attributes(nfs3::createmode3::UNCHECKED, nfs3::sattr3());
  attributes.mode.set_mode(mode);
  const nfs3::CREATE3args args{{directory, name}, std::move(how)};
  bool is_complete = false;
  auto made = co_await call<Node>(
      route, [&](auto& nfs) { return nfs.NFSPROC3_CREATE_async(args); },
      [&](nfs3::CREATE3res& results) -> Result<Node> {
        auto* const file = results.resok();
        if (file == nullptr) return failure(results.status());
        is_complete = file->obj.handle() != nullptr && file->obj_attributes.attributes() != nullptr;
        if (!is_complete) return Node{};
        return Node{*file->obj.handle(), *file->obj_attributes.attributes()};
      });
  if (made && !is_complete) made = co_await look_up(std::move(directory), std::move(name));
  if (!made || made->attributes.size == 0) co_return made;
  auto cut = co_await cut_to_nothing(*made, route);
  if (!cut) co_return failure(cut.error());
  made->attributes.size = 0;
  co_return made;
}

Task<Result<void>> Mounted::empty(nfs3::nfs_fh3 file, Route route) {
  auto now = co_await attributes(file);
  if (!now) co_return failure(now.error());
  if (now->size == 0) co_return Result<void>();
  Node node{std::move(file), *now};  // GCC 12 frees it twice inside the co_await
  co_return co_await cut_to_nothing(std::move(node), route);
}

Task<Result<void>> Mounted::cut_to_nothing(Node file, Route route) {
  for (int i = 0; i < kLossesMax; ++i) {
    nfs3::sattr3 nothing;
    nothing.size.set_size(0);
    nfs3::SETATTR3args args{file.handle, std::move(nothing), {}};
    args.guard.set_obj_ctime(file.attributes.ctime);
    bool was_changed = false;
    auto cut = co_await call<void>(
        route, [&](auto& nfs) { return nfs.NFSPROC3_SETATTR_async(args); },
        [&](nfs3::SETATTR3res& results) -> Result<void> {
          was_changed = results.status() == nfsstat3::NFS3ERR_NOT_SYNC;
          if (results.resok() == nullptr) return failure(results.status());
          return {};
        });
    if (cut || !was_changed) co_return cut;
    auto now = co_await attributes(file.handle);
    if (!now) co_return failure(now.error());
    if (now->size == 0) co_return Result<void>();
    file.attributes = *now;
  }
  co_return failure({.local = "others change it all the time"});
}

Task<Result<Mounted::MadeDirectory>> Mounted::make_directory(nfs3::nfs_fh3 directory,
                                                             std::string name, std::uint32_t mode) {
  nfs3::sattr3 attributes;
  attributes.mode.set_mode(mode);
  const nfs3::MKDIR3args args{{directory, name}, attributes};
  auto made = co_await call<bool>(
      {}, [&](auto& nfs) { return nfs.NFSPROC3_MKDIR_async(args); },
      [](nfs3::MKDIR3res& results) -> Result<bool> {
        if (results.resok() != nullptr) return true;
        if (results.status() == nfsstat3::NFS3ERR_EXIST) return false;
        return failure(results.status());
      });
  if (!made) co_return failure(made.error());
  auto found = co_await look_up(std::move(directory), std::move(name));
  if (!found) co_return failure(found.error());
  if (found->attributes.type != nfs3::ftype3::NF3DIR) co_return failure(nfsstat3::NFS3ERR_EXIST);
  co_return MadeDirectory{std::move(*found), *made};
}

Task<Result<void>> Mounted::make_symbolic_link(nfs3::nfs_fh3 directory, std::string name,
                                               std::string target) {
  const nfs3::SYMLINK3args args{{directory, name}, {{}, target}};
  for (int losses = 0;; ++losses) {
    const bool is_first = losses == 0;
    auto made = co_await call<void>(
        {}, [&](auto& nfs) { return nfs.NFSPROC3_SYMLINK_async(args); },
        [](nfs3::SYMLINK3res& results) -> Result<void> {
          if (results.resok() == nullptr) return failure(results.status());
          return {};
        },
        OnLoss::kTell);
    const bool is_there =
        !made && !made.error().error && made.error().status == nfsstat3::NFS3ERR_EXIST;
    if (made || (!made.error().is_outcome_unknown && (is_first || !is_there))) co_return made;
    if (!is_there && losses < kLossesMax) continue;
    if (!is_there) co_return made;
    // By the call whose answer was lost, perhaps.
    auto found = co_await look_up(directory, name);
    if (!found) co_return failure(found.error());
    if (found->attributes.type != nfs3::ftype3::NF3LNK) co_return made;
    auto content = co_await read_link(found->handle);
    if (!content) co_return failure(content.error());
    co_return *content == target ? Result<void>() : made;
  }
}

// A name that is taken by this file is the work of a call whose answer was lost.
Task<Result<void>> Mounted::link(nfs3::nfs_fh3 file, nfs3::nfs_fh3 directory, std::string name) {
  const nfs3::LINK3args args{file, {directory, name}};
  auto linked = co_await call<void>(
      {}, [&](auto& nfs) { return nfs.NFSPROC3_LINK_async(args); },
      [](nfs3::LINK3res& results) -> Result<void> {
        if (results.status() != nfsstat3::NFS3_OK) return failure(results.status());
        return {};
      });
  if (linked || !is_status(linked.error(), nfsstat3::NFS3ERR_EXIST)) co_return linked;
  const auto own = co_await attributes(std::move(file));
  const auto found = co_await look_up(std::move(directory), std::move(name));
  const bool is_own = own && found && own->fileid == found->attributes.fileid;
  co_return is_own ? Result<void>() : linked;
}

Task<Result<void>> Mounted::set(nfs3::nfs_fh3 file, nfs3::sattr3 attributes, Route route) {
  const nfs3::SETATTR3args args{std::move(file), std::move(attributes), {}};
  co_return co_await call<void>(
      route, [&](auto& nfs) { return nfs.NFSPROC3_SETATTR_async(args); },
      [](nfs3::SETATTR3res& results) -> Result<void> {
        if (results.resok() == nullptr) return failure(results.status());
        return {};
      });
}

Task<Result<void>> Mounted::remove(nfs3::nfs_fh3 directory, std::string name, bool is_directory) {
  for (int losses = 0;; ++losses) {
    nfs3::diropargs3 what{directory, name};  // GCC 12 frees it twice inside the co_await
    auto removed = co_await remove_once(std::move(what), is_directory);
    if (removed || !removed.error().is_outcome_unknown || losses == kLossesMax) co_return removed;
    auto found = co_await look_up(directory, name);
    if (found) continue;
    if (is_status(found.error(), nfsstat3::NFS3ERR_NOENT)) co_return Result<void>();
    co_return failure(found.error());
  }
}

Task<Result<void>> Mounted::remove_once(nfs3::diropargs3 what, bool is_directory) {
  const auto take = [](auto& results) -> Result<void> {
    if (results.status() != nfsstat3::NFS3_OK) return failure(results.status());
    return {};
  };
  if (is_directory) {
    const nfs3::RMDIR3args args{std::move(what)};
    co_return co_await call<void>(
        {}, [&](auto& nfs) { return nfs.NFSPROC3_RMDIR_async(args); }, take, OnLoss::kTell);
  }
  const nfs3::REMOVE3args args{std::move(what)};
  co_return co_await call<void>(
      {}, [&](auto& nfs) { return nfs.NFSPROC3_REMOVE_async(args); }, take, OnLoss::kTell);
}

Task<Result<void>> Mounted::rename(nfs3::nfs_fh3 from, std::string name, nfs3::nfs_fh3 to,
                                   std::string new_name) {
  const nfs3::RENAME3args args{{from, name}, {to, new_name}};
  std::optional<std::uint64_t> moved;  // by its file id
  for (int losses = 0;; ++losses) {
    if (connections_.may_go_on() && !moved) {
      auto found = co_await look_up(from, name);
      if (!found) co_return failure(found.error());
      moved = found->attributes.fileid;
    }
    auto renamed = co_await call<void>(
        {}, [&](auto& nfs) { return nfs.NFSPROC3_RENAME_async(args); },
        [](nfs3::RENAME3res& results) -> Result<void> {
          if (results.resok() == nullptr) return failure(results.status());
          return {};
        },
        OnLoss::kTell);
    if (renamed || !renamed.error().is_outcome_unknown || losses == kLossesMax) co_return renamed;
    auto found = co_await look_up(to, new_name);
    if (found && found->attributes.fileid == moved) co_return Result<void>();
    if (!found && !is_status(found.error(), nfsstat3::NFS3ERR_NOENT)) {
      co_return failure(found.error());
    }
  }
}

Task<Result<nfs3::FSSTAT3resok>> Mounted::space() {
  const nfs3::FSSTAT3args args{root_};
  co_return co_await call<nfs3::FSSTAT3resok>(
      {}, [&](auto& nfs) { return nfs.NFSPROC3_FSSTAT_async(args); },
      [](nfs3::FSSTAT3res& results) -> Result<nfs3::FSSTAT3resok> {
        if (results.resok() == nullptr) return failure(results.status());
        return *results.resok();
      });
}

// --- Data ---------------------------------------------------------------------------------------

Task<Result<Mounted::ReadEnd>> Mounted::read(nfs3::nfs_fh3 file, std::uint64_t offset,
                                             rpcrdma::MutableBytes into, Route route) {
  const nfs3::READ3args args{std::move(file), offset, static_cast<std::uint32_t>(into.size())};
  co_return co_await call<ReadEnd>(
      route, [&](auto& nfs) { return nfs.NFSPROC3_READ_async(args, into); },
      [&](auto& results) -> Result<ReadEnd> {
        const auto* const got = results.resok();
        if (got == nullptr) return failure(results.status());
        if (got->data.size() > into.size() || got->count != got->data.size()) {
          return failure({.local = "the server's answer contradicts itself"});
        }
        // A server that reads nothing and has not ended would be asked for ever, or the file be
        // taken for a shorter one.
        if (got->count == 0 && !got->eof && args.count > 0) {
          return failure({.local = "the server reads nothing before the end of the file"});
        }
        // By TCP the data is in the reply.
        if (got->data.data() != into.data()) std::ranges::copy(got->data, into.begin());
        return ReadEnd{got->count, got->eof};
      });
}

Task<Result<Mounted::Written>> Mounted::write(nfs3::nfs_fh3 file, std::uint64_t offset,
                                              rpcrdma::Bytes data, Route route) {
  const nfs3::WRITE3args args{std::move(file), offset, static_cast<std::uint32_t>(data.size()),
                              nfs3::stable_how::UNSTABLE, data};
  co_return co_await call<Written>(
      route, [&](auto& nfs) { return nfs.NFSPROC3_WRITE_async(args); },
      [&](nfs3::WRITE3res& results) -> Result<Written> {
        const auto* const done = results.resok();
        if (done == nullptr) return failure(results.status());
        if (done->count > data.size()) {
          return failure({.local = "the server's answer contradicts itself"});
        }
        return Written{done->count, done->committed != nfs3::stable_how::UNSTABLE, done->verf};
      });
}

Task<Result<nfs3::writeverf3>> Mounted::commit(nfs3::nfs_fh3 file, Route route) {
  const nfs3::COMMIT3args args{std::move(file), 0, 0};
  co_return co_await call<nfs3::writeverf3>(
      route, [&](auto& nfs) { return nfs.NFSPROC3_COMMIT_async(args); },
      [](nfs3::COMMIT3res& results) -> Result<nfs3::writeverf3> {
        if (results.resok() == nullptr) return failure(results.status());
        return results.resok()->verf;
      });
}

}  // namespace nfs
