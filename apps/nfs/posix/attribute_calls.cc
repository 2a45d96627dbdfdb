#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "nfs/back_end/attributes.h"
#include "nfs/back_end/limits.h"
#include "nfs/posix/calls.h"
#include "nfs/results.h"

namespace nfs::posix {
namespace {

using nfs3::nfsstat3;
using nfs3::time_how;

nfsstat3 status_of_last(int result) {
  return result == 0 ? nfsstat3::NFS3_OK : status_of(errno);
}

// Finds what forbids the caller to set the size.
nfsstat3 may_set_size(const Caller& caller, const Tree& tree, const Found& file) {
  if (S_ISDIR(file.status.st_mode)) return nfsstat3::NFS3ERR_ISDIR;
  if (!S_ISREG(file.status.st_mode)) return nfsstat3::NFS3ERR_INVAL;
  // The owner opened it for writing once; its mode may have changed since.
  const nfsstat3 refused =
      caller.uid == file.status.st_uid ? nfsstat3::NFS3_OK : tree.may(caller, file, kWrite);
  if (refused != nfsstat3::NFS3_OK) return refused;
  return file.file->content(true) != nullptr ? nfsstat3::NFS3_OK : status_of(errno);
}

nfsstat3 set_size(const Found& file, std::uint64_t size) {
  const files::File* const content = file.file->content(true);
  if (content == nullptr) return status_of(errno);
  file.file->close_writable_when_idle(file.status);
  return status_of_last(::ftruncate(content->descriptor(), static_cast<off_t>(size)));
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

// Finds what forbids any of it, before anything is changed: a refused change of the owner is not to
// cost the file's content.
nfsstat3 may_set_all(const Caller& caller, const Tree& tree, const Found& file,
                     const nfs3::sattr3& attributes) {
  const auto may = [&](unsigned rights) { return tree.may(caller, file, rights); };
  nfsstat3 status = nfs::may_set(file.status, caller, attributes, may);
  if (status == nfsstat3::NFS3_OK) status = may_own(file.status, kernel_sees(caller), attributes);
  if (status == nfsstat3::NFS3_OK && attributes.size.size() != nullptr) {
    status = may_set_size(caller, tree, file);
  }
  return status;
}

}  // namespace

nfsstat3 set_attributes(const Caller& caller, const Tree& tree, const Found& file,
                        const nfs3::sattr3& attributes) {
  nfsstat3 status = may_set_all(caller, tree, file, attributes);
  // The size comes first: nobody can foresee a quota, or the largest file.
  if (const auto* const size = attributes.size.size(); status == nfsstat3::NFS3_OK && size) {
    status = set_size(file, *size);
  }
  // A change of the owner takes the set-user-id bit away, so that the mode comes behind it.
  const auto *const uid = attributes.uid.uid(), *const gid = attributes.gid.gid();
  if (status == nfsstat3::NFS3_OK && (uid != nullptr || gid != nullptr)) {
    constexpr auto kSame = static_cast<uid_t>(-1);
    status = status_of_last(::fchownat(file.descriptor(), "", uid != nullptr ? *uid : kSame,
                                       gid != nullptr ? *gid : kSame, AT_EMPTY_PATH));
  }
  // A symbolic link has no mode of its own here; the rest is set without it.
  const auto* const mode = S_ISLNK(file.status.st_mode) ? nullptr : attributes.mode.mode();
  if (status == nfsstat3::NFS3_OK && mode != nullptr) {
    // fchmod(2) does not take a descriptor that is open with O_PATH.
    const std::string link = "/proc/self/fd/" + std::to_string(file.descriptor());
    status = status_of_last(::chmod(link.c_str(), *mode & 07777U));
  }
  // Cutting the file has just set its time of change to now.
  const bool is_done = attributes.size.size() != nullptr &&
                       attributes.mtime.set_it() == time_how::SET_TO_SERVER_TIME &&
                       attributes.atime.set_it() == time_how::DONT_CHANGE;
  if (status == nfsstat3::NFS3_OK && sets_times(attributes) && !is_done) {
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
  if (!tree.prepare_to_settle(file)) return failed<nfs3::SETATTR3res>(status_of(errno));
  std::unique_lock lock(tree.lock_of(file.file->handle()));
  const OpenFile::Quiet quiet(*file.file);
  (void)::fstat(file.descriptor(), &file.status);
  nfsstat3 status = nfsstat3::NFS3_OK;
  const auto* const guard = args.guard.obj_ctime();
  if (guard != nullptr && !is_time(*guard, file.status.st_ctim)) {
    status = nfsstat3::NFS3ERR_NOT_SYNC;
  } else {
    status = set_attributes(caller, tree, file, args.new_attributes);
  }
  nfs3::wcc_data wcc{{}, tree.attributes_now(file)};
  if (quiet) wcc.before = before(file.status);
  lock.unlock();
  if (status == nfsstat3::NFS3_OK && !tree.settle(file)) status = status_of(errno);
  if (status != nfsstat3::NFS3_OK) {
    return failed<nfs3::SETATTR3res>(status, nfs3::SETATTR3resfail{std::move(wcc)});
  }
  return succeeded<nfs3::SETATTR3res>(nfs3::SETATTR3resok{std::move(wcc)});
}

nfs3::ACCESS3res run(Tree& tree, const Caller& caller, const nfs3::ACCESS3args& args) {
  const Found file = tree.find(args.object);
  if (!file) return failed<nfs3::ACCESS3res>(file.error);
  const std::uint32_t rights = granted(args.access, file.status,
                                       [&](unsigned each) { return tree.may(caller, file, each); });
  return succeeded<nfs3::ACCESS3res>(nfs3::ACCESS3resok{after(file.status, tree.fsid()), rights});
}

nfs3::FSSTAT3res run(Tree& tree, const Caller& /*caller*/, const nfs3::FSSTAT3args& args) {
  const Found file = tree.find(args.fsroot);
  if (!file) return failed<nfs3::FSSTAT3res>(file.error);
  struct statvfs space {};
  if (::fstatvfs(file.descriptor(), &space) != 0) {
    return failed<nfs3::FSSTAT3res>(status_of(errno),
                                    nfs3::FSSTAT3resfail{after(file.status, tree.fsid())});
  }
  return succeeded<nfs3::FSSTAT3res>(space_of(after(file.status, tree.fsid()), space));
}

nfs3::FSINFO3res run(Tree& tree, const Caller& /*caller*/, const nfs3::FSINFO3args& args) {
  const Found file = tree.find(args.fsroot);
  if (!file) return failed<nfs3::FSINFO3res>(file.error);
  return succeeded<nfs3::FSINFO3res>(limits_of(after(file.status, tree.fsid()), tree.limits()));
}

nfs3::PATHCONF3res run(Tree& tree, const Caller& /*caller*/, const nfs3::PATHCONF3args& args) {
  const Found file = tree.find(args.object);
  if (!file) return failed<nfs3::PATHCONF3res>(file.error);
  return succeeded<nfs3::PATHCONF3res>(
      path_limits_of(after(file.status, tree.fsid()), tree.limits()));
}

}  // namespace nfs::posix
