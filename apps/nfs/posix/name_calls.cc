// Finding names, and making what has them.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "nfs/back_end/attributes.h"
#include "nfs/back_end/verifier_times.h"
#include "nfs/posix/beneath.h"
#include "nfs/posix/calls.h"
#include "nfs/results.h"

namespace nfs::posix {
namespace {

using nfs3::nfsstat3;

nfs3::post_op_fh3 handle_of(const Tree& tree, const Found& file) {
  nfs3::post_op_fh3 result;
  result.set_handle(tree.sealed(file.file->handle()));
  return result;
}

mode_t mode_of(const nfs3::sattr3& attributes, mode_t otherwise) {
  const auto* const mode = attributes.mode.mode();
  return mode != nullptr ? *mode & 07777U : otherwise;
}

// The outcome of making a file, and the new file, if it is open, for reading and writing.
struct Making {
  nfsstat3 status = nfsstat3::NFS3_OK;
  files::File opened{};
  bool is_new = true;  // else the name was there before
};

// Returns what was just made; takes no descriptor for that.
std::optional<struct stat> status_of_made(const DirectoryChange& change, const std::string& name,
                                          const Making& making) {
  if (!making.is_new) return std::nullopt;
  if (making.opened.is_open()) return making.opened.status();
  struct stat status {};
  const bool is_made = making.status == nfsstat3::NFS3_OK &&
                       ::fstatat(change.directory().descriptor(), component(name), &status,
                                 AT_SYMLINK_NOFOLLOW) == 0;
  return is_made ? std::optional(status) : std::nullopt;
}

// Takes away what was made just now and is not what the caller asked for, unless the name is
// another file's by now. False: it is still there.
bool take_back(Tree& tree, const DirectoryChange& change, const std::string& name,
               const struct stat& made, const Found& file) {
  const int directory = change.directory().descriptor();
  struct stat status {};
  if (::fstatat(directory, component(name), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT;
  }
  if (status.st_ino != made.st_ino || status.st_dev != made.st_dev) return true;
  if (::unlinkat(directory, component(name), S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0) != 0) {
    return false;
  }
  if (file) {
    tree.open_files().forget(file.file->handle());
    tree.handles().removed(file.file->handle());
  }
  return true;
}

// Finds a file that was just made by its open descriptor: its name may be another file's already.
// The descriptor stays open for the WRITEs that follow, for which the file's mode may forbid the
// server to open it.
Found find_made(Tree& tree, const Caller& caller, const DirectoryChange& change,
                const std::string& name, Making making) {
  if (!making.opened.is_open()) return tree.entry(caller, change.directory(), name);
  Found found = tree.known(reopened(making.opened, O_PATH), change.directory(), name);
  if (found) found.file->adopt(std::move(making.opened));
  return found;
}

// Leaves out an owner that only root could give the new file, and a group that the caller is not
// in: who was made nobody owns what it makes, whatever it asked for.
void keep_what_may_be_given(const Caller& caller, nfs3::sattr3& attributes) {
  if (caller.uid == 0 && can_take_identities()) return;
  attributes.uid = {};
  const auto* const gid = attributes.gid.gid();
  const bool may_be_given =
      gid != nullptr && is_in_group(caller, *gid) && is_in_group(kernel_sees(caller), *gid);
  if (!may_be_given) attributes.gid = {};
}

// Ends every procedure that makes a file: sets the attributes that were not given when it was made,
// waits for the disk, and fills in the results. If anything of that fails, also for want of
// descriptors or of room for the handle, nothing is left of the file.
template <class Results>
Results made(Tree& tree, const Caller& caller, DirectoryChange& change, const std::string& name,
             nfs3::sattr3 attributes, Making making) {
  using Success = std::remove_pointer_t<decltype(Results().resok())>;
  using Failure = std::remove_pointer_t<decltype(Results().resfail())>;
  keep_what_may_be_given(caller, attributes);
  Found file;
  nfsstat3 status = making.status;
  const auto what_was_made = status_of_made(change, name, making);
  if (status == nfsstat3::NFS3_OK) {
    file = find_made(tree, caller, change, name, std::move(making));
    status = file ? set_attributes(caller, tree, file, attributes) : file.error;
  }
  if (status == nfsstat3::NFS3_OK) {
    nfs3::wcc_data wcc = change.end();
    if (tree.settle(file) && tree.settle(change.directory())) {
      return succeeded<Results>(
          Success{handle_of(tree, file), tree.attributes_now(file), std::move(wcc)});
    }
    status = status_of(errno);
    change.begin_again();
  }
  const bool is_left = what_was_made && !take_back(tree, change, name, *what_was_made, file);
  // A client that is asked to come back would find a file there.
  if (is_left && status == nfsstat3::NFS3ERR_JUKEBOX) status = nfsstat3::NFS3ERR_IO;
  return failed<Results>(status, Failure{change.attributes()});
}

template <class Results, class Failure>
Results refused(const DirectoryChange& change, nfsstat3 status) {
  return failed<Results>(status, Failure{change.attributes()});
}

nfsstat3 made_or_errno(int result) {
  return result >= 0 ? nfsstat3::NFS3_OK : status_of(errno);
}

// Finds the file that has the name already; fails unless it is a regular file.
Found existing_file(Tree& tree, const Caller& caller, const DirectoryChange& change,
                    const std::string& name) {
  Found file = tree.entry(caller, change.directory(), name);
  if (file && !S_ISREG(file.status.st_mode)) file.error = nfsstat3::NFS3ERR_EXIST;
  return file;
}

// Always by O_EXCL first: opening what is there may be opening a device or a FIFO.
int create_new(const DirectoryChange& change, const std::string& name, mode_t mode) {
  return ::openat(change.directory().descriptor(), component(name),
                  O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, mode);
}

nfs3::CREATE3res create_exclusive(Tree& tree, const Caller& caller, DirectoryChange& change,
                                  const std::string& name, const nfs3::createverf3& verifier) {
  const VerifierTimes times(verifier);
  files::File file(create_new(change, name, times.mode));
  nfsstat3 status = file.is_open() ? nfsstat3::NFS3_OK : status_of(errno);
  if (file.is_open()) {
    const timespec both[] = {times.access, times.change};  // NOLINT(modernize-avoid-c-arrays)
    status = made_or_errno(::futimens(file.descriptor(), both));
  } else if (status == nfsstat3::NFS3ERR_EXIST) {
    // The client's own create, whose answer was lost, or somebody else's file.
    const Found found = existing_file(tree, caller, change, name);
    const bool is_its_own = found && times.are_those_of(found.status);
    status = is_its_own ? nfsstat3::NFS3_OK : found ? nfsstat3::NFS3ERR_EXIST : found.error;
  }
  const bool is_new = file.is_open();
  return made<nfs3::CREATE3res>(tree, caller, change, name, {}, {status, std::move(file), is_new});
}

}  // namespace

nfs3::LOOKUP3res run(Tree& tree, const Caller& caller, const nfs3::LOOKUP3args& args) {
  using Results = nfs3::LOOKUP3res;
  const Found directory = tree.find_directory(args.what.dir);
  if (!directory) return failed<Results>(directory.error);
  const Found file = tree.entry(caller, directory, args.what.name);
  if (!file) {
    return failed<Results>(file.error, nfs3::LOOKUP3resfail{after(directory.status, tree.fsid())});
  }
  return succeeded<Results>(nfs3::LOOKUP3resok{tree.sealed(file.file->handle()),
                                               after(file.status, tree.fsid()),
                                               after(directory.status, tree.fsid())});
}

nfs3::CREATE3res run(Tree& tree, const Caller& caller, const nfs3::CREATE3args& args) {
  using Results = nfs3::CREATE3res;
  using Failure = nfs3::CREATE3resfail;
  DirectoryChange change(tree, args.where.dir);
  if (!change) return failed<Results>(change.error());
  nfsstat3 status = tree.may_change_entries(caller, change.directory());
  if (status != nfsstat3::NFS3_OK) return refused<Results, Failure>(change, status);
  const std::string& name = args.where.name;
  if (const auto* const verifier = args.how.verf()) {
    return create_exclusive(tree, caller, change, name, *verifier);
  }
  nfs3::sattr3 attributes = *args.how.obj_attributes();
  files::File file(create_new(change, name, mode_of(attributes, 0)));
  status = file.is_open() ? nfsstat3::NFS3_OK : status_of(errno);
  if (file.is_open()) {
    // The kernel takes the set-group-id bit away when the file gets another group.
    if ((mode_of(attributes, 0) & 07000U) == 0) attributes.mode = {};
  } else if (status == nfsstat3::NFS3ERR_EXIST && args.how.mode() == nfs3::createmode3::UNCHECKED) {
    // As open(2) without O_EXCL: nothing of what is there changes but its length.
    const Found found = existing_file(tree, caller, change, name);
    status = found.error;
    nfs3::sattr3 length;
    length.size = attributes.size;
    attributes = length;
  }
  const bool is_new = file.is_open();
  return made<Results>(tree, caller, change, name, attributes, {status, std::move(file), is_new});
}

nfs3::MKDIR3res run(Tree& tree, const Caller& caller, const nfs3::MKDIR3args& args) {
  using Results = nfs3::MKDIR3res;
  DirectoryChange change(tree, args.where.dir);
  if (!change) return failed<Results>(change.error());
  nfsstat3 status = tree.may_change_entries(caller, change.directory());
  nfs3::sattr3 attributes = args.attributes;
  attributes.size = {};
  if (status == nfsstat3::NFS3_OK) {
    status = made_or_errno(::mkdirat(change.directory().descriptor(), component(args.where.name),
                                     mode_of(attributes, 0777)));
    // A new directory keeps the set-group-id bit that it inherits from its parent.
    if ((mode_of(attributes, 0) & 06000U) == 0) attributes.mode = {};
  }
  return made<Results>(tree, caller, change, args.where.name, attributes, {status});
}

nfs3::SYMLINK3res run(Tree& tree, const Caller& caller, const nfs3::SYMLINK3args& args) {
  using Results = nfs3::SYMLINK3res;
  DirectoryChange change(tree, args.where.dir);
  if (!change) return failed<Results>(change.error());
  nfsstat3 status = tree.may_change_entries(caller, change.directory());
  const std::string target(args.symlink.symlink_data);
  if (status == nfsstat3::NFS3_OK) {
    status = target.empty() || target.find('\0') != std::string::npos
                 ? nfsstat3::NFS3ERR_INVAL
                 : made_or_errno(::symlinkat(target.c_str(), change.directory().descriptor(),
                                             component(args.where.name)));
  }
  nfs3::sattr3 attributes = args.symlink.symlink_attributes;
  attributes.mode = {};  // a link has none here
  attributes.size = {};
  return made<Results>(tree, caller, change, args.where.name, attributes, {status});
}

nfs3::MKNOD3res run(Tree& tree, const Caller& caller, const nfs3::MKNOD3args& args) {
  using Results = nfs3::MKNOD3res;
  DirectoryChange change(tree, args.where.dir);
  if (!change) return failed<Results>(change.error());
  nfsstat3 status = tree.may_change_entries(caller, change.directory());
  nfs3::sattr3 attributes;
  mode_t type = 0;
  dev_t device = 0;
  if (const auto* const node = args.what.device()) {
    type = args.what.type() == nfs3::ftype3::NF3CHR ? S_IFCHR : S_IFBLK;
    attributes = node->dev_attributes;
    device = makedev(node->spec.specdata1, node->spec.specdata2);
  } else if (const auto* const pipe = args.what.pipe_attributes()) {
    type = args.what.type() == nfs3::ftype3::NF3SOCK ? S_IFSOCK : S_IFIFO;
    attributes = *pipe;
  } else {
    status = nfsstat3::NFS3ERR_BADTYPE;
  }
  attributes.size = {};
  if (status == nfsstat3::NFS3_OK) {
    status = made_or_errno(::mknodat(change.directory().descriptor(), component(args.where.name),
                                     type | (mode_of(attributes, 0) & 0777U), device));
    if ((mode_of(attributes, 0) & 07000U) == 0) attributes.mode = {};
  }
  return made<Results>(tree, caller, change, args.where.name, attributes, {status});
}

}  // namespace nfs::posix
