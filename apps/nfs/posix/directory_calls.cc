// READDIR and READDIRPLUS.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>

#include "nfs/posix/attributes.h"
#include "nfs/posix/beneath.h"
#include "nfs/posix/calls.h"
#include "nfs/results.h"

namespace nfs::posix {
namespace {

using nfs3::nfsstat3;

// Cookies stay right for ever, so that one verifier is enough for all directories.
constexpr nfs3::cookieverf3 kVerifier{};
constexpr std::uint64_t kLinkSize = 4;  // "another entry follows", bytes

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

// Nothing of what is above the export is told.
std::uint64_t fileid_of(const Tree& tree, const Found& directory, const DirectoryEntry& entry) {
  const bool is_outside = entry.name == ".." && directory.file->handle() == tree.root();
  return is_outside ? directory.status.st_ino : entry.fileid;
}

// How much of the answer is taken by what is in it so far, and what may be in it.
struct Room {
  std::uint64_t names_left;  // bytes of file ids, names and cookies
  std::uint64_t left;        // bytes of XDR

  bool take(std::uint64_t size, std::uint64_t size_of_names) {
    if (size > left || size_of_names > names_left) return false;
    left -= size;
    names_left -= size_of_names;
    return true;
  }
};

template <class Results, class Success, class Failure, class Args, class MakeEntry>
Results read_directory(Tree& tree, const Caller& caller, const Args& args, Room room,
                       MakeEntry make_entry) {
  const Found directory = tree.find_directory(args.dir);
  if (!directory) return failed<Results>(directory.error);
  const auto fail = [&](nfsstat3 status) {
    return failed<Results>(status, Failure{after(directory.status, tree.fsid())});
  };
  const nfsstat3 refused = tree.may(caller, directory, kRead);
  if (refused != nfsstat3::NFS3_OK) return fail(refused);
  if (args.cookie != 0 && args.cookieverf != kVerifier) return fail(nfsstat3::NFS3ERR_BAD_COOKIE);
  Results results;
  Success& success = results.set_resok();
  success.dir_attributes = after(directory.status, tree.fsid());
  success.cookieverf = kVerifier;
  success.reply.eof = false;
  const std::uint64_t size_of_none = encoded_size(results);
  if (size_of_none > room.left) return fail(nfsstat3::NFS3ERR_TOOSMALL);
  room.left -= size_of_none;
  const ListingEnd end =
      for_each_entry(tree, directory, args.cookie, [&](const DirectoryEntry& entry) {
        auto made = make_entry(directory, entry);
        const std::uint64_t names = 8 + 4 + ((entry.name.size() + 3) & ~std::size_t{3}) + 8;
        if (!room.take(encoded_size(made) + kLinkSize, names)) return false;
        success.reply.entries.push_back(std::move(made));
        return true;
      });
  if (end == ListingEnd::kError) {
    // The file system takes the cookie for no position in a directory.
    const bool is_no_cookie = errno == EINVAL && args.cookie != 0;
    return fail(is_no_cookie ? nfsstat3::NFS3ERR_BAD_COOKIE : status_of(errno));
  }
  if (end == ListingEnd::kStopped && success.reply.entries.empty()) {
    return fail(nfsstat3::NFS3ERR_TOOSMALL);
  }
  success.reply.eof = end == ListingEnd::kAll;
  return results;
}

}  // namespace

nfs3::READDIR3res run(Tree& tree, const Caller& caller, const nfs3::READDIR3args& args) {
  return read_directory<nfs3::READDIR3res, nfs3::READDIR3resok, nfs3::READDIR3resfail>(
      tree, caller, args, Room{args.count, args.count},
      [&](const Found& directory, const DirectoryEntry& entry) {
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
      made.name_attributes = after(directory.status, tree.fsid());
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
  return read_directory<nfs3::READDIRPLUS3res, nfs3::READDIRPLUS3resok, nfs3::READDIRPLUS3resfail>(
      tree, caller, args, Room{args.dircount, args.maxcount},
      [&](const Found& directory, const DirectoryEntry& entry) {
        nfs3::entryplus3 made{fileid_of(tree, directory, entry), entry.name, entry.cookie, {}, {}};
        complete(directory, entry, made);
        return made;
      });
}

}  // namespace nfs::posix
