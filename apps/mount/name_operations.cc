#include "mount/name_operations.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>

#include "mount/change.h"
#include "mount/directory_reader.h"

namespace mounts {
namespace {

using nfs3::nfsstat3;

nfs3::createverf3 new_verifier() {
  std::random_device source;
  nfs3::createverf3 made{};
  for (std::byte& each : made) each = static_cast<std::byte>(source());
  return made;
}

// The kernel refuses what was made if it is something else, and takes no note of it: neither its
// node nor a file that was opened would ever be given back.
Outcome<Entry> of_type(Outcome<Entry> made, nfs3::ftype3 type) {
  if (made && made->node && made->node->type != type) return failed(EIO);
  return made;
}

}  // namespace

// --- Looking ------------------------------------------------------------------------------------

Task<Outcome<Entry>> NameOperations::look_up(Hold parent, std::string name, Who who) {
  // Some servers call a longer name garbage. The kernel looks every name up before it makes it.
  if (name.size() > nfs3::NFS3_NAME_MAX) co_return failed(ENAMETOOLONG);
  co_return co_await find(std::move(parent), std::move(name), who, Room::kNeeded);
}

Task<Outcome<Entry>> NameOperations::find(Hold parent, std::string name, Who who, Room room) {
  if (parent->attributes.fresh(Tree::now()) != nullptr) {
    const auto known = tree_.names().find(parent->id, name, parent->attributes.version());
    if (known == kNoNode) {
      ++tree_.statistics().names_cached;
      Entry none;
      none.left = parent->attributes.left(Tree::now());
      co_return none;
    }
    if (!known) {
      Entry none;
      none.left = tree_.certain_lack(*parent, name, who);
      if (none.left > Clock::duration{}) {
        ++tree_.statistics().names_cached;
        co_return none;
      }
    }
    if (Hold node = known ? tree_.nodes().find(*known) : Hold()) {
      if (const nfs3::fattr3* const fresh = node->attributes.fresh(Tree::now())) {
        ++tree_.statistics().names_cached;
        co_return tree_.entry_of(std::move(node), *parent, name, *fresh, true);
      }
    }
  }
  co_return co_await ask(std::move(parent), std::move(name), who, room);
}

Task<Outcome<Entry>> NameOperations::ask(Hold parent, std::string name, Who who, Room room) {
  ++tree_.statistics().names_asked;
  const auto begun = AttributeCache::now_in_order(Tree::now());
  const nfs3::LOOKUP3args args{{parent->handle, name}};
  auto reply = co_await tree_.calls().look_up(args, who.as());
  if (!reply) co_return failed(error_of(reply.error()));
  if (auto* const found = reply->resok()) {
    (void)tree_.note(*parent, found->dir_attributes, begun);
    const std::uint64_t version =
        parent->attributes.version_shown(begun, found->dir_attributes.attributes());
    nfs3::post_op_fh3 handle;
    handle.set_handle(std::move(found->object));
    co_return co_await made(std::move(parent), std::move(name), std::move(handle),
                            std::move(found->obj_attributes), {begun, begun, version}, who, room);
  }
  const auto* const refused = reply->resfail();
  const auto* const found = refused != nullptr ? refused->dir_attributes.attributes() : nullptr;
  if (found != nullptr) (void)tree_.note(*parent, *found, begun);
  if (reply->status() != nfsstat3::NFS3ERR_NOENT) {
    co_return failed(tree_.refusal(*parent, reply->status()));
  }
  Entry none;
  if (parent->attributes.is_overtaken(begun)) co_return none;
  const std::uint64_t version = parent->attributes.version_shown(begun, found);
  if (version == AttributeCache::kNoVersion) co_return none;
  none.left = parent->attributes.left(Tree::now());
  if (none.left > Clock::duration{}) {
    tree_.names().note(parent->id, name, kNoNode, version);
  }
  co_return none;
}

// Makes the entry of a file by what a reply said of it; a server may leave out anything.
Task<Outcome<Entry>> NameOperations::made(Hold parent, std::string name, nfs3::post_op_fh3 handle,
                                          nfs3::post_op_attr attributes, Seen seen, Who who,
                                          Room room) {
  if (handle.handle() == nullptr) {
    auto found = co_await ask(std::move(parent), std::move(name), who, room);
    if (found && !found->node) co_return failed(ENOENT);
    co_return found;
  }
  if (handle.handle()->data.empty()) co_return failed(EIO);
  std::optional<nfs3::fattr3> known;
  if (const auto* const found = attributes.attributes()) known = *found;
  if (!known) {
    const nfs3::GETATTR3args args{*handle.handle()};
    auto reply = co_await tree_.calls().get_attributes(args, who.as());
    if (!reply) co_return failed(error_of(reply.error()));
    if (reply->resok() == nullptr) co_return failed(error_of(reply->status()));
    known = reply->resok()->obj_attributes;
  }
  const bool needs_room = room == Room::kNeeded && tree_.nodes().is_full();
  if (needs_room && !tree_.nodes().has(*handle.handle(), *known)) {
    if (const int error = co_await tree_.wait_for_room(who); error != 0) co_return failed(error);
  }
  Hold node = tree_.nodes().find_or_add(*handle.handle(), *known);
  // A directory that is its own parent would lock the kernel up.
  if (node->id == parent->id || node->id == kRootNode) co_return failed(ELOOP);
  std::optional<std::uint64_t> version;
  if (!node->attributes.take(*known, seen.file)) {
    // The kernel takes their size, and the next program that appends would write over bytes that
    // the server did not have yet.
    if (const nfs3::fattr3* const fresh = node->attributes.fresh(Tree::now())) {
      known = *fresh;
    } else {
      co_await Tree::wait_until_written(tree_.nodes().find(node->id));
      auto asked = co_await tree_.ask_attributes(*node, who);
      if (!asked) co_return failed(asked.error());
      known = asked->attributes;
      version = asked->version;
    }
  }
  // A name that a reply has given up on may be removed by now.
  const bool is_current = !parent->attributes.is_overtaken(seen.name);
  const bool is_of_version = seen.version == parent->attributes.version();
  Entry entry = tree_.entry_of(std::move(node), *parent, name, *known, is_current && is_of_version);
  entry.version = version.value_or(entry.version);
  co_return entry;
}

// Returns whether the name is of the file with this fileid.
Task<Outcome<bool>> NameOperations::exists_as(Hold parent, std::string name, Who who,
                                              std::uint64_t fileid) {
  const nfs3::LOOKUP3args args{{parent->handle, name}};
  auto reply = co_await tree_.calls().look_up(args, who.as());
  if (!reply) co_return failed(error_of(reply.error()));
  if (reply->resok() == nullptr) co_return false;
  const auto* const found = reply->resok()->obj_attributes.attributes();
  co_return found == nullptr || found->fileid == fileid;
}

// --- Making -------------------------------------------------------------------------------------

Task<Outcome<Entry>> NameOperations::make_directory(Hold parent, std::string name,
                                                    std::uint32_t mode, Who who) {
  if (tree_.nodes().is_full()) {
    if (const int error = co_await tree_.wait_for_room(who); error != 0) co_return failed(error);
  }
  nfs3::sattr3 attributes;
  attributes.mode.set_mode(mode & 07777U);
  const nfs3::MKDIR3args args{{parent->handle, name}, attributes};
  const Time asked = Tree::now();
  bool was_repeated = false;
  Change change(tree_, *parent, name);
  auto reply = co_await tree_.calls().make_directory(args, who.as(&was_repeated));
  if (!reply) co_return failed(error_of(reply.error()));
  change.end(nfs::directory_change(*reply));
  tree_.names().drop(parent->id, name);
  if (auto* const done = reply->resok()) {
    // One that another program has found meanwhile may have names already.
    const auto* const handle = done->obj.handle();
    const auto* const found = done->obj_attributes.attributes();
    const bool is_new =
        handle != nullptr && found != nullptr && !tree_.nodes().has(*handle, *found);
    auto entry = co_await made(std::move(parent), std::move(name), std::move(done->obj),
                               std::move(done->obj_attributes),
                               {change.begun, change.ended, change.version}, who);
    entry = of_type(std::move(entry), nfs3::ftype3::NF3DIR);
    if (is_new && entry && entry->node) tree_.note_empty(*entry->node, who, asked);
    co_return entry;
  }
  if (was_repeated && reply->status() == nfsstat3::NFS3ERR_EXIST) {
    auto found = co_await ask(std::move(parent), std::move(name), who);
    if (found && (!found->node || found->node->type != nfs3::ftype3::NF3DIR)) {
      co_return failed(EEXIST);
    }
    co_return found;
  }
  co_return failed(tree_.refusal(*parent, reply->status()));
}

Task<Outcome<Entry>> NameOperations::make_symbolic_link(Hold parent, std::string name,
                                                        std::string target, Who who) {
  if (tree_.nodes().is_full()) {
    if (const int error = co_await tree_.wait_for_room(who); error != 0) co_return failed(error);
  }
  const nfs3::SYMLINK3args args{{parent->handle, name}, {{}, target}};
  bool was_repeated = false;
  Change change(tree_, *parent, name);
  auto reply = co_await tree_.calls().make_symbolic_link(args, who.as(&was_repeated));
  if (!reply) co_return failed(error_of(reply.error()));
  change.end(nfs::directory_change(*reply));
  tree_.names().drop(parent->id, name);
  if (auto* const done = reply->resok()) {
    auto entry = co_await made(std::move(parent), std::move(name), std::move(done->obj),
                               std::move(done->obj_attributes),
                               {change.begun, change.ended, change.version}, who);
    co_return of_type(std::move(entry), nfs3::ftype3::NF3LNK);
  }
  if (was_repeated && reply->status() == nfsstat3::NFS3ERR_EXIST) {
    auto found = co_await ask(std::move(parent), std::move(name), who);
    if (!found) co_return found;
    if (!found->node || found->node->type != nfs3::ftype3::NF3LNK) co_return failed(EEXIST);
    const nfs3::READLINK3args link{found->node->handle};
    auto content = co_await tree_.calls().read_link(link, who.as());
    if (!content || content->target != target) co_return failed(EEXIST);
    co_return found;
  }
  co_return failed(tree_.refusal(*parent, reply->status()));
}

Task<Outcome<Entry>> NameOperations::make_node(Hold parent, std::string name, std::uint32_t mode,
                                               nfs3::specdata3 device, Who who) {
  if (tree_.nodes().is_full()) {
    if (const int error = co_await tree_.wait_for_room(who); error != 0) co_return failed(error);
  }
  if (S_ISREG(mode)) {
    auto file = co_await create(std::move(parent), std::move(name), mode, true, who);
    if (!file) co_return failed(file.error());
    co_return std::move(file->entry);
  }
  nfs3::sattr3 attributes;
  attributes.mode.set_mode(mode & 07777U);
  nfs3::MKNOD3args args{{parent->handle, name}, {}};
  if (S_ISFIFO(mode)) {
    args.what.set_pipe_attributes(nfs3::ftype3::NF3FIFO, attributes);
  } else if (S_ISSOCK(mode)) {
    args.what.set_pipe_attributes(nfs3::ftype3::NF3SOCK, attributes);
  } else if (S_ISCHR(mode) || S_ISBLK(mode)) {
    args.what.set_device(S_ISCHR(mode) ? nfs3::ftype3::NF3CHR : nfs3::ftype3::NF3BLK,
                         {attributes, device});
  } else {
    co_return failed(EINVAL);
  }
  bool was_repeated = false;
  Change change(tree_, *parent, name);
  auto reply = co_await tree_.calls().make_node(args, who.as(&was_repeated));
  if (!reply) co_return failed(error_of(reply.error()));
  change.end(nfs::directory_change(*reply));
  tree_.names().drop(parent->id, name);
  if (auto* const done = reply->resok()) {
    auto entry = co_await made(std::move(parent), std::move(name), std::move(done->obj),
                               std::move(done->obj_attributes),
                               {change.begun, change.ended, change.version}, who);
    co_return of_type(std::move(entry), args.what.type());
  }
  if (was_repeated && reply->status() == nfsstat3::NFS3ERR_EXIST) {
    auto found = co_await ask(std::move(parent), std::move(name), who);
    if (found && (!found->node || found->node->type != args.what.type())) co_return failed(EEXIST);
    co_return found;
  }
  co_return failed(tree_.refusal(*parent, reply->status()));
}

// GUARDED leaves a file alone that somebody else has made in the meantime. EXCLUSIVE may be
// repeated: the server knows its own file by the verifier, which it keeps in the file's times.
Task<Outcome<NameOperations::Created>> NameOperations::create(Hold parent, std::string name,
                                                              std::uint32_t mode, bool is_exclusive,
                                                              Who who) {
  if (tree_.nodes().is_full()) {
    if (const int error = co_await tree_.wait_for_room(who); error != 0) co_return failed(error);
  }
  nfs3::sattr3 attributes;
  attributes.mode.set_mode(mode & 07777U);
  nfs3::CREATE3args args{{parent->handle, name}, {}};
  if (is_exclusive) {
    args.how.set_verf(new_verifier());
  } else {
    args.how.set_obj_attributes(nfs3::createmode3::GUARDED, attributes);
  }
  Change change(tree_, *parent, name);
  auto reply = co_await tree_.calls().create(args, who.as());
  // A server need not be able to keep a verifier.
  const bool has_no_verifiers =
      is_exclusive && reply && reply->status() == nfsstat3::NFS3ERR_NOTSUPP;
  if (has_no_verifiers) {
    args.how.set_obj_attributes(nfs3::createmode3::GUARDED, attributes);
    reply = co_await tree_.calls().create(args, who.as());
  }
  if (!reply) co_return failed(error_of(reply.error()));
  change.end(nfs::directory_change(*reply));
  tree_.names().drop(parent->id, name);
  auto* const done = reply->resok();
  if (done == nullptr && (is_exclusive || reply->status() != nfsstat3::NFS3ERR_EXIST)) {
    co_return failed(tree_.refusal(*parent, reply->status()));
  }
  if (done == nullptr) {
    auto found = co_await ask(std::move(parent), std::move(name), who);
    if (!found) co_return failed(found.error());
    // ESTALE has the kernel look the name up, and follow a link or refuse a directory itself.
    if (!found->node || found->node->type != nfs3::ftype3::NF3REG) co_return failed(ESTALE);
    co_return Created{std::move(*found), false};
  }
  auto entry = co_await made(std::move(parent), std::move(name), std::move(done->obj),
                             std::move(done->obj_attributes),
                             {change.begun, change.ended, change.version}, who);
  entry = of_type(std::move(entry), nfs3::ftype3::NF3REG);
  if (!entry) co_return failed(entry.error());
  if (is_exclusive && !has_no_verifiers) {
    attributes.atime.set_void(nfs3::time_how::SET_TO_SERVER_TIME);
    attributes.mtime.set_void(nfs3::time_how::SET_TO_SERVER_TIME);
    const nfs3::SETATTR3args set{entry->node->handle, attributes, {}};
    Change of_file(*entry->node);
    auto was_set = co_await tree_.calls().set_attributes(set, who.as());
    if (!was_set) co_return failed(error_of(was_set.error()));
    if (was_set->resok() == nullptr)
      co_return failed(tree_.refusal(*entry->node, was_set->status()));
    of_file.end(&was_set->resok()->obj_wcc);
    if (of_file.after != nullptr) entry->attributes = *of_file.after;
    entry->version = of_file.after != nullptr ? of_file.version : AttributeCache::kNoVersion;
    entry->attributes_left = entry->node->attributes.left(Tree::now());
  }
  co_return Created{std::move(*entry), true};
}

Task<Outcome<Entry>> NameOperations::link(Hold file, Hold parent, std::string name, Who who) {
  if (tree_.nodes().is_full()) {
    if (const int error = co_await tree_.wait_for_room(who); error != 0) co_return failed(error);
  }
  const nfs3::LINK3args args{file->handle, {parent->handle, name}};
  bool was_repeated = false;
  Change change(tree_, *parent, name);
  Change of_file(*file);  // of its count of links, and its ctime
  auto reply = co_await tree_.calls().link(args, who.as(&was_repeated));
  if (!reply) co_return failed(error_of(reply.error()));
  if (const auto* const done = reply->resok()) {
    change.end(&done->linkdir_wcc);
  } else if (const auto* const refused = reply->resfail()) {
    change.end(&refused->linkdir_wcc);
  }
  of_file.end(nullptr);
  tree_.names().drop(parent->id, name);
  const bool may_be_ours = was_repeated && reply->status() == nfsstat3::NFS3ERR_EXIST;
  if (reply->resok() == nullptr && !may_be_ours) {
    co_return failed(error_of(reply->status()));
  }
  const std::uint64_t fileid = file->fileid;
  auto found = of_type(co_await ask(std::move(parent), std::move(name), who), file->type);
  if (!found) co_return failed(found.error());
  if (!found->node) co_return failed(ENOENT);
  if (may_be_ours && found->node->fileid != fileid) co_return failed(EEXIST);
  co_return found;
}

// --- Removing -----------------------------------------------------------------------------------

Task<Outcome<void>> NameOperations::remove(Hold parent, std::string name, Who who) {
  auto found = co_await find(tree_.nodes().find(parent->id), name, who);
  if (!found) co_return failed(found.error());
  if (!found->node) co_return failed(ENOENT);
  Hold file = std::move(found->node);
  co_await NamesOfOurs::wait_for_others(tree_.nodes().find(file->id));
  if (NamesOfOurs::are_needed(*file, *parent, name)) {
    co_return co_await ours_.put_aside(std::move(parent), std::move(file), std::move(name), who);
  }
  const NodeId directory = parent->id;
  auto removed = co_await remove_once(std::move(parent), name, who);
  if (removed) NodeTable::drop_name(*file, directory, name);
  file->attributes.expire();  // another name of it may be left
  co_return removed;
}

Task<Outcome<void>> NameOperations::remove_once(Hold parent, std::string name, Who who) {
  const nfs3::REMOVE3args args{{parent->handle, name}};
  bool was_repeated = false;
  Change change(*parent);
  auto reply = co_await tree_.calls().remove(args, who.as(&was_repeated));
  if (!reply) co_return failed(error_of(reply.error()));
  change.end(nfs::directory_change(*reply));
  tree_.names().drop(parent->id, name);
  if (was_repeated && reply->status() == nfsstat3::NFS3ERR_NOENT) co_return Outcome<void>();
  if (reply->resok() == nullptr) co_return failed(tree_.refusal(*parent, reply->status()));
  co_return Outcome<void>();
}

Task<Outcome<void>> NameOperations::remove_directory(Hold parent, std::string name, Who who) {
  const NodeId above = parent->id;
  const std::uint64_t gone = ours_.gone();
  auto removed = co_await remove_directory_once(std::move(parent), name, who);
  if (removed || removed.error() != ENOTEMPTY) co_return removed;
  auto found = co_await find(tree_.nodes().find(above), name, who);
  if (!found || !found->node) co_return removed;
  // Without one now, the one that was in the way may have gone since the server has looked.
  if (found->node->names_of_ours == 0 && ours_.gone() == gone) co_return removed;
  const bool is_worth_it = co_await ours_.wait_until_gone(std::move(found->node), who.deadline);
  parent = tree_.nodes().find(above);
  if (!is_worth_it || !parent) co_return removed;
  co_return co_await remove_directory_once(std::move(parent), std::move(name), who);
}

Task<Outcome<void>> NameOperations::remove_directory_once(Hold parent, std::string name, Who who) {
  const nfs3::RMDIR3args args{{parent->handle, name}};
  bool was_repeated = false;
  Change change(*parent);
  auto reply = co_await tree_.calls().remove_directory(args, who.as(&was_repeated));
  if (!reply) co_return failed(error_of(reply.error()));
  change.end(nfs::directory_change(*reply));
  tree_.names().drop(parent->id, name);
  if (was_repeated && reply->status() == nfsstat3::NFS3ERR_NOENT) co_return Outcome<void>();
  if (reply->resok() != nullptr) co_return Outcome<void>();
  // RFC 1813 has both; programs know the latter for directories that are not empty.
  if (reply->status() == nfsstat3::NFS3ERR_EXIST) co_return failed(ENOTEMPTY);
  co_return failed(tree_.refusal(*parent, reply->status()));
}

// --- Renaming -----------------------------------------------------------------------------------

Task<Outcome<AttributeCache::Point>> NameOperations::rename_once(Hold from, std::string name,
                                                                 Hold to, std::string new_name,
                                                                 std::uint64_t fileid, Who who,
                                                                 bool& is_refused) {
  const nfs3::RENAME3args args{{from->handle, name}, {to->handle, new_name}};
  bool was_repeated = false;
  const bool is_within_one = from->id == to->id;
  Change of_source(*from);
  std::optional<Change> of_target;
  if (!is_within_one) of_target.emplace(*to);
  tree_.note_possible(*to, new_name);
  auto reply = co_await tree_.calls().rename(args, who.as(&was_repeated));
  is_refused = reply.has_value() && !was_repeated;  // else the first one may have done it
  if (!reply) co_return failed(error_of(reply.error()));
  const auto* const done = reply->resok();
  of_source.end(done != nullptr ? &done->fromdir_wcc : nullptr);
  if (of_target) of_target->end(done != nullptr ? &done->todir_wcc : nullptr);
  tree_.names().drop(from->id, name);
  tree_.names().drop(to->id, new_name);
  if (done != nullptr) co_return is_within_one ? of_source.ended : of_target->ended;
  const int error = error_of(reply->status());
  if (was_repeated && reply->status() == nfsstat3::NFS3ERR_NOENT) {
    auto is_done = co_await exists_as(std::move(to), std::move(new_name), who, fileid);
    if (is_done && *is_done) co_return AttributeCache::Point{};
  }
  co_return failed(error);
}

Task<Outcome<void>> NameOperations::rename(Hold from, std::string name, Hold to,
                                           std::string new_name, Who who) {
  auto moved = co_await find(tree_.nodes().find(from->id), name, who);
  if (!moved) co_return failed(moved.error());
  if (!moved->node) co_return failed(ENOENT);
  Hold source = std::move(moved->node);
  auto replaced = co_await find(tree_.nodes().find(to->id), new_name, who);
  if (!replaced) co_return failed(replaced.error());
  Hold target = std::move(replaced->node);
  const bool is_same = target && target->id == source->id;
  if (target && !is_same) {
    co_await NamesOfOurs::wait_for_others(tree_.nodes().find(target->id));
  }
  const bool keeps = target && !is_same && source->type != nfs3::ftype3::NF3DIR &&
                     NamesOfOurs::are_needed(*target, *to, new_name);
  NamesOfOurs::Kept kept_by{};
  std::optional<NamesUnderWay> under_way;
  if (keeps) {
    under_way.emplace(tree_, tree_.nodes().find(target->id));
    auto kept = co_await ours_.keep(tree_.nodes().find(to->id), tree_.nodes().find(target->id),
                                    new_name, who);
    if (!kept) co_return failed(kept.error());
    kept_by = std::move(*kept);
  }
  const NodeId from_id = from->id;
  bool is_refused = false;
  auto renamed = co_await rename_once(std::move(from), name, tree_.nodes().find(to->id), new_name,
                                      source->fileid, who, is_refused);
  // The name may be the other file's, also where nobody knows: it is not removed any more.
  if (target && !is_same && (renamed || !is_refused)) ours_.forget(*target, to->id, new_name);
  if (!renamed && keeps) {
    co_await ours_.give_up(tree_.nodes().find(to->id), tree_.nodes().find(target->id), new_name,
                           kept_by, is_refused);
  }
  if (!renamed) co_return failed(renamed.error());
  if (keeps) NodeTable::drop_name(*target, to->id, new_name);
  if (target && !is_same) target->attributes.expire();
  source->attributes.expire();  // its ctime
  if (!is_same) ours_.forget(*source, from_id, name);
  NodeTable::drop_name(*source, from_id, name);
  tree_.nodes().note_name(*source, to->id, new_name);
  // A later change may have taken it away again.
  if (!to->attributes.is_overtaken(*renamed)) {
    tree_.names().note(to->id, new_name, source->id, to->attributes.version());
  }
  co_return Outcome<void>();
}

}  // namespace mounts
