// READDIR and READDIRPLUS.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>

#include "nfs/back_end/attributes.h"
#include "nfs/back_end/listing_answer.h"
#include "nfs/posix/beneath.h"
#include "nfs/posix/calls.h"
#include "nfs/results.h"

namespace nfs::posix {
namespace {

using nfs3::nfsstat3;

// Calls `take(entry)` for the entries behind the cookie until it returns false.
ListingEnd for_each_entry(Tree& tree, const Found& directory, std::uint64_t cookie,
                          const std::function<bool(const DirectoryEntry&)>& take) {
  // As the caller, who needs the right to read it, but not to search it, which "." would take; and
  // by a descriptor that has its own position.
  const files::File opened("/proc/self/fd/" + std::to_string(directory.descriptor()),
                           O_RDONLY | O_DIRECTORY);
  if (!opened.is_open()) return ListingEnd::kError;
  if (tree.has_stable_positions()) return for_each_by_position(opened, cookie, take);
  constexpr std::size_t kEntriesMax = 2400;  // more do not go into an answer
  const auto page =
      tree.listings().page(directory.file->handle(), opened, directory.status, cookie, kEntriesMax);
  if (!page) return ListingEnd::kError;
  for (const DirectoryEntry& entry : page->entries) {
    if (!take(entry)) return ListingEnd::kStopped;
  }
  return page->is_last ? ListingEnd::kAll : ListingEnd::kStopped;
}

// Reports the directory's own number for the ".." of the export, so that nothing above is
// disclosed.
std::uint64_t fileid_of(const Tree& tree, const Found& directory, const DirectoryEntry& entry) {
  const bool is_outside = entry.name == ".." && directory.file->handle() == tree.root();
  return is_outside ? directory.status.st_ino : entry.fileid;
}

template <class Args, class MakeEntry>
auto read_directory(Tree& tree, const Caller& caller, const Args& args, MakeEntry make_entry) {
  using Results = typename ListingTypes<Args>::Results;
  using Failure = typename ListingTypes<Args>::Failure;
  const Found directory = tree.find_directory(args.dir);
  if (!directory) return failed<Results>(directory.error);
  const auto attributes = [&] { return tree.attributes_now(directory); };
  const nfsstat3 refused = tree.may(caller, directory, kRead);
  if (refused != nfsstat3::NFS3_OK) return failed<Results>(refused, Failure{attributes()});
  nfsstat3 error = nfsstat3::NFS3_OK;
  const auto list = [&](const auto& add) {
    const ListingEnd end = for_each_entry(
        tree, directory, args.cookie,
        [&](const DirectoryEntry& entry) { return add(make_entry(directory, entry), entry.name); });
    // The file system takes the cookie for no position in a directory.
    const bool is_no_cookie = errno == EINVAL && args.cookie != 0;
    error = is_no_cookie ? nfsstat3::NFS3ERR_BAD_COOKIE : status_of(errno);
    return end;
  };
  return answer_listing(args, attributes, list, error);
}

}  // namespace

nfs3::READDIR3res run(Tree& tree, const Caller& caller, const nfs3::READDIR3args& args) {
  return read_directory(
      tree, caller, args, [&](const Found& directory, const DirectoryEntry& entry) {
        return nfs3::entry3{fileid_of(tree, directory, entry), entry.name, entry.cookie};
      });
}

nfs3::READDIRPLUS3res run(Tree& tree, const Caller& caller, const nfs3::READDIRPLUS3args& args) {
  // Attributes are for those who may look names up.
  std::optional<bool> may_search;
  const auto complete = [&](const Found& directory, const DirectoryEntry& entry,
                            nfs3::entryplus3& made) {
    if (!may_search) may_search = tree.may(caller, directory, kExecute) == nfsstat3::NFS3_OK;
    if (!*may_search || entry.name == "..") return;
    if (entry.name == ".") {
      made.name_attributes = tree.attributes_now(directory);
      made.name_handle.set_handle(tree.sealed(directory.file->handle()));
      return;
    }
    // Not into the table of open files, which one large directory would empty.
    const files::File file = open_beneath(directory.file->path(), entry.name);
    const auto status = file.is_open() ? file.status() : std::nullopt;
    if (!status) return;  // it is gone, or another file system is mounted there
    const auto handle = tree.handles().of(file, directory.file->handle(), entry.name);
    if (!handle) return;
    made.name_attributes = after(*status, tree.fsid());
    made.name_handle.set_handle(tree.sealed(*handle));
  };
  return read_directory(
      tree, caller, args, [&](const Found& directory, const DirectoryEntry& entry) {
        nfs3::entryplus3 made{fileid_of(tree, directory, entry), entry.name, entry.cookie, {}, {}};
        complete(directory, entry, made);
        return made;
      });
}

}  // namespace nfs::posix
