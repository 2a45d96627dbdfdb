#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>
#include <string>

#include "nfs/posix/attributes.h"
#include "nfs/posix/calls.h"
#include "nfs/results.h"

namespace nfs::posix {
namespace {

using nfs3::nfsstat3;
using nfs3::time_how;

constexpr std::uint64_t kSizeMax = std::numeric_limits<std::int64_t>::max();

nfsstat3 status_of_last(int result) {
  return result == 0 ? nfsstat3::NFS3_OK : status_of(errno);
}

nfsstat3 set_size(const Caller& caller, const Tree& tree, const Found& file, std::uint64_t size) {
  if (S_ISDIR(file.status.st_mode)) return nfsstat3::NFS3ERR_ISDIR;
  if (!S_ISREG(file.status.st_mode)) return nfsstat3::NFS3ERR_INVAL;
  // The owner opened it for writing once; its mode may have changed since.
  if (caller.uid != file.status.st_uid) {
    const nfsstat3 refused = tree.may(caller, file, kWrite);
    if (refused != nfsstat3::NFS3_OK) return refused;
  }
  const files::File* const content = file.file->content(true);
  if (content == nullptr) return status_of(errno);
  file.file->close_writable_when_idle(file.status);
  return status_of_last(::ftruncate(content->descriptor(), static_cast<off_t>(size)));
}

bool is_default(const nfs3::sattr3& attributes) {
  return attributes.atime.set_it() == time_how::DONT_CHANGE &&
         attributes.mtime.set_it() == time_how::DONT_CHANGE;
}

timespec time_to_set(time_how how, const nfs3::nfstime3* time) {
  switch (how) {
    case time_how::SET_TO_SERVER_TIME:
      return {0, UTIME_NOW};
    case time_how::SET_TO_CLIENT_TIME:
      return time_of(*time);
    case time_how::DONT_CHANGE:
      break;
  }
  return {0, UTIME_OMIT};
}

// The kernel lets others than the owner set both times to now, and nothing else. A client that
// opens a file anew sets one of them.
bool is_touch_of_a_writer(const Caller& caller, const Found& file, const nfs3::sattr3& attributes) {
  return caller.uid != file.status.st_uid && caller.uid != 0 &&
         attributes.atime.set_it() != time_how::SET_TO_CLIENT_TIME &&
         attributes.mtime.set_it() != time_how::SET_TO_CLIENT_TIME;
}

nfsstat3 set_times(const Caller& caller, const Tree& tree, const Found& file,
                   const nfs3::sattr3& attributes) {
  const std::array<timespec, 2> times{
      time_to_set(attributes.atime.set_it(), attributes.atime.atime()),
      time_to_set(attributes.mtime.set_it(), attributes.mtime.mtime())};
  const auto set = [&] {
    return status_of_last(::utimensat(file.descriptor(), "", times.data(), AT_EMPTY_PATH));
  };
  if (!is_touch_of_a_writer(caller, file, attributes)) return set();
  const nfsstat3 refused = tree.may(caller, file, kWrite);
  if (refused != nfsstat3::NFS3_OK) return refused;
  const AsServer as_server;
  return set();
}

// What the kernel asks of the caller, where it knows the server alone.
nfsstat3 may_set(const Caller& caller, const Tree& tree, const Found& file,
                 const nfs3::sattr3& attributes) {
  if (can_take_identities() || caller.uid == 0 || caller.uid == file.status.st_uid) {
    return nfsstat3::NFS3_OK;
  }
  const bool touches = attributes.atime.set_it() != time_how::SET_TO_CLIENT_TIME &&
                       attributes.mtime.set_it() != time_how::SET_TO_CLIENT_TIME;
  if (attributes.mode.mode() != nullptr || attributes.uid.uid() != nullptr ||
      attributes.gid.gid() != nullptr || !touches) {
    return nfsstat3::NFS3ERR_PERM;
  }
  return is_default(attributes) ? nfsstat3::NFS3_OK : tree.may(caller, file, kWrite);
}

}  // namespace

nfsstat3 set_attributes(const Caller& caller, const Tree& tree, const Found& file,
                        const nfs3::sattr3& attributes) {
  nfsstat3 status = may_set(caller, tree, file, attributes);
  if (const auto* const size = attributes.size.size(); status == nfsstat3::NFS3_OK && size) {
    status = set_size(caller, tree, file, *size);
  }
  // A change of the owner takes the set-user-id bit away, so that the mode comes behind it.
  const auto *const uid = attributes.uid.uid(), *const gid = attributes.gid.gid();
  if (status == nfsstat3::NFS3_OK && (uid != nullptr || gid != nullptr)) {
    constexpr auto kSame = static_cast<uid_t>(-1);
    status = status_of_last(::fchownat(file.descriptor(), "", uid != nullptr ? *uid : kSame,
                                       gid != nullptr ? *gid : kSame, AT_EMPTY_PATH));
  }
  if (const auto* const mode = attributes.mode.mode(); status == nfsstat3::NFS3_OK && mode) {
    // What is open with O_PATH has no fchmod(2).
    const std::string link = "/proc/self/fd/" + std::to_string(file.descriptor());
    status = status_of_last(::chmod(link.c_str(), *mode & 07777U));
  }
  // What was cut just now has been changed now.
  const bool is_done = attributes.size.size() != nullptr &&
                       attributes.mtime.set_it() == time_how::SET_TO_SERVER_TIME &&
                       attributes.atime.set_it() == time_how::DONT_CHANGE;
  if (status == nfsstat3::NFS3_OK && !is_default(attributes) && !is_done) {
    status = set_times(caller, tree, file, attributes);
  }
  return status;
}

nfs3::GETATTR3res run(Tree& tree, const Caller& /*caller*/, const nfs3::GETATTR3args& args) {
  const Found file = tree.find(args.object);
  if (!file) return failed<nfs3::GETATTR3res>(file.error);
  return succeeded<nfs3::GETATTR3res>(nfs3::GETATTR3resok{attributes_of(file.status, tree.fsid())});
}

nfs3::SETATTR3res run(Tree& tree, const Caller& caller, const nfs3::SETATTR3args& args) {
  Found file = tree.find(args.object);
  if (!file) return failed<nfs3::SETATTR3res>(file.error);
  const std::lock_guard lock(tree.lock_of(file.file->handle()));
  const OpenFile::Quiet quiet(*file.file);
  (void)::fstat(file.descriptor(), &file.status);
  nfsstat3 status = nfsstat3::NFS3_OK;
  const auto* const guard = args.guard.obj_ctime();
  if (guard != nullptr && *guard != time_of(file.status.st_ctim)) {
    status = nfsstat3::NFS3ERR_NOT_SYNC;
  } else {
    status = set_attributes(caller, tree, file, args.new_attributes);
    if (status == nfsstat3::NFS3_OK && !tree.settle(file)) status = status_of(errno);
  }
  nfs3::wcc_data wcc{{}, tree.attributes_now(file)};
  if (quiet) wcc.before = before(file.status);
  if (status != nfsstat3::NFS3_OK) {
    return failed<nfs3::SETATTR3res>(status, nfs3::SETATTR3resfail{std::move(wcc)});
  }
  return succeeded<nfs3::SETATTR3res>(nfs3::SETATTR3resok{std::move(wcc)});
}

nfs3::ACCESS3res run(Tree& tree, const Caller& caller, const nfs3::ACCESS3args& args) {
  const Found file = tree.find(args.object);
  if (!file) return failed<nfs3::ACCESS3res>(file.error);
  const bool is_directory = S_ISDIR(file.status.st_mode);
  const auto allows = [&](unsigned rights) {
    return tree.may(caller, file, rights) == nfsstat3::NFS3_OK;
  };
  std::uint32_t granted = 0;
  if ((args.access & nfs3::ACCESS3_READ) != 0 && allows(kRead)) granted |= nfs3::ACCESS3_READ;
  constexpr std::uint32_t kChanges = nfs3::ACCESS3_MODIFY | nfs3::ACCESS3_EXTEND;
  if ((args.access & (kChanges | nfs3::ACCESS3_DELETE)) != 0 &&
      allows(is_directory ? kWrite | kExecute : kWrite)) {
    granted |= args.access & (is_directory ? kChanges | nfs3::ACCESS3_DELETE : kChanges);
  }
  const std::uint32_t entering = is_directory ? nfs3::ACCESS3_LOOKUP : nfs3::ACCESS3_EXECUTE;
  if ((args.access & entering) != 0 && allows(kExecute)) granted |= entering;
  return succeeded<nfs3::ACCESS3res>(nfs3::ACCESS3resok{after(file.status, tree.fsid()), granted});
}

nfs3::FSSTAT3res run(Tree& tree, const Caller& /*caller*/, const nfs3::FSSTAT3args& args) {
  const Found file = tree.find(args.fsroot);
  if (!file) return failed<nfs3::FSSTAT3res>(file.error);
  struct statvfs space {};
  if (::fstatvfs(file.descriptor(), &space) != 0) {
    return failed<nfs3::FSSTAT3res>(status_of(errno),
                                    nfs3::FSSTAT3resfail{after(file.status, tree.fsid())});
  }
  nfs3::FSSTAT3resok result;
  result.obj_attributes = after(file.status, tree.fsid());
  result.tbytes = space.f_blocks * space.f_frsize;
  result.fbytes = space.f_bfree * space.f_frsize;
  result.abytes = space.f_bavail * space.f_frsize;
  result.tfiles = space.f_files;
  result.ffiles = space.f_ffree;
  result.afiles = space.f_favail;
  return succeeded<nfs3::FSSTAT3res>(std::move(result));
}

nfs3::FSINFO3res run(Tree& tree, const Caller& /*caller*/, const nfs3::FSINFO3args& args) {
  const Found file = tree.find(args.fsroot);
  if (!file) return failed<nfs3::FSINFO3res>(file.error);
  nfs3::FSINFO3resok result;
  result.obj_attributes = after(file.status, tree.fsid());
  result.maxfilesize = kSizeMax;
  result.time_delta = {0, 1};
  result.properties =
      nfs3::FSF3_LINK | nfs3::FSF3_SYMLINK | nfs3::FSF3_HOMOGENEOUS | nfs3::FSF3_CANSETTIME;
  return succeeded<nfs3::FSINFO3res>(std::move(result));
}

nfs3::PATHCONF3res run(Tree& tree, const Caller& /*caller*/, const nfs3::PATHCONF3args& args) {
  const Found file = tree.find(args.object);
  if (!file) return failed<nfs3::PATHCONF3res>(file.error);
  constexpr std::uint32_t kLinksMax = 32000;
  nfs3::PATHCONF3resok result;
  result.obj_attributes = after(file.status, tree.fsid());
  result.linkmax = kLinksMax;
  result.name_max = nfs3::NFS3_NAME_MAX;
  result.no_trunc = true;
  result.chown_restricted = true;
  result.case_insensitive = false;
  result.case_preserving = true;
  return succeeded<nfs3::PATHCONF3res>(std::move(result));
}

}  // namespace nfs::posix
