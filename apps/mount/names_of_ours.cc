#include "mount/names_of_ours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "mount/change.h"

namespace mounts {
namespace {

using nfs3::nfsstat3;

// The kernel may ask to remove a directory before it says that the last file in it was closed.
constexpr Clock::duration kWaitForCloses = std::chrono::seconds(1);
constexpr Clock::duration kWaitForRemovals = std::chrono::seconds(10);
constexpr Clock::duration kPause = std::chrono::milliseconds(5);
constexpr int kAttemptsMax = 3;  // at a server that does not answer
constexpr Clock::duration kBetweenAttempts = std::chrono::milliseconds(500);

bool is_this(const NameOfOurs& ours, NodeId directory, std::string_view name) {
  return ours.directory == directory && ours.name == name;
}

}  // namespace

// One that may be there is tried again: it is the file's then, and no second one is left.
std::string NamesOfOurs::name_for(const Node& file, const Node& parent, std::string_view name) {
  const auto tried = std::ranges::find_if(file.ours, [&](const NameOfOurs& each) {
    return !each.is_certain && each.directory == parent.id && each.name != name;
  });
  if (tried != file.ours.end()) return tried->name;
  if (last_ == 0) last_ = std::random_device()();
  return fmt::format(".nfs{:016x}{:08x}", file.fileid, ++last_ & 0xFFFFFFFFU);
}

// A file with a name of ours keeps its bytes by that, whichever of its other names go.
bool NamesOfOurs::are_needed(const Node& file, const Node& parent, std::string_view name) {
  if (file.opened == 0 || file.type != nfs3::ftype3::NF3REG) return false;
  return std::ranges::none_of(file.ours, [&](const NameOfOurs& each) {
    return each.is_certain && !is_this(each, parent.id, name);
  });
}

Task<void> NamesOfOurs::wait_for_others(Hold file) {
  while (file->names_under_way > 0) co_await file->news;
}

void NamesOfOurs::note(Node& file, Node& parent, const std::string& ours, Who who,
                       bool is_certain) {
  std::erase_if(file.ours, [&](const NameOfOurs& each) {
    const bool is_same = is_this(each, parent.id, ours);
    if (is_same && parent.names_of_ours > 0) --parent.names_of_ours;
    return is_same;
  });
  NameOfOurs& made = file.ours.emplace_back(
      NameOfOurs{ours, is_certain, parent.id, parent.handle, who.uid, std::nullopt});
  if (who.credential != nullptr) made.credential = *who.credential;
  ++parent.names_of_ours;
}

void NamesOfOurs::forget(Node& file, NodeId directory, std::string_view name) {
  const auto count = std::erase_if(
      file.ours, [&](const NameOfOurs& each) { return is_this(each, directory, name); });
  if (count > 0) note_gone(directory);
}

// A directory that the table had forgotten meanwhile begins at none.
void NamesOfOurs::note_gone(NodeId directory) {
  ++gone_;
  const Hold parent = tree_.nodes().find(directory);
  if (parent && parent->names_of_ours > 0) --parent->names_of_ours;
}

Task<Outcome<void>> NamesOfOurs::rename(Hold parent, std::string name, std::string new_name,
                                        Who who, bool& is_answered) {
  const nfs3::RENAME3args args{{parent->handle, name}, {parent->handle, new_name}};
  bool was_repeated = false;
  Change change(tree_, *parent, new_name);
  auto reply = co_await tree_.calls().rename(args, who.as(&was_repeated));
  is_answered = reply.has_value();
  if (!reply) co_return failed(error_of(reply.error()));
  const bool may_be_done = was_repeated && reply->status() == nfsstat3::NFS3ERR_NOENT;
  if (reply->resok() == nullptr && !may_be_done) co_return failed(error_of(reply->status()));
  change.end(reply->resok() != nullptr ? &reply->resok()->todir_wcc : nullptr);
  tree_.names().drop(parent->id, name);
  tree_.names().drop(parent->id, new_name);
  co_return Outcome<void>();
}

Task<Outcome<void>> NamesOfOurs::put_aside(Hold parent, Hold file, std::string name, Who who) {
  const NamesUnderWay under_way(tree_, tree_.nodes().find(file->id));
  const std::string ours = name_for(*file, *parent, name);
  bool is_answered = false;
  auto renamed = co_await rename(tree_.nodes().find(parent->id), name, ours, who, is_answered);
  if (!renamed && is_answered) co_return renamed;
  note(*file, *parent, ours, who, renamed.has_value());
  if (!renamed) co_return renamed;
  forget(*file, parent->id, name);
  NodeTable::drop_name(*file, parent->id, name);
  file->attributes.expire();
  co_return Outcome<void>();
}

Task<Outcome<NamesOfOurs::Kept>> NamesOfOurs::keep(Hold parent, Hold file, std::string name,
                                                   Who who) {
  const std::string ours = name_for(*file, *parent, name);
  const bool may_be_there = std::ranges::any_of(
      file->ours, [&](const NameOfOurs& each) { return is_this(each, parent->id, ours); });
  {
    const nfs3::LINK3args args{file->handle, {parent->handle, ours}};
    bool was_repeated = false;
    Change change(tree_, *parent, ours);
    Change of_file(*file);  // of its count of links, and its ctime
    auto reply = co_await tree_.calls().link(args, who.as(&was_repeated));
    const bool is_done =
        reply && (reply->resok() != nullptr ||
                  ((was_repeated || may_be_there) && reply->status() == nfsstat3::NFS3ERR_EXIST));
    if (reply && reply->resok() != nullptr) change.end(&reply->resok()->linkdir_wcc);
    // A name that may be there goes with the last close.
    if (!reply || is_done) note(*file, *parent, ours, who, is_done);
    if (!reply) co_return failed(error_of(reply.error()));
    if (is_done) co_return Kept{Way::kLink, ours};
  }
  bool is_answered = false;
  auto renamed = co_await rename(tree_.nodes().find(parent->id), name, ours, who, is_answered);
  // The only name of the file may be ours then: it stays, since nobody has removed the file.
  if (!renamed) co_return failed(renamed.error());
  note(*file, *parent, ours, who, true);
  forget(*file, parent->id, name);
  NodeTable::drop_name(*file, parent->id, name);
  file->attributes.expire();
  co_return Kept{Way::kRename, ours};
}

Task<void> NamesOfOurs::give_up(Hold parent, Hold file, std::string name, Kept kept,
                                bool is_refused) {
  // Where nobody knows, the last close removes a link: the file has its own name as well, or none.
  if (kept.way == Way::kLink && !is_refused) co_return;
  const auto noted = std::ranges::find_if(
      file->ours, [&](const NameOfOurs& each) { return is_this(each, parent->id, kept.ours); });
  if (noted == file->ours.end()) co_return;
  NameOfOurs ours = std::move(*noted);
  file->ours.erase(noted);
  if (kept.way == Way::kLink) {
    co_await remove_one(std::move(ours));
    co_return;
  }
  note_gone(ours.directory);
  if (!is_refused) co_return;
  // The request may have no time left; the name goes back all the same.
  const Who owner{ours.uid, ours.credential ? &*ours.credential : nullptr};
  bool is_answered = false;
  (void)co_await rename(std::move(parent), ours.name, std::move(name), owner, is_answered);
}

Task<void> NamesOfOurs::remove(Hold file) {
  std::vector<Task<void>> removals;
  for (NameOfOurs& each : std::exchange(file->ours, {})) {
    removals.push_back(remove_one(std::move(each)));
    removals.back().start();
  }
  for (Task<void>& each : removals) co_await std::move(each);
}

Task<void> NamesOfOurs::remove_one(NameOfOurs ours) {
  for (int attempt = 1; !co_await remove_once(ours) && attempt < kAttemptsMax; ++attempt) {
    co_await tree_.turns().pause(kBetweenAttempts);
  }
  note_gone(ours.directory);
}

// Returns false if the server has not answered.
Task<bool> NamesOfOurs::remove_once(const NameOfOurs& ours) {
  const nfs3::REMOVE3args args{{ours.directory_handle, ours.name}};
  // All attempts together take no longer than one call may: unmounting waits for them.
  const auto patience = tree_.server().call_maker().patience();
  const Who remover{ours.uid, ours.credential ? &*ours.credential : nullptr,
                    Tree::now() + patience / kAttemptsMax};
  const Hold parent = tree_.nodes().find(ours.directory);
  std::optional<Change> change;
  if (parent) change.emplace(*parent);
  auto reply = co_await tree_.calls().remove(args, remover.as());
  if (change) change->end(reply ? nfs::directory_change(*reply) : nullptr);
  tree_.names().drop(ours.directory, ours.name);
  co_return reply.has_value();
}

Task<bool> NamesOfOurs::wait_until_gone(Hold directory, Time deadline) {
  const Time begun = Tree::now();
  const auto is_worth_it = [&] {
    const bool some_go = directory->names_that_go > 0;
    return Tree::now() < std::min(begun + (some_go ? kWaitForRemovals : kWaitForCloses), deadline);
  };
  while (directory->names_of_ours > 0 && is_worth_it()) co_await tree_.turns().pause(kPause);
  co_return directory->names_of_ours == 0;
}

}  // namespace mounts
