// Taking names away, and giving others.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "nfs/back_end/attributes.h"
#include "nfs/posix/beneath.h"
#include "nfs/posix/calls.h"
#include "nfs/results.h"

namespace nfs::posix {
namespace {

using nfs3::nfsstat3;

// The file that has a name before the name is removed.
struct Behind {
  Behind(Tree& tree, const Found& directory, const std::string& name)
      : file(open_beneath(directory.file->path(), name)) {
    if (file.is_open()) handle = tree.handles().of(file, directory.file->handle(), name);
  }
  files::File file;
  std::optional<InnerHandle> handle;
};

// Closes the file, so that nothing keeps its data on the disk. If the file has other names, the
// next call opens it anew.
void forget(Tree& tree, const Behind& taken) {
  if (!taken.handle) return;
  tree.open_files().forget(*taken.handle);
  const auto status = taken.file.status();
  if (status && (status->st_nlink == 0 || S_ISDIR(status->st_mode))) {
    tree.handles().removed(*taken.handle);
  }
}

template <class Results, class Success, class Failure>
Results take_away(Tree& tree, const Caller& caller, const nfs3::diropargs3& object, int flags) {
  DirectoryChange change(tree, object.dir);
  if (!change) return failed<Results>(change.error());
  const Found& directory = change.directory();
  nfsstat3 status = tree.may_take_away(caller, directory, object.name);
  if (status == nfsstat3::NFS3_OK) {
    const Behind taken(tree, directory, object.name);
    if (::unlinkat(directory.descriptor(), component(object.name), flags) != 0) {
      status = status_of(errno);
    } else {
      forget(tree, taken);
    }
  }
  nfs3::wcc_data wcc = change.end();
  if (status == nfsstat3::NFS3_OK && !tree.settle(directory)) status = status_of(errno);
  if (status != nfsstat3::NFS3_OK) return failed<Results>(status, Failure{std::move(wcc)});
  return succeeded<Results>(Success{std::move(wcc)});
}

// Both directories of a rename, which may be one, or share a lock.
struct TwoDirectories {
  TwoDirectories(Tree& tree, const nfs3::RENAME3args& args) {
    Found first = tree.find_directory(args.from.dir);
    Found second;
    if (first) {
      second = tree.find_directory(args.to.dir);
    } else {
      second.error = first.error;  // there is no file behind it
    }
    if (first && second) {
      std::mutex& one = tree.lock_of(first.file->handle());
      std::mutex& other = tree.lock_of(second.file->handle());
      // In the order of their addresses, so that two renames never wait for each other.
      lower = std::unique_lock(&one < &other ? one : other);
      if (&one != &other) upper = std::unique_lock(&one < &other ? other : one);
    }
    from.emplace(tree, std::move(first));
    to.emplace(tree, std::move(second));
  }
  nfsstat3 error() const {
    return from->error() != nfsstat3::NFS3_OK ? from->error() : to->error();
  }
  void unlock() {
    if (upper.owns_lock()) upper.unlock();
    if (lower.owns_lock()) lower.unlock();
  }

  std::unique_lock<std::mutex> lower, upper;
  std::optional<DirectoryChange> from, to;
};

}  // namespace

nfs3::REMOVE3res run(Tree& tree, const Caller& caller, const nfs3::REMOVE3args& args) {
  return take_away<nfs3::REMOVE3res, nfs3::REMOVE3resok, nfs3::REMOVE3resfail>(tree, caller,
                                                                               args.object, 0);
}

nfs3::RMDIR3res run(Tree& tree, const Caller& caller, const nfs3::RMDIR3args& args) {
  return take_away<nfs3::RMDIR3res, nfs3::RMDIR3resok, nfs3::RMDIR3resfail>(
      tree, caller, args.object, AT_REMOVEDIR);
}

nfs3::RENAME3res run(Tree& tree, const Caller& caller, const nfs3::RENAME3args& args) {
  using Results = nfs3::RENAME3res;
  TwoDirectories both(tree, args);
  nfsstat3 status = both.error();
  if (status != nfsstat3::NFS3_OK) return failed<Results>(status);
  const Found &from = both.from->directory(), &to = both.to->directory();
  status = tree.may_take_away(caller, from, args.from.name);
  if (status == nfsstat3::NFS3_OK) status = tree.may_take_away(caller, to, args.to.name);
  if (status == nfsstat3::NFS3ERR_NOENT) status = nfsstat3::NFS3_OK;  // nothing is replaced
  if (status == nfsstat3::NFS3_OK) {
    const Behind moved(tree, from, args.from.name), replaced(tree, to, args.to.name);
    // Two names of one file: rename(2) does nothing then.
    const bool is_the_same = replaced.handle && replaced.handle == moved.handle;
    const auto rename = [&] {
      return ::renameat(from.descriptor(), component(args.from.name), to.descriptor(),
                        component(args.to.name));
    };
    if (tree.handles().rename(rename, is_the_same ? std::nullopt : moved.handle, to.file->handle(),
                              args.to.name) != 0) {
      status = status_of(errno);
    } else if (!is_the_same) {
      forget(tree, replaced);
    }
  }
  nfs3::wcc_data from_wcc = both.from->attributes(), to_wcc = both.to->attributes();
  both.unlock();
  if (status == nfsstat3::NFS3_OK && !(tree.settle(to) && tree.settle(from))) {
    status = status_of(errno);
  }
  if (status != nfsstat3::NFS3_OK) {
    return failed<Results>(status, nfs3::RENAME3resfail{std::move(from_wcc), std::move(to_wcc)});
  }
  return succeeded<Results>(nfs3::RENAME3resok{std::move(from_wcc), std::move(to_wcc)});
}

nfs3::LINK3res run(Tree& tree, const Caller& caller, const nfs3::LINK3args& args) {
  using Results = nfs3::LINK3res;
  const Found file = tree.find(args.file);
  if (!file) return failed<Results>(file.error);
  if (!tree.prepare_to_settle(file)) return failed<Results>(status_of(errno));
  DirectoryChange change(tree, args.link.dir);
  if (!change) return failed<Results>(change.error());
  nfsstat3 status = tree.may_change_entries(caller, change.directory());
  if (status == nfsstat3::NFS3_OK && S_ISDIR(file.status.st_mode)) {
    status = nfsstat3::NFS3ERR_ISDIR;
  }
  if (status == nfsstat3::NFS3_OK) {
    // linkat(2) with AT_EMPTY_PATH needs a right that the caller has not.
    const std::string link = "/proc/self/fd/" + std::to_string(file.descriptor());
    if (::linkat(AT_FDCWD, link.c_str(), change.directory().descriptor(), component(args.link.name),
                 AT_SYMLINK_FOLLOW) != 0) {
      status = status_of(errno);
    }
  }
  nfs3::wcc_data wcc = change.end();
  if (status == nfsstat3::NFS3_OK && !(tree.settle(file) && tree.settle(change.directory()))) {
    status = status_of(errno);
  }
  if (status != nfsstat3::NFS3_OK) {
    return failed<Results>(status, nfs3::LINK3resfail{tree.attributes_now(file), std::move(wcc)});
  }
  return succeeded<Results>(nfs3::LINK3resok{tree.attributes_now(file), std::move(wcc)});
}

}  // namespace nfs::posix
