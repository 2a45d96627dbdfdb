// Finding names, and making what has them.
#include <fcntl.h>
#include <limits.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "nfs/back_end/attributes.h"
#include "nfs/back_end/rights.h"
#include "nfs/back_end/verifier_times.h"
#include "nfs/ceph/call.h"

namespace nfs::ceph {
namespace {

using nfs3::nfsstat3;

mode_t mode_of(const nfs3::sattr3& attributes, mode_t otherwise) {
  const auto* const mode = attributes.mode.mode();
  return mode != nullptr ? *mode & 07777U : otherwise;
}

// Takes away what was made just now and is not what the caller asked for, unless the name is
// another file's by now. False: it is still there.
bool take_back(const Call& call, const Found& directory, const std::string& name,
               const Found& made) {
  const Found now = call.entry(directory, name);
  if (!now) return now.error == nfsstat3::NFS3ERR_NOENT;
  if (now.handle != made.handle) return true;
  const auto remove = S_ISDIR(made.status.st_mode) ? ceph_ll_rmdir : ceph_ll_unlink;
  if (remove(call.mount(), directory.inode.get(), component(name), call.identity()) < 0) {
    return false;
  }
  call.session().open_files().forget(made.handle);
  return true;
}

// Ends every procedure that makes a file: sets the attributes that were not given when it was made,
// waits for the disk, and fills in the results. If any of that fails, nothing is left of a file
// that is new.
enum class Age : std::uint8_t { kNew, kOld };
template <class Results>
Results made(const Call& call, const Found& directory, const std::string& name, const Found& file,
             nfs3::sattr3 attributes, Age age = Age::kNew) {
  using Success = std::remove_pointer_t<decltype(Results().resok())>;
  using Failure = std::remove_pointer_t<decltype(Results().resfail())>;
  // Only root gives files away, but any caller may name a group of its own. The caller that was
  // made nobody owns its files, whatever it asked for.
  if (const Caller& caller = call.caller(); caller.uid != 0) {
    attributes.uid = {};
    const auto* const gid = attributes.gid.gid();
    if (gid != nullptr && !is_in_group(caller, *gid)) attributes.gid = {};
  }
  nfsstat3 status = file.error;
  if (status == nfsstat3::NFS3_OK) status = set_attributes(call, file, attributes);
  if (status == nfsstat3::NFS3_OK) status = call.settle(file);
  if (status == nfsstat3::NFS3_OK) status = call.settle(directory);
  if (status != nfsstat3::NFS3_OK) {
    const bool is_left = file && age == Age::kNew && !take_back(call, directory, name, file);
    // A client that is asked to come back would find a file there.
    if (is_left && status == nfsstat3::NFS3ERR_JUKEBOX) status = nfsstat3::NFS3ERR_IO;
    return failed<Results>(status, Failure{call.change_of(directory)});
  }
  nfs3::post_op_fh3 handle;
  handle.set_handle(call.tree().sealed(file.handle));
  return succeeded<Results>(Success{handle, call.attributes_now(file), call.change_of(directory)});
}

// Returns whether the number fits into Linux's 12 bits of major and 20 bits of minor.
bool has_number(const nfs3::specdata3& device) {
  return device.specdata1 < 1U << 12U && device.specdata2 < 1U << 20U;
}

Found refused(nfsstat3 status) {
  Found none;
  none.error = status;
  return none;
}

// Finds the file that has the name already; fails unless it is a regular file.
Found existing_file(const Call& call, const Found& directory, const std::string& name) {
  Found file = call.entry(directory, name);
  if (file && !S_ISREG(file.status.st_mode)) file.error = nfsstat3::NFS3ERR_EXIST;
  return file;
}

// Stays open, for the WRITEs that follow.
Found create_new(const Call& call, const Found& directory, const std::string& name, mode_t mode) {
  const char* const one = component(name);
  if (one == nullptr) return refused(nfsstat3::NFS3ERR_ACCES);
  Inode* inode = nullptr;
  Fh* opened = nullptr;
  Statx status{};
  const int result =
      ceph_ll_create(call.mount(), directory.inode.get(), one, mode, O_CREAT | O_EXCL | O_RDWR,
                     &inode, &opened, &status, kAll, 0, call.identity());
  Found file = call.found(result, inode, status);
  if (file) call.session().open_files().adopt(file.handle, opened);
  return file;
}

nfs3::CREATE3res create_exclusive(const Call& call, const Found& directory, const std::string& name,
                                  const nfs3::createverf3& verifier) {
  const VerifierTimes times(verifier);
  Found file = create_new(call, directory, name, times.mode);
  const Age age = file ? Age::kNew : Age::kOld;
  nfs3::sattr3 attributes;
  if (file) {
    attributes.atime.set_atime_(time_of(times.access));
    attributes.mtime.set_mtime_(time_of(times.change));
  } else if (file.error == nfsstat3::NFS3ERR_EXIST) {
    // The client's own create, whose answer was lost, perhaps by another gateway; or somebody
    // else's file.
    file = existing_file(call, directory, name);
    if (file && !times.are_those_of(file.status)) file.error = nfsstat3::NFS3ERR_EXIST;
  }
  return made<nfs3::CREATE3res>(call, directory, name, file, attributes, age);
}

}  // namespace

nfs3::LOOKUP3res run(const Call& call, const nfs3::LOOKUP3args& args) {
  using Results = nfs3::LOOKUP3res;
  const Found directory = call.find_directory(args.what.dir);
  if (!directory) return failed<Results>(directory.error);
  const Found file = call.entry(directory, args.what.name);
  if (!file) {
    return failed<Results>(file.error, nfs3::LOOKUP3resfail{call.attributes_then(directory)});
  }
  return succeeded<Results>(nfs3::LOOKUP3resok{call.tree().sealed(file.handle),
                                               call.attributes_then(file),
                                               call.attributes_then(directory)});
}

nfs3::CREATE3res run(const Call& call, const nfs3::CREATE3args& args) {
  const Found directory = call.find_directory(args.where.dir);
  if (!directory) return failed<nfs3::CREATE3res>(directory.error);
  const std::string& name = args.where.name;
  if (const auto* const verifier = args.how.verf()) {
    return create_exclusive(call, directory, name, *verifier);
  }
  nfs3::sattr3 attributes = *args.how.obj_attributes();
  Found file = create_new(call, directory, name, mode_of(attributes, 0));
  const Age age = file ? Age::kNew : Age::kOld;
  if (file) {
    if ((mode_of(attributes, 0) & 07000U) == 0) attributes.mode = {};
  } else if (file.error == nfsstat3::NFS3ERR_EXIST &&
             args.how.mode() == nfs3::createmode3::UNCHECKED) {
    // As open(2) without O_EXCL: nothing of what is there changes but its length.
    file = existing_file(call, directory, name);
    nfs3::sattr3 length;
    length.size = attributes.size;
    attributes = length;
  }
  return made<nfs3::CREATE3res>(call, directory, name, file, attributes, age);
}

nfs3::MKDIR3res run(const Call& call, const nfs3::MKDIR3args& args) {
  const Found directory = call.find_directory(args.where.dir);
  if (!directory) return failed<nfs3::MKDIR3res>(directory.error);
  const char* const one = component(args.where.name);
  nfs3::sattr3 attributes = args.attributes;
  Inode* inode = nullptr;
  Statx status{};
  const int result = one == nullptr ? -EACCES
                                    : ceph_ll_mkdir(call.mount(), directory.inode.get(), one,
                                                    mode_of(attributes, 0777), &inode, &status,
                                                    kAll, 0, call.identity());
  attributes.size = {};
  // A new directory keeps the set-group-id bit that it inherits from its parent.
  if ((mode_of(attributes, 0) & 06000U) == 0) attributes.mode = {};
  return made<nfs3::MKDIR3res>(call, directory, args.where.name, call.found(result, inode, status),
                               attributes);
}

nfs3::SYMLINK3res run(const Call& call, const nfs3::SYMLINK3args& args) {
  const Found directory = call.find_directory(args.where.dir);
  if (!directory) return failed<nfs3::SYMLINK3res>(directory.error);
  const char* const one = component(args.where.name);
  const std::string target(args.symlink.symlink_data);
  Inode* inode = nullptr;
  Statx status{};
  int result = one == nullptr ? -EACCES : 0;
  if (target.empty() || target.find('\0') != std::string::npos) result = -EINVAL;
  if (target.size() >= PATH_MAX) result = -ENAMETOOLONG;  // as the clients' kernels
  if (result == 0) {
    result = ceph_ll_symlink(call.mount(), directory.inode.get(), one, target.c_str(), &inode,
                             &status, kAll, 0, call.identity());
  }
  nfs3::sattr3 attributes = args.symlink.symlink_attributes;
  attributes.mode = {};  // a link has none here
  attributes.size = {};
  return made<nfs3::SYMLINK3res>(call, directory, args.where.name,
                                 call.found(result, inode, status), attributes);
}

nfs3::MKNOD3res run(const Call& call, const nfs3::MKNOD3args& args) {
  const Found directory = call.find_directory(args.where.dir);
  if (!directory) return failed<nfs3::MKNOD3res>(directory.error);
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
    return made<nfs3::MKNOD3res>(call, directory, args.where.name,
                                 refused(nfsstat3::NFS3ERR_BADTYPE), {});
  }
  // The kernel asks for CAP_MKNOD; the library asks for nothing.
  const bool is_device = S_ISCHR(type) || S_ISBLK(type);
  const char* const one = component(args.where.name);
  int result = one == nullptr ? -EACCES : is_device && call.caller().uid != 0 ? -EPERM : 0;
  if (const auto* const node = args.what.device(); node != nullptr && !has_number(node->spec)) {
    result = -EINVAL;
  }
  Inode* inode = nullptr;
  Statx status{};
  if (result == 0) {
    result = ceph_ll_mknod(call.mount(), directory.inode.get(), one,
                           type | (mode_of(attributes, 0) & 0777U), device, &inode, &status, kAll,
                           0, call.identity());
  }
  attributes.size = {};
  if ((mode_of(attributes, 0) & 07000U) == 0) attributes.mode = {};
  return made<nfs3::MKNOD3res>(call, directory, args.where.name, call.found(result, inode, status),
                               attributes);
}

}  // namespace nfs::ceph
